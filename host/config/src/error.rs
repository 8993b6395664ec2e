//! Errors of a run file.

use std::path::PathBuf;

/// A run file says what cannot be.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// It cannot be read.
    #[error("the run file `{path}` cannot be read; check the path")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or has a key that is not known or of another type.
    #[error("{origin}: {message}")]
    Malformed {
        /// The file.
        origin: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// `--set` is not `key=value` or names nothing that can be set.
    #[error("--set {text}: {reason}")]
    Set {
        /// What was given.
        text: String,
        /// Why it cannot be.
        reason: String,
    },
    /// A value is out of range.
    #[error("{key} is {value}, but must be {range}")]
    Range {
        /// The key, with dots.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        range: &'static str,
    },
    /// Sections contradict each other or the plugins.
    #[error("{0}")]
    Contradiction(String),
}
