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

impl Ending {
    /// All endings.
    pub const ALL: [Self; 10] = [
        Self::Terminated,
        Self::Truncated,
        Self::TurnLimit,
        Self::ContextLimit,
        Self::CallLimit,
        Self::TimeLimit,
        Self::EarlyStopped,
        Self::EnvironmentFailed,
        Self::AgentFailed,
        Self::Dropped,
    ];

    /// The word of records and Parquet.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
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
        }
    }
}

/// The same word as in records and Parquet.
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word that is not an ending.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an ending; an example is `turn-limit`")]
pub struct ParseEndingError(String);

impl std::str::FromStr for Ending {
    type Err = ParseEndingError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|ending| ending.word() == word).ok_or_else(|| ParseEndingError(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_records() {
        for ending in Ending::ALL {
            let json = serde_json::to_string(&ending).expect("JSON");
            assert_eq!(json, format!("\"{ending}\""));
            assert_eq!(ending.word().parse(), Ok(ending));
        }
        assert!("Dropped".parse::<Ending>().is_err());
    }
}
