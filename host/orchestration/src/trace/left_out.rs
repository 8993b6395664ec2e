//! A build without receivers of spans.

use std::path::Path;

use crate::error::{RunError, RunResult};
use crate::report::Reporter;

/// Receivers of this process's spans: none.
pub struct Trace;

impl Trace {
    /// No receivers.
    ///
    /// # Errors
    /// If there is to be a file.
    pub fn open(file: Option<&Path>) -> RunResult<Self> {
        match file {
            Some(file) => Err(RunError::left_out(format!("--trace {} cannot be written", file.display()), "spans")),
            None => Ok(Self),
        }
    }

    /// Does nothing.
    ///
    /// # Errors
    /// None.
    pub fn start(&self) -> RunResult<()> {
        Ok(())
    }

    /// Does nothing.
    ///
    /// # Errors
    /// None.
    #[allow(clippy::unused_async)]
    pub async fn finish(self, _reporter: &dyn Reporter) -> RunResult<()> {
        Ok(())
    }
}
