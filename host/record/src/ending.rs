//! Why an episode ended.

use serde::{Deserialize, Serialize};

/// Why an episode ended. Limits are checked in the order in which they stand here, after every turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The environment said that it is over.
    Terminated,
    /// The environment cut it off.
    Truncated,
    /// The policy took as many turns as the run allows.
    TurnLimit,
    /// The context was full, so that no further token could be sampled.
    ContextLimit,
    /// The policy made as many calls as the run allows.
    CallLimit,
    /// The episode took longer than the run allows.
    TimeLimit,
    /// The run's rule saw no hope left.
    EarlyStopped,
    /// The environment failed; the episode gets the run's failure reward.
    EnvironmentFailed,
    /// The host, the model or the registry failed more often than the run retries; the episode is not trained on.
    Dropped,
}

impl Ending {
    /// Whether a limit of the run, and neither the environment nor a failure, ended the episode.
    #[must_use]
    pub fn is_limit(self) -> bool {
        matches!(self, Self::TurnLimit | Self::ContextLimit | Self::CallLimit | Self::TimeLimit | Self::EarlyStopped)
    }
}
