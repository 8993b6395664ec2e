//! Branching at the prefix with the most uncertain outcome, where success and failure are both likely (TRACE).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanError, require};

/// Plays some episodes from the start, then spends the rest of the group's size in rounds on prefixes. Each round
/// selects the prefix whose continuations most likely have mixed outcomes: with the estimated success rate p after a
/// prefix, the probability is `1 - p^k - (1 - p)^k` for `k` continuations.
///
/// p is the share of solved episodes among those that went through the prefix and `prior` further episodes with the
/// group's mean success rate. Dropped episodes do not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prefixes {
    /// Episodes that begin at the start.
    #[schemars(range(min = 1), extend("x-range" = "1 to `group_size`"))]
    pub roots: u32,
    /// Continuations of a chosen prefix.
    #[schemars(range(min = 1))]
    pub continuations: u32,
    /// Weight of the group's success rate in the estimate for a prefix, in episodes.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub prior: f64,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { roots: 4, continuations: 2, prior: 1.0 }
    }
}

impl Prefixes {
    pub(super) fn check(self, size: u32) -> Result<(), PlanError> {
        require((1..=size).contains(&self.roots), "roots", self.roots, "1 to group_size")?;
        require(self.continuations >= 1, "continuations", self.continuations, "1 or more")?;
        require(self.prior > 0.0 && self.prior.is_finite(), "prior", self.prior, "a number above 0")
    }
}
