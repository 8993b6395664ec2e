//! Errors of a run, each with the side that can fix it and a hint.

use std::fmt::{Display, Formatter};

use gymkhana_store::StoreError;

/// Separator between a message and its hint.
const HINT: &str = "\nhint: ";

/// Ends of the system's messages when the process, or the machine, has all the files open that it may have.
const NO_HANDLES: [&str; 2] = ["(os error 24)", "(os error 23)"];
/// Hint for them.
const RAISE_HANDLES: &str = "raise the limit of open files, such as with `ulimit -n 65536`, and run again";

/// The side that can fix an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunErrorKind {
    /// The user: a run file, a plugin, a model, a full disk. Programs exit with 2.
    User,
    /// This program. Programs exit with 1.
    Internal,
}

/// An error with its causes, its kind and a hint.
#[derive(Debug)]
pub struct RunError {
    kind: RunErrorKind,
    error: anyhow::Error,
    hint: Option<String>,
}

/// Result of every operation of a run.
pub type RunResult<T> = Result<T, RunError>;

impl RunError {
    /// An error that the user can fix. A line `hint: …` of the message becomes the hint.
    pub fn user(message: impl Display) -> Self {
        Self { kind: RunErrorKind::User, error: anyhow::anyhow!("{message}"), hint: None }
    }

    /// An error of this program.
    pub fn internal(message: impl Display) -> Self {
        Self { kind: RunErrorKind::Internal, error: anyhow::anyhow!("{message}"), hint: None }
    }

    /// An error of a smaller build: `what` needs `part`, which its features leave out.
    pub fn left_out(what: impl Display, part: impl Display) -> Self {
        Self::user(format!("{what}: this build of the host leaves out {part}"))
            .with_hint("run `cargo xtask setup`, which builds everything")
    }

    /// The same error with this hint, which replaces hints of its messages.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The same error, with this hint if it has none.
    #[must_use]
    pub fn or_hint(self, hint: impl Display) -> Self {
        if self.hint().is_some() { self } else { self.with_hint(hint) }
    }

    /// The same error under the name of its object.
    #[must_use]
    pub fn prefixed(self, object: impl Display) -> Self {
        Self { kind: self.kind, error: anyhow::anyhow!("{object}: {self}"), hint: self.hint() }
    }

    /// The side that can fix it.
    #[must_use]
    pub fn kind(&self) -> RunErrorKind {
        self.kind
    }

    /// The hint: the one set, else the first among the messages of the error and its causes. A process without file handles
    /// has a hint of its own, whatever it could not open.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        if self.error.chain().any(|cause| NO_HANDLES.iter().any(|end| cause.to_string().contains(end))) {
            return Some(RAISE_HANDLES.to_owned());
        }
        let of_messages = || self.error.chain().find_map(|cause| split(&cause.to_string()).1);
        self.hint.clone().or_else(of_messages)
    }
}

/// A message without its hint, and the hint.
fn split(message: &str) -> (String, Option<String>) {
    match message.split_once(HINT) {
        None => (message.to_owned(), None),
        // Text behind the hint's line belongs to the message.
        Some((before, rest)) => match rest.split_once('\n') {
            None => (before.to_owned(), Some(rest.to_owned())),
            Some((hint, behind)) => (format!("{before}\n{behind}"), Some(hint.to_owned())),
        },
    }
}

impl Display for RunError {
    /// The error, its causes and its hint, one per line. A cause that the line before contains is omitted.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut shown = split(&self.error.to_string()).0;
        write!(f, "{shown}")?;
        for cause in self.error.chain().skip(1) {
            let cause = split(&cause.to_string()).0;
            // A parser's message may end with a line end.
            let cause = cause.trim_end().to_owned();
            if !shown.contains(&cause) {
                write!(f, "\n  because: {cause}")?;
                shown = cause;
            }
        }
        self.hint().map_or(Ok(()), |hint| write!(f, "{HINT}{hint}"))
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
        self.map_err(|error| RunError { kind: RunErrorKind::User, error: error.into(), hint: None })
    }

    fn user_context(self, message: impl Display) -> RunResult<T> {
        self.map_err(|error| {
            let error = error.into().context(message.to_string());
            RunError { kind: RunErrorKind::User, error, hint: None }
        })
    }

    fn internal(self) -> RunResult<T> {
        self.map_err(|error| RunError { kind: RunErrorKind::Internal, error: error.into(), hint: None })
    }
}

