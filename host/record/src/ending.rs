//! The reason why an episode ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why an episode ended. Turn, context, call and time limits are checked in this order after every turn. A
/// turn whose calls would exceed the call limit ends the episode before any of them is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The environment reported a terminal state.
    Terminated,
    /// The environment truncated the episode.
    Truncated,
    /// A seat reached the run's turn limit.
    TurnLimit,
    /// The context was full: no token could be sampled.
    ContextLimit,
    /// The seats reached the run's call limit.
    CallLimit,
    /// The episode exceeded the run's wall-clock limit.
    TimeLimit,
    /// The run's early-stop rule ended the episode.
    EarlyStopped,
    /// The environment failed; the episode gets the run's failure reward.
    EnvironmentFailed,
    /// The agent program failed; the episode gets the run's failure reward.
    AgentFailed,
    /// The host, the model or the registry failed in every attempt; the episode is excluded from training.
    Dropped,
}

impl Ending {
    /// Whether a limit of the run ended the episode, and neither the environment nor a failure.
    #[must_use]
    pub fn is_limit(self) -> bool {
        matches!(self, Self::TurnLimit | Self::ContextLimit | Self::CallLimit | Self::TimeLimit | Self::EarlyStopped)
    }

    /// Whether a limit ended the episode before its task was over: one of the run, or the environment's own.
    #[must_use]
    pub fn is_cut_short(self) -> bool {
        self.is_limit() || self == Self::Truncated
    }
}

/// The same word as in records and Parquet.
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminated => "terminated",
            Self::Truncated => "truncated",
            Self::TurnLimit => "turn-limit",
            Self::ContextLimit => "context-limit",
            Self::CallLimit => "call-limit",
            Self::TimeLimit => "time-limit",
            Self::EarlyStopped => "early-stopped",
            Self::EnvironmentFailed => "environment-failed",
            Self::AgentFailed => "agent-failed",
            Self::Dropped => "dropped",
        })
    }
}
