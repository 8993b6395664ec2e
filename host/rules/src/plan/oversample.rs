//! Oversampling: plays more episodes than needed and keeps a selection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanError, require};

/// Number of played episodes, and the selection of `group_size` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Oversample {
    /// Multiple of `group_size` that is played.
    #[schemars(range(min = 2, max = 16))]
    pub factor: u32,
    /// Selection of the episodes that are kept.
    pub keep: Selection,
}

/// Selection among the episodes of an oversampled group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// Solved and unsolved episodes in their proportion, at least two of each if available; of the solved ones those
    /// with the least tool trouble, of the unsolved ones the first (GRPO-RoC, rStar2-Agent).
    #[default]
    Clean,
    /// Equal numbers of solved and unsolved episodes if available, the first of each.
    Balanced,
}

impl Default for Oversample {
    fn default() -> Self {
        Self { factor: 2, keep: Selection::Clean }
    }
}

impl Oversample {
    pub(super) fn check(self) -> Result<(), PlanError> {
        require((2..=16).contains(&self.factor), "factor", self.factor, "2 to 16")
    }
}