impl From<StoreError> for RunError {
    /// Disk errors are the user's to fix; a record that cannot be stored is this program's.
    fn from(error: StoreError) -> Self {
        let kind =
            if matches!(error, StoreError::Unstorable(..)) { RunErrorKind::Internal } else { RunErrorKind::User };
        Self { kind, error: error.into(), hint: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_follows_the_causes() {
        let missing = || std::io::Error::other("no such file");
        let error = Err::<(), _>(missing()).user_context("`x` cannot be read\nhint: check the path").unwrap_err();
        assert_eq!(error.to_string(), "`x` cannot be read\n  because: no such file\nhint: check the path");
        assert_eq!(error.kind(), RunErrorKind::User);
        assert_eq!(error.hint().as_deref(), Some("check the path"));
        let error = error.or_hint("do nothing");
        let other = error.with_hint("restore it");
        assert_eq!(other.to_string(), "`x` cannot be read\n  because: no such file\nhint: restore it");
        let plain = Err::<(), _>(missing()).user_error().unwrap_err().or_hint("look again");
        assert_eq!(plain.to_string(), "no such file\nhint: look again");
    }

    #[test]
    fn the_outermost_hint_wins() {
        let inner = anyhow::anyhow!("the key is short\nhint: make a key").context("the folder is locked");
        assert_eq!(
            Err::<(), _>(inner).user_error().unwrap_err().to_string(),
            "the folder is locked\n  because: the key is short\nhint: make a key"
        );
        let both = anyhow::anyhow!("inner\nhint: no").context("outer\nhint: yes; did you mean `z`?");
        assert_eq!(
            Err::<(), _>(both).user_error().unwrap_err().to_string(),
            "outer\n  because: inner\nhint: yes; did you mean `z`?"
        );
    }

    #[test]
    fn a_process_without_file_handles_is_not_told_to_free_space() {
        let none = std::io::Error::from_raw_os_error(24);
        let error = Err::<(), _>(none).user_context("`x` cannot be written\nhint: free space").unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.contains("Too many open files") && shown.ends_with(&format!("\nhint: {RAISE_HANDLES}")),
            "{shown}"
        );
        let full = std::io::Error::from_raw_os_error(28);
        let error = Err::<(), _>(full).user_context("`x` cannot be written\nhint: free space").unwrap_err();
        assert!(error.to_string().ends_with("\nhint: free space"));
    }

    #[test]
    fn what_a_build_leaves_out_hints_at_the_set_up() {
        let error = RunError::left_out("the tool `x` is an MCP server", "MCP");
        assert_eq!(
            error.to_string(),
            "the tool `x` is an MCP server: this build of the host leaves out MCP\nhint: run `cargo xtask setup`, which \
             builds everything"
        );
        assert_eq!(error.kind(), RunErrorKind::User);
    }

    #[test]
    fn errors_without_a_hint_end_with_their_causes() {
        assert_eq!(RunError::internal("step 3 is missing").to_string(), "step 3 is missing");
        assert_eq!(RunError::user("a\nhint: b\nc").to_string(), "a\nc\nhint: b");
        let parser = anyhow::anyhow!("line 1\nexpected `=`\n").context("cannot parse `x`\nhint: restore it");
        let shown = Err::<(), _>(parser).user_error().unwrap_err().to_string();
        assert_eq!(shown, "cannot parse `x`\n  because: line 1\nexpected `=`\nhint: restore it");
    }
}
