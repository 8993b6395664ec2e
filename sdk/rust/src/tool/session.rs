//! One session with the rules that all tools share: options are checked before the author's code runs.

use super::{Answer, Snapshot, Tool};
use crate::{Call, Error, Function, NamedValue, Options};

/// A session as the host meets it; native tests drive it just so.
#[derive(Debug)]
pub struct Session<T> {
    tool: T,
}

impl<T: Tool> Session<T> {
    /// The functions under these options.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for options that the tool does not know.
    pub fn functions(options: Vec<NamedValue>) -> Result<Vec<Function>, Error> {
        T::functions(&Options::new(&T::info().options, options)?)
    }

    /// Opens a session.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for options that the tool does not know, and its own errors.
    pub fn open(setup: Option<Vec<u8>>, options: Vec<NamedValue>, seed: u64) -> Result<Self, Error> {
        let options = Options::new(&T::info().options, options)?;
        Ok(Self { tool: T::open(setup, &options, seed)? })
    }

    /// Calls a function.
    ///
    /// # Errors
    ///
    /// The tool's own errors.
    pub fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        self.tool.call(call)
    }

    /// The tool's own state.
    #[must_use]
    pub fn tool(&self) -> &T {
        &self.tool
    }
}

impl<T: Snapshot> Session<T> {
    /// A session in the state that `snapshot` saw.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for other bytes.
    pub fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        Ok(Self { tool: T::restore(snapshot)? })
    }
}
