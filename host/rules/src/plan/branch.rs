//! Branching where the policy is uncertain (ARPO; AEPO for the budget and the penalty).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanError, require};

/// Condition of branching, and the division of the group into episodes from the start and branches.
///
/// ΔH is the mean entropy of the first `tokens` tokens of a turn after tool results minus that of the episode's first
/// turn, over the logarithm of the vocabulary's size. An episode branches if `base + slope * ΔH > threshold` (ARPO).
/// With a `penalty`, it branches with probability `(base + slope * ΔH) * (1 - penalty)^n` instead, where `n` counts the
/// branchings in consecutive turns before this one (AEPO).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Branch {
    /// Episodes that begin at the start; the others are branches.
    #[schemars(range(min = 1), extend("x-range" = "1 to `group_size`"))]
    pub roots: u32,
    /// Measurement of the share of roots in the first episode (AEPO); `roots` is then the minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// Tokens of a turn whose entropy is measured.
    #[schemars(range(min = 1))]
    pub tokens: u32,
    /// Branching score without a change of entropy.
    pub base: f64,
    /// Factor of the entropy change in the branching score.
    pub slope: f64,
    /// Branching score above which an episode branches; unused with `penalty`.
    pub threshold: f64,
    /// Branching by chance (AEPO): an episode branches with probability `score * (1 - penalty)^n` after `n` branchings
    /// in consecutive turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub penalty: Option<f64>,
}

/// AEPO's share of roots, from the group's first episode: `size * sigmoid(beta * (H_root - H_tool))`, with the mean
/// entropy of its first turn and that of its turns after answers of tools, each of the first tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BranchProbe")]
pub struct Probe {
    /// Factor of the entropy difference. AEPO derives the share of roots from the first episode,
    /// `group_size * sigmoid(beta * (H_root - H_tool))`; `roots` is then the minimum.
    pub beta: f64,
}

impl Default for Branch {
    fn default() -> Self {
        Self { roots: 4, probe: None, tokens: 20, base: 0.5, slope: 0.2, threshold: 0.5, penalty: None }
    }
}

impl Branch {
    pub(super) fn check(&self, size: u32) -> Result<(), PlanError> {
        require((1..=size).contains(&self.roots), "roots", self.roots, "1 to group_size")?;
        require(self.tokens >= 1, "tokens", self.tokens, "1 or more")?;
        require((0.0..=1.0).contains(&self.penalty.unwrap_or(0.0)), "penalty", self.penalty.unwrap_or(0.0), "0 to 1")?;
        for (key, found) in [("base", self.base), ("slope", self.slope), ("threshold", self.threshold)] {
            require(found.is_finite(), key, found, "a finite number")?;
        }
        let beta = self.probe.map_or(0.0, |probe| probe.beta);
        require(beta.is_finite(), "probe.beta", beta, "a finite number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let sound = Branch::default();
        assert_eq!(sound.check(8), Ok(()));
        for (wrong, key) in [
            (Branch { roots: 0, ..sound }, "plan.roots"),
            (Branch { roots: 9, ..sound }, "plan.roots"),
            (Branch { tokens: 0, ..sound }, "plan.tokens"),
            (Branch { penalty: Some(1.5), ..sound }, "plan.penalty"),
            (Branch { slope: f64::NAN, ..sound }, "plan.slope"),
            (Branch { probe: Some(Probe { beta: f64::INFINITY }), ..sound }, "plan.probe.beta"),
        ] {
            let error = wrong.check(8).expect_err(key);
            assert!(error.to_string().starts_with(key), "{error}");
        }
    }
}
