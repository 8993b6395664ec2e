//! Session with the rules that all tools share: options are validated before the author's code runs.

use super::{Answer, Snapshot, Tool};
use crate::{Call, Error, Function, NamedValue, PluginOptions as _};

/// Tool session with the checks that the host relies on, also for use in native tests.
#[derive(Debug)]
pub struct Session<T> {
    tool: T,
}

impl<T: Tool> Session<T> {
    /// Functions under these options.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for invalid options.
    pub fn functions(options: Vec<NamedValue>) -> Result<Vec<Function>, Error> {
        T::functions(&T::Options::parse(options)?)
    }

    /// Opens a session.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for invalid options, and the tool's own errors.
    pub fn open(setup: Option<Vec<u8>>, options: Vec<NamedValue>, seed: u64) -> Result<Self, Error> {
        Ok(Self { tool: T::open(setup, &T::Options::parse(options)?, seed)? })
    }

    /// Calls a function.
    ///
    /// # Errors
    ///
    /// Errors of the tool.
    pub fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        self.tool.call(call)
    }

    /// State of the tool.
    #[must_use]
    pub fn tool(&self) -> &T {
        &self.tool
    }
}

impl<T: Snapshot> Session<T> {
    /// Session with the state of a snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for invalid bytes.
    pub fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        Ok(Self { tool: T::restore(snapshot)? })
    }
}
