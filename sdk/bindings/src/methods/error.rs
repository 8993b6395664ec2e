//! Short constructors for the contract's errors.

use crate::{Error, Task, listed};

impl Error {
    /// Unknown or out-of-range option or task.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Unknown split, task, handle or function.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::NotFound(message.into())
    }

    /// Error for an unknown split; `known` lists the existing ones.
    #[must_use]
    pub fn no_split(task: &Task, known: &[&str]) -> Self {
        Self::NotFound(format!("unknown split `{}`; known: {}", task.split, listed(known)))
    }

    /// Bytes that are not a snapshot of this plugin.
    #[must_use]
    pub fn bad_snapshot(message: impl Into<String>) -> Self {
        Self::BadSnapshot(message.into())
    }
}
