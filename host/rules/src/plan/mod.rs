//! Sampling plans: which episodes a group consists of.

mod branch;
mod guided;
mod oversample;
mod prefixes;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use branch::{Branch, Probe};
pub use guided::Guided;
pub use oversample::{Oversample, Selection};
pub use prefixes::Prefixes;

/// Sampling plan: how the episodes of a group start, branch and are selected. `groups` is the default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SamplingPlan {
    /// All episodes begin at the start.
    Groups {},
    /// More episodes than the group's size are played, and a selection is kept (GRPO-RoC).
    Oversample(Oversample),
    /// Episodes branch after tool results where the policy's entropy rises (ARPO, AEPO). ΔH is the mean entropy of the
    /// turn's first `tokens` tokens minus that of the episode's first turn, over the logarithm of the vocabulary's
    /// size; the score is `base + slope * ΔH`.
    Branch(Branch),
    /// Episodes branch at the prefix whose continuations are most likely to differ in success (TRACE).
    Prefixes(Prefixes),
    /// Failed episodes are repeated with the environment's hint (Agent-RLVR).
    Guided(Guided),
}

impl Default for SamplingPlan {
    fn default() -> Self {
        Self::Groups {}
    }
}

/// A setting of a sampling plan that is out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("plan.{key} is out of range: {found}\nhint: use {allowed}")]
pub struct PlanError {
    key: &'static str,
    found: String,
    allowed: &'static str,
}

/// Refuses a setting that is not in its range.
fn require(
    holds: bool,
    key: &'static str,
    found: impl std::fmt::Display,
    allowed: &'static str,
) -> Result<(), PlanError> {
    if holds { Ok(()) } else { Err(PlanError { key, found: found.to_string(), allowed }) }
}

impl SamplingPlan {
    /// Name of the plan in run files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Groups {} => "groups",
            Self::Oversample(_) => "oversample",
            Self::Branch(_) => "branch",
            Self::Prefixes(_) => "prefixes",
            Self::Guided(_) => "guided",
        }
    }

    /// Maximum number of episodes that a group of this size plays.
    #[must_use]
    pub fn members(&self, size: u32) -> u32 {
        match self {
            Self::Groups {} | Self::Branch(_) | Self::Prefixes(_) => size,
            Self::Oversample(oversample) => size.saturating_mul(oversample.factor),
            Self::Guided(guided) => size.saturating_mul(1 + guided.retries),
        }
    }

    /// Refuses settings out of range.
    ///
    /// # Errors
    /// Names the first such setting.
    pub fn check(&self, size: u32) -> Result<(), PlanError> {
        match self {
            Self::Groups {} => Ok(()),
            Self::Oversample(oversample) => oversample.check(),
            Self::Branch(branch) => branch.check(size),
            Self::Prefixes(prefixes) => prefixes.check(size),
            Self::Guided(guided) => guided.check(),
        }
    }
}
