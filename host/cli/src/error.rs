//! Whose mistake an error is: the user's ends with exit code 2, ours with 1.

use std::fmt::Display;

use gymkhana_store::StoreError;

/// An error with its exit code.
#[derive(Debug)]
pub struct CliError {
    users: bool,
    error: anyhow::Error,
}

/// What commands return.
pub type CliResult<T> = Result<T, CliError>;

impl CliError {
    /// A mistake of the user's, in one sentence that names the object and the fix.
    pub fn mistake(message: impl Display) -> Self {
        Self { users: true, error: anyhow::anyhow!("{message}") }
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        if self.users { 2 } else { 1 }
    }
}

impl Display for CliError {
    /// The error and its causes, one a line; a cause that its message repeats is left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut said = self.error.to_string();
        write!(f, "error: {said}")?;
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            if !said.contains(&cause) {
                write!(f, "\n  because: {cause}")?;
                said = cause;
            }
        }
        Ok(())
    }
}

/// Says whose mistake a failed result is.
pub trait Blame<T> {
    /// The user's.
    fn users(self) -> CliResult<T>;
    /// The user's, in words that name the object and the fix; the error itself becomes their cause.
    fn users_as(self, message: impl Display) -> CliResult<T>;
    /// Ours.
    fn ours(self) -> CliResult<T>;
}

impl<T, E: Into<anyhow::Error>> Blame<T> for Result<T, E> {
    fn users(self) -> CliResult<T> {
        self.map_err(|error| CliError { users: true, error: error.into() })
    }

    fn users_as(self, message: impl Display) -> CliResult<T> {
        self.map_err(|error| CliError { users: true, error: error.into().context(message.to_string()) })
    }

    fn ours(self) -> CliResult<T> {
        self.map_err(|error| CliError { users: false, error: error.into() })
    }
}

impl From<StoreError> for CliError {
    /// What the user can put right on the disk is the user's; what we failed to write as we should is ours.
    fn from(error: StoreError) -> Self {
        let users = !matches!(error, StoreError::Unstorable(..));
        Self { users, error: error.into() }
    }
}
