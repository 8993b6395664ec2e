//! Plugin kinds and the capabilities that a plugin can request.

use serde::{Deserialize, Serialize};

/// Role that a plugin implements. One plugin may implement several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An RL environment.
    Environment,
    /// Functions that agents can call.
    Tool,
    /// Scores of finished episodes.
    Reward,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Environment, Self::Tool, Self::Reward];
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Environment => "environment",
            Self::Tool => "tool",
            Self::Reward => "reward",
        })
    }
}

/// A host interface that a plugin may import. All except `log`, `random` and `clock` require a grant in the run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Lines for the run's log.
    Log,
    /// Seeded random numbers.
    Random,
    /// The virtual clock.
    Clock,
    /// Read-only files of the run.
    Assets,
    /// Completions by a model.
    Model,
    /// Tool calls, for rewards.
    Tools,
    /// Outgoing HTTP requests.
    Http,
    /// Another environment inside this one, for wrappers.
    InnerEnvironment,
}

impl Capability {
    /// Returns true for capabilities that every plugin has without a grant.
    #[must_use]
    pub fn is_free(self) -> bool {
        matches!(self, Self::Log | Self::Random | Self::Clock)
    }
}

impl std::fmt::Display for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Log => "log",
            Self::Random => "random",
            Self::Clock => "clock",
            Self::Assets => "assets",
            Self::Model => "model",
            Self::Tools => "tools",
            Self::Http => "http",
            Self::InnerEnvironment => "inner-environment",
        })
    }
}
