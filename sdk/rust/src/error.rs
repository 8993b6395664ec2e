//! The contract's errors, made in few words.

use crate::{Error, Task};

impl Error {
    /// An option or a task that is unknown or out of range.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// No such split, task, handle or function.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::NotFound(message.into())
    }

    /// No such task, because the split is unknown; `known` are those that there are.
    #[must_use]
    pub fn no_split(task: &Task, known: &[&str]) -> Self {
        Self::NotFound(format!("there is no split `{}`; there are: {}", task.split, known.join(", ")))
    }

    /// Bytes that are no snapshot of this plugin.
    #[must_use]
    pub fn bad_snapshot(message: impl Into<String>) -> Self {
        Self::BadSnapshot(message.into())
    }
}
