//! Errors of a run file.

use std::path::PathBuf;

/// A run file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// The file cannot be read.
    #[error("run file `{path}` cannot be read\nhint: {}", hint_of(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file is not TOML, or a key is unknown or of another type.
    #[error("{origin}: {message}")]
    Malformed {
        /// The file's name, as given.
        origin: String,
        /// The parser's message, with a hint where a name is misspelt.
        message: String,
    },
    /// A `--set` argument is not `key=value`, or its key does not exist.
    #[error("--set {text}: {reason}")]
    Set {
        /// The argument.
        text: String,
        /// The cause.
        reason: String,
    },
    /// A value is out of range.
    #[error("{key} is out of range: {value}\nhint: use {range}")]
    Range {
        /// The dotted key.
        key: String,
        /// The value.
        value: String,
        /// The allowed range, in words.
        range: &'static str,
    },
    /// Two sections contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

impl RunFileError {
    /// The same error with a section before the key that it names.
    pub(crate) fn below(self, section: &str) -> Self {
        match self {
            Self::Range { key, value, range } => Self::Range { key: format!("{section}.{key}"), value, range },
            Self::Contradiction(message) => Self::Contradiction(format!("{section}.{message}")),
            other => other,
        }
    }
}

/// What helps if a run file cannot be read.
fn hint_of(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::InvalidData => "save it as UTF-8 text",
        std::io::ErrorKind::FileTooLarge => "name a run file",
        _ => "check the path",
    }
}
