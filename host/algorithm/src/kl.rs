//! Divergence from the reference policy: its penalty, the weight of the penalty, and updates of the reference.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::WeightSchedule;

/// Penalty on the divergence from the reference policy. Plans that fork (`branch`, `prefixes`) exclude
/// `kl.place = "reward"` and `length_penalty`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kl {
    /// Weight; 0 disables the penalty.
    #[schemars(range(min = 0))]
    pub beta: f64,
    /// Schedule of the weight over training steps. Excludes `adaptive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<WeightSchedule>,
    /// Control of the weight by the measured divergence; `beta` is its first value. Excludes `schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveKl>,
    /// Estimator from sampled tokens, with `d = log π - log π_ref`.
    pub estimator: Estimator,
    /// Term that it enters.
    pub place: KlPlace,
    /// Number of first turns that it covers (SCoRe's first stage); with `place = "loss"` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub first_turns: Option<u32>,
}

/// Schulman's estimators of the divergence, with `d = log π - log π_ref`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// `d`: unbiased; as a loss, its expected gradient is 0.
    K1,
    /// `d² / 2`.
    K2,
    /// `exp(-d) + d - 1`: unbiased and never negative.
    K3,
}

/// Term that a penalty enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KlPlace {
    /// Added to each token's loss.
    Loss,
    /// Its sum is subtracted from the episode's reward.
    Reward,
    /// Its sum over the remaining tokens is subtracted from each token's advantage.
    Tokens,
}

/// Control of the penalty's weight (Ziegler et al. 2019): after each training step with n episodes it is multiplied by
/// `1 + clip(divergence / target - 1, -0.2, 0.2) * n / horizon`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveKl {
    /// Desired divergence in nats per token, as the metric `reference_divergence`.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub target: f64,
    /// Episodes in which the weight changes by at most 20 %; with larger values it reacts more slowly.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub horizon: f64,
}

/// Largest relative error of the divergence that an update of the weight uses.
const MAX_ERROR: f64 = 0.2;

impl AdaptiveKl {
    /// The weight after a step with this divergence in nats per token. A divergence that is not a number changes nothing.
    #[must_use]
    pub fn next(self, beta: f64, divergence: f64, episodes: usize) -> f64 {
        let error = (divergence / self.target - 1.0).clamp(-MAX_ERROR, MAX_ERROR);
        let factor = 1.0 + error * episodes as f64 / self.horizon;
        if error.is_nan() { beta } else { beta * factor.max(0.0) }
    }
}

/// Update of the reference policy after training steps. Without it, the reference stays the policy at the start of the
/// stage. Exactly one key is set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReferenceUpdate {
    /// Training steps after which the current policy replaces the reference. Excludes `ema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub every: Option<u64>,
    /// Decay of a moving average of weights: after each training step, the reference is `ema` times itself plus
    /// `1 - ema` times the current policy. Excludes `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub ema: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the target: an error of 1, clipped to 0.2; with 50 of 100 episodes, 1 + 0.2 / 2. Half of the target: -0.5,
    /// clipped to -0.2. 10 % above it: 0.1.
    #[test]
    fn the_weight_follows_the_divergence() {
        let adaptive = AdaptiveKl { target: 0.5, horizon: 100.0 };
        for (divergence, expected) in [(1.0, 0.11), (0.25, 0.09), (0.55, 0.105), (0.5, 0.1), (f64::NAN, 0.1)] {
            let found = adaptive.next(0.1, divergence, 50);
            assert!((found - expected).abs() < 1e-12, "{divergence}: {found} is not {expected}");
        }
        assert_eq!(adaptive.next(0.1, 0.0, 1000), 0.0);
    }
}
