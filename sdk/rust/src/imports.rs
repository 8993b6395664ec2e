//! Host interfaces as plain functions.
//!
//! In native tests the host is absent: `log` discards its messages, `random` uses a fixed seed, the clock reads 0 and
//! functions that require a grant return [`crate::Error::Denied`].

use crate::bindings::imports::gymkhana::plugin as wit;

/// Error of a capability in native tests.
#[cfg(not(target_arch = "wasm32"))]
fn no_host(capability: &str) -> crate::Error {
    crate::Error::Denied(format!("`{capability}` requires a host; it is unavailable in native tests"))
}

/// Messages for the run's log, limited in size by the host.
pub mod log {
    use super::wit::log::Level;

    fn write(level: Level, message: &str) {
        #[cfg(target_arch = "wasm32")]
        super::wit::log::write(level, message);
        #[cfg(not(target_arch = "wasm32"))]
        let _ = (level, message);
    }

    /// Logs a message for debugging.
    pub fn debug(message: &str) {
        write(Level::Debug, message);
    }

    /// Logs an informative message.
    pub fn info(message: &str) {
        write(Level::Info, message);
    }

    /// Logs a warning.
    pub fn warn(message: &str) {
        write(Level::Warn, message);
    }

    /// Logs an error.
    pub fn error(message: &str) {
        write(Level::Error, message);
    }
}

/// Random bits from the host's stream for this episode, plugin and call.
pub mod random {
    #[cfg(not(target_arch = "wasm32"))]
    thread_local! {
        static STREAM: std::cell::RefCell<crate::Rng> = std::cell::RefCell::new(crate::Rng::new(0));
    }

    /// Next 64 bits.
    #[must_use]
    pub fn next() -> u64 {
        #[cfg(target_arch = "wasm32")]
        return super::wit::random::next();
        #[cfg(not(target_arch = "wasm32"))]
        STREAM.with_borrow_mut(crate::Rng::bits)
    }

    /// `length` random bytes.
    #[must_use]
    pub fn fill(length: u32) -> Vec<u8> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::random::fill(length);
        #[cfg(not(target_arch = "wasm32"))]
        (0..length).map(|_| next() as u8).collect()
    }
}

/// Virtual time of the episode, controlled by the host.
pub mod clock {
    /// Nanoseconds since the start of the episode.
    #[must_use]
    pub fn now() -> u64 {
        #[cfg(target_arch = "wasm32")]
        return super::wit::clock::now();
        #[cfg(not(target_arch = "wasm32"))]
        0
    }
}

/// Read-only files that the run mounts for this plugin. Requires the capability `assets`.
pub mod assets {
    pub use super::wit::assets::AssetInfo;
    use crate::Error;

    /// Mounted files.
    #[must_use]
    pub fn names() -> Vec<AssetInfo> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::assets::names();
        #[cfg(not(target_arch = "wasm32"))]
        Vec::new()
    }

    /// Up to `length` bytes from `offset`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for an unknown name, [`Error::Denied`] if the run does not grant `assets`.
    pub fn read(name: &str, offset: u64, length: u32) -> Result<Vec<u8>, Error> {
        #[cfg(target_arch = "wasm32")]
        return super::wit::assets::read(name, offset, length);
        #[cfg(not(target_arch = "wasm32"))]
        {
            let _ = (name, offset, length);
            Err(super::no_host("assets"))
        }
    }

    /// Complete content of an asset.
    ///
    /// # Errors
    ///
    /// Errors of [`read`].
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

/// Completions by a model that the run binds to this plugin. Requires the capability `model`.
pub mod model {
    pub use super::wit::model::{Message, Reply, Request, Role, Usage};
    use crate::Error;

    /// Requests the model's reply.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`] if the run does not grant `model`; [`Error::Other`] if the model fails or the budget is
    /// exhausted.
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

/// Tool calls by rewards, in separate sessions of the reward. Requires the capability `tools`.
pub mod tools {
    pub use super::wit::tools::Answer;
    use crate::{Call, Error, Function};

    /// Available functions.
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
    /// [`Error::NotFound`] for an unknown function, [`Error::Denied`] if the run does not grant `tools`.
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

/// Outbound HTTP to the servers that the run allows. Requires the capability `http`.
pub mod http {
    pub use super::wit::http::{Header, Request, Response};
    use crate::Error;

    /// Sends a request and waits for the complete response.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`] for a server that the run does not allow; [`Error::Other`] for a network failure.
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
