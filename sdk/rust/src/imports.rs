//! What the host offers to a plugin, as plain functions.
//!
//! In native tests there is no host: `log` says nothing, `random` follows a fixed seed, the clock stands at
//! 0, and what needs a grant answers [`crate::Error::Denied`].

use crate::bindings::imports::gymkhana::plugin as wit;

/// What a capability answers where there is no host.
#[cfg(not(target_arch = "wasm32"))]
fn no_host(capability: &str) -> crate::Error {
    crate::Error::Denied(format!("`{capability}` needs a host, and native tests have none"))
}

/// Lines for the run's log, capped by the host.
pub mod log {
    use super::wit::log::Level;

    fn write(level: Level, message: &str) {
        #[cfg(target_arch = "wasm32")]
        super::wit::log::write(level, message);
        #[cfg(not(target_arch = "wasm32"))]
        let _ = (level, message);
    }

    /// For the author's eyes.
    pub fn debug(message: &str) {
        write(Level::Debug, message);
    }

    /// Worth knowing.
    pub fn info(message: &str) {
        write(Level::Info, message);
    }

    /// Worth a look.
    pub fn warn(message: &str) {
        write(Level::Warn, message);
    }

    /// Something went wrong.
    pub fn error(message: &str) {
        write(Level::Error, message);
    }
}

/// Random bits from the host's stream of this episode, this plugin and this call.
pub mod random {
    #[cfg(not(target_arch = "wasm32"))]
    thread_local! {
        static STREAM: std::cell::RefCell<crate::Rng> = std::cell::RefCell::new(crate::Rng::new(0));
    }

    /// The next 64 bits.
    #[must_use]
    pub fn next() -> u64 {
        #[cfg(target_arch = "wasm32")]
        return super::wit::random::next();
        #[cfg(not(target_arch = "wasm32"))]
        STREAM.with_borrow_mut(crate::Rng::bits)
    }

    /// `length` bytes.
    #[must_use]
    pub fn fill(length: u32) -> Vec<u8> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::random::fill(length);
        #[cfg(not(target_arch = "wasm32"))]
        (0..length).map(|_| next() as u8).collect()
    }
}

/// Time that passes only when the host says so.
pub mod clock {
    /// Nanoseconds since the episode began.
    #[must_use]
    pub fn now() -> u64 {
        #[cfg(target_arch = "wasm32")]
        return super::wit::clock::now();
        #[cfg(not(target_arch = "wasm32"))]
        0
    }
}

/// Files that the run mounts for this plugin. Needs the capability `assets`.
pub mod assets {
    pub use super::wit::assets::AssetInfo;
    use crate::Error;

    /// What is mounted.
    #[must_use]
    pub fn names() -> Vec<AssetInfo> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::assets::names();
        #[cfg(not(target_arch = "wasm32"))]
        Vec::new()
    }

    /// At most `length` bytes from `offset`; fewer at the end.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for an unknown name, [`Error::Denied`] without a grant.
    pub fn read(name: &str, offset: u64, length: u32) -> Result<Vec<u8>, Error> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::assets::read(name, offset, length);
        #[cfg(not(target_arch = "wasm32"))]
        {
            let _ = (name, offset, length);
            Err(super::no_host("assets"))
        }
    }

    /// All bytes of an asset.
    ///
    /// # Errors
    ///
    /// As [`read`].
    pub fn read_whole(name: &str) -> Result<Vec<u8>, Error> {
        const CHUNK: u32 = 1 << 20;
        let mut bytes = vec![];
        loop {
            let more = read(name, bytes.len() as u64, CHUNK)?;
            let last = more.len() < CHUNK as usize;
            bytes.extend(more);
            if last {
                return Ok(bytes);
            }
        }
    }
}

/// Completions by a model that the run binds to this plugin. Needs the capability `model`.
pub mod model {
    pub use super::wit::model::{Message, Reply, Request, Role, Usage};
    use crate::Error;

    /// The model's reply.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`] without a grant; [`Error::Other`] when the model fails or the budget is spent.
    pub fn complete(request: &Request) -> Result<Reply, Error> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::model::complete(request);
        #[cfg(not(target_arch = "wasm32"))]
        {
            let _ = request;
            Err(super::no_host("model"))
        }
    }
}

/// Tools for rewards that check an answer by calling one. Needs the capability `tools`.
pub mod tools {
    pub use super::wit::tools::Answer;
    use crate::{Call, Error, Function};

    /// What can be called.
    #[must_use]
    pub fn functions() -> Vec<Function> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::tools::functions();
        #[cfg(not(target_arch = "wasm32"))]
        Vec::new()
    }

    /// Calls a function.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for an unknown function, [`Error::Denied`] without a grant.
    pub fn call(call: &Call) -> Result<Answer, Error> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::tools::call(call);
        #[cfg(not(target_arch = "wasm32"))]
        {
            let _ = call;
            Err(super::no_host("tools"))
        }
    }
}

/// Outgoing HTTP to the hosts that the run allows. Needs the capability `http`.
pub mod http {
    pub use super::wit::http::{Header, Request, Response};
    use crate::Error;

    /// Sends a request and waits for the whole response.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`] for a host that the run does not allow; [`Error::Other`] when the network fails.
    pub fn send(request: &Request) -> Result<Response, Error> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::http::send(request);
        #[cfg(not(target_arch = "wasm32"))]
        {
            let _ = request;
            Err(super::no_host("http"))
        }
    }
}
