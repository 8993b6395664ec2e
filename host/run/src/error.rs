//! Errors of a run, each with the side that can fix it.

use std::fmt::Display;

use gymkhana_store::StoreError;

/// The side that can fix an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The user: a run file, a plugin, a model, a full disk. Programs exit with 2.
    User,
    /// This program. Programs exit with 1.
    Internal,
}

/// An error with its causes and its kind.
#[derive(Debug)]
pub struct RunError {
    kind: ErrorKind,
    error: anyhow::Error,
}

/// Result of everything that a run does.
pub type RunResult<T> = Result<T, RunError>;

impl RunError {
    /// An error that the user can fix; the message names the object and the fix.
    pub fn user(message: impl Display) -> Self {
        Self { kind: ErrorKind::User, error: anyhow::anyhow!("{message}") }
    }

    /// An error of this program.
    pub fn internal(message: impl Display) -> Self {
        Self { kind: ErrorKind::Internal, error: anyhow::anyhow!("{message}") }
    }

    /// The side that can fix it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl Display for RunError {
    /// The error and its causes, one per line; a cause that its message repeats is left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = self.error.to_string();
        write!(f, "{shown}")?;
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            if !shown.contains(&cause) {
                write!(f, "\n  because: {cause}")?;
                shown = cause;
            }
        }
        Ok(())
    }
}

impl std::error::Error for RunError {}

/// Gives a failed result its kind.
pub trait Classify<T> {
    /// Marks the error as the user's to fix.
    ///
    /// # Errors
    /// The error itself.
    fn user_error(self) -> RunResult<T>;

    /// As [`Classify::user_error`], under a message that names the object and the fix; the error becomes its cause.
    ///
    /// # Errors
    /// The error itself.
    fn user_context(self, message: impl Display) -> RunResult<T>;

    /// Marks the error as this program's.
    ///
    /// # Errors
    /// The error itself.
    fn internal(self) -> RunResult<T>;
}

impl<T, E: Into<anyhow::Error>> Classify<T> for Result<T, E> {
    fn user_error(self) -> RunResult<T> {
        self.map_err(|error| RunError { kind: ErrorKind::User, error: error.into() })
    }

    fn user_context(self, message: impl Display) -> RunResult<T> {
        self.map_err(|error| RunError { kind: ErrorKind::User, error: error.into().context(message.to_string()) })
    }

    fn internal(self) -> RunResult<T> {
        self.map_err(|error| RunError { kind: ErrorKind::Internal, error: error.into() })
    }
}

impl From<StoreError> for RunError {
    /// Disk errors are the user's to fix; a record that cannot be stored is this program's.
    fn from(error: StoreError) -> Self {
        let kind = if matches!(error, StoreError::Unstorable(..)) { ErrorKind::Internal } else { ErrorKind::User };
        Self { kind, error: error.into() }
    }
}
