//! What a plugin can be, and what it can ask for.

use serde::{Deserialize, Serialize};

/// What a plugin offers. One plugin may be of several kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A world that agents act in.
    Environment,
    /// Functions that agents may call.
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

/// A host interface that a plugin may import. All but `log`, `random` and `clock` need the run's grant.
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
    /// Calls of tools, for rewards.
    Tools,
    /// Outgoing HTTP.
    Http,
}

impl Capability {
    /// Whether every plugin has it without asking.
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
        })
    }
}
