//! Errors of sessions.

use gymkhana_record::{Boundary, Failure};
use gymkhana_sandbox::{CallError, SplitInfo};

use crate::episode::StartFailure;
use crate::saved::session::NotSaved;

/// A split or a task that an environment does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// It has no split at all.
    #[error("environment `{environment}` has no split")]
    NoSplits {
        /// Short name of the environment.
        environment: String,
    },
    /// It has no split of this name.
    #[error("environment `{environment}` has no split `{split}`\nhint: use {}", hint(split, known))]
    UnknownSplit {
        /// Short name of the environment.
        environment: String,
        /// The name.
        split: String,
        /// Names of its splits.
        known: Vec<String>,
    },
    /// The split ends before the task.
    #[error("split `{split}` has no task {index}: its tasks are 0 to {}", tasks.saturating_sub(1))]
    NoTask {
        /// The split.
        split: String,
        /// Place of the task.
        index: u64,
        /// Number of its tasks.
        tasks: u64,
    },
}

impl TaskError {
    /// The error of a split that is not among these.
    pub fn of_split(environment: &str, split: &str, known: &[SplitInfo]) -> Self {
        let (environment, split) = (environment.to_owned(), split.to_owned());
        Self::UnknownSplit { environment, split, known: known.iter().map(|split| split.name.clone()).collect() }
    }
}

fn hint(split: &str, known: &[String]) -> String {
    let listed: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    listed.join(", ") + &gymkhana_nearest::did_you_mean(split, known.iter().map(String::as_str))
}

/// Reason why a session does not do what it is asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// The split or the task does not exist.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// No episode has begun.
    #[error("the episode cannot go on: none has begun")]
    NotBegun,
    /// The episode has ended.
    #[error("the episode cannot go on: it has ended")]
    Over,
    /// A plugin with a state offers no snapshots.
    #[error("the episode cannot be copied: its environment, or a tool that was called, offers no snapshots")]
    NotCopied,
    /// The episode was saved with other tools.
    #[error(transparent)]
    OtherTools(#[from] NotSaved),
    /// The environment does not offer an optional interface.
    #[error("{at} offers no {what}")]
    Unsupported {
        /// The environment.
        at: Boundary,
        /// Name of the interface.
        what: &'static str,
    },
    /// The environment did not start.
    #[error("{}", .0.failure)]
    NotStarted(Box<StartFailure>),
    /// A call of the episode failed.
    #[error("{0}")]
    Failed(Failure),
    /// A call that belongs to no episode failed.
    #[error("{error}")]
    Call {
        /// Short name of the plugin.
        plugin: String,
        /// Its error.
        error: CallError,
    },
}

impl From<Failure> for SessionError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<StartFailure> for SessionError {
    fn from(failure: StartFailure) -> Self {
        Self::NotStarted(Box::new(failure))
    }
}
