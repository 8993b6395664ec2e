//! Failures of a compilation, and of linking or caching its result.

use std::time::Duration;

use crate::{CacheError, SandboxError};

/// Limit of a compilation that was reached, or another way in which its process failed.
#[derive(Debug)]
pub(crate) enum CompilerFailure {
    /// The deadline passed.
    Time(Duration),
    /// The process was refused memory.
    Memory(u64),
    /// The process could not be started, or ended in another way.
    Process(String),
}

/// Failure to compile, link or cache a component, or to set up its engine.
pub(crate) enum CompileError {
    Engine(wasmtime::Error),
    Compiler(CompilerFailure),
    Cache(CacheError),
    Sandbox(SandboxError),
}

impl From<wasmtime::Error> for CompileError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<CacheError> for CompileError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}
