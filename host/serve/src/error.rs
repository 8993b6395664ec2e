//! Errors of sessions: the party at fault and the kind, which each endpoint writes in its protocol's own form.

use std::fmt::{Display, Formatter};

use gymkhana_driver::{SessionError, TaskError};
use gymkhana_record::{Boundary, Failure};
use gymkhana_sandbox::CallError;
use serde::{Deserialize, Serialize};

/// The party at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The client or the agent behind it: a wrong name, malformed input, a request out of order.
    Agent,
    /// A tool plugin.
    Tool,
    /// The environment plugin.
    Environment,
    /// A reward plugin.
    Reward,
    /// This program or its machine.
    Host,
}

impl Owner {
    /// All parties.
    pub const ALL: [Self; 5] = [Self::Agent, Self::Tool, Self::Environment, Self::Reward, Self::Host];

    /// The word in answers and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Environment => "environment",
            Self::Reward => "reward",
            Self::Host => "host",
        }
    }

    /// The party at fault for a recorded failure.
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        match &failure.at {
            _ if failure.kind.is_hosts() => Self::Host,
            Boundary::Environment(_) => Self::Environment,
            Boundary::Tool(_) => Self::Tool,
            Boundary::Reward(_) => Self::Reward,
            Boundary::Model | Boundary::Agent => Self::Agent,
            Boundary::Host => Self::Host,
        }
    }
}

/// Kinds of errors. Each belongs to a status of HTTP and to a code of each protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// No session of this client has this id: it never existed, was closed, has expired, or is another client's.
    UnknownSession,
    /// No environment, tool, function, split, task or option has this name or number.
    UnknownName,
    /// The request is malformed.
    BadInput,
    /// The request is well-formed and comes at the wrong time: before a reset, after the end, or for another turn.
    OutOfOrder,
    /// The request or a part of it is too large.
    TooLarge,
    /// The token is missing or not known.
    Unauthorized,
    /// The plugin or the protocol version does not offer it.
    Unsupported,
    /// No place became free in time; the same request may succeed later.
    Full,
    /// Another request of the session is running.
    Busy,
    /// The request took longer than its deadline.
    Deadline,
    /// A plugin or the host failed.
    Failed,
    /// The server is shutting down.
    Closing,
}

impl ErrorKind {
    /// The word in answers and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::UnknownSession => "unknown-session",
            Self::UnknownName => "unknown-name",
            Self::BadInput => "bad-input",
            Self::OutOfOrder => "out-of-order",
            Self::TooLarge => "too-large",
            Self::Unauthorized => "unauthorized",
            Self::Unsupported => "unsupported",
            Self::Full => "full",
            Self::Busy => "busy",
            Self::Deadline => "deadline",
            Self::Failed => "failed",
            Self::Closing => "closing",
        }
    }

    /// The status of HTTP for endpoints whose protocol uses statuses.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::UnknownSession | Self::UnknownName => 404,
            Self::BadInput => 422,
            Self::OutOfOrder | Self::Busy => 409,
            Self::TooLarge => 413,
            Self::Unauthorized => 401,
            Self::Unsupported => 501,
            Self::Full | Self::Closing => 503,
            Self::Deadline => 504,
            Self::Failed => 500,
        }
    }
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
pub struct ServeError {
    /// The party at fault.
    pub owner: Owner,
    /// The kind.
    pub kind: ErrorKind,
    /// The reason in words: `what failed: why`, and possibly a line `hint: what to do`.
    pub message: String,
}

impl Display for ServeError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl ServeError {
    /// An error of this party and kind.
    #[must_use]
    pub fn new(owner: Owner, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { owner, kind, message: message.into() }
    }

    /// A mistake of the client.
    #[must_use]
    pub fn agent(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::new(Owner::Agent, kind, message)
    }

    /// Malformed input.
    #[must_use]
    pub fn bad_input(message: impl Into<String>) -> Self {
        Self::agent(ErrorKind::BadInput, message)
    }

    /// A fault of this program or its machine.
    #[must_use]
    pub fn host(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::new(Owner::Host, kind, message)
    }

    /// A failed call of a plugin of this kind. A request that the plugin found invalid is the client's mistake.
    #[must_use]
    pub fn of_call(owner: Owner, plugin: &str, error: &CallError) -> Self {
        let message = format!("{} `{plugin}` failed: {}", owner.label(), error.message);
        if error.kind.is_hosts() {
            let full = error.kind == gymkhana_record::FailureKind::Capacity;
            Self::host(if full { ErrorKind::Full } else { ErrorKind::Failed }, message)
        } else if error.is_invalid() {
            Self::bad_input(message)
        } else {
            Self::new(owner, ErrorKind::Failed, message)
        }
    }
}

impl From<TaskError> for ServeError {
    fn from(error: TaskError) -> Self {
        Self::agent(ErrorKind::UnknownName, error.to_string())
    }
}

impl From<SessionError> for ServeError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Task(error) => error.into(),
            SessionError::NotBegun => Self::agent(ErrorKind::OutOfOrder, format!("{error}\nhint: reset the session")),
            SessionError::Over => {
                Self::agent(ErrorKind::OutOfOrder, format!("{error}\nhint: reset the session for another one"))
            }
            SessionError::NotCopied | SessionError::OtherTools(_) => Self::host(ErrorKind::Failed, error.to_string()),
            SessionError::Unsupported { .. } => Self::agent(ErrorKind::Unsupported, error.to_string()),
            SessionError::NotStarted(failed) => Self::from(&failed.failure),
            SessionError::Failed(failure) => Self::from(&failure),
            SessionError::Call { plugin, error } => Self::of_call(Owner::Environment, &plugin, &error),
        }
    }
}

impl From<&Failure> for ServeError {
    fn from(failure: &Failure) -> Self {
        let kind = match failure.kind {
            gymkhana_record::FailureKind::Capacity => ErrorKind::Full,
            _ => ErrorKind::Failed,
        };
        Self::new(Owner::of(failure), kind, failure.to_string())
    }
}
