//! Errors of GGUF files.

use std::path::{Path, PathBuf};

/// A GGUF file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The file cannot be opened or read.
    #[error("cannot read `{}`\nhint: give the path of a readable GGUF file", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file is damaged, or needs what the import does not support.
    #[error("cannot import `{}`: {}\nhint: {}", path.display(), problem.what, problem.hint)]
    Problem {
        /// The file.
        path: PathBuf,
        /// The reason and the remedy.
        problem: Problem,
    },
}

/// What is wrong with a file, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    what: String,
    hint: String,
}

impl Problem {
    /// A damaged file.
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: "download the file again, or convert the model again".to_owned() }
    }

    /// A sound file that the import does not support.
    pub(crate) fn unsupported(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }

    pub(crate) fn at(self, path: &Path) -> GgufError {
        GgufError::Problem { path: path.to_owned(), problem: self }
    }
}
