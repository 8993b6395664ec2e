//! Algorithms as compositions of flags; a preset is a file of flags for a paper.

mod check;
mod flags;
mod presets;
mod requirement;

pub use flags::{
    Aggregation, BandMode, Baseline, CapLevel, CovarianceClip, Credit, Critic, EntropyBand, Estimator, GroupBy, Kl,
    KlPlace, LengthPenalty, Level, Mask, OffPolicy, Ratio, Replay, Scale, Surrogate, WhenClipped, Whiten,
};
pub use presets::Preset;
pub use requirement::Requirement;
use serde::{Deserialize, Serialize};

use crate::StageModels;

/// The flags. A run file names a preset and overrides single flags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Algorithm {
    /// Credit assignment to turns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub credit: Credit,
    /// Comparison within a group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_by: GroupBy,
    /// Baseline subtracted from rewards.
    pub baseline: Baseline,
    /// Decay of `baseline = "seat-average"`, required with it and unused without; in [0, 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_decay: Option<f64>,
    /// Advantage normalisation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scale: Scale,
    /// Final whitening of advantages.
    #[serde(default, skip_serializing_if = "is_default")]
    pub whiten: Whiten,
    /// Critic, required with `baseline = "critic"` and unused without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic: Option<Critic>,
    /// Bonus per unit by which a turn's reward exceeds the previous turn's (SCoRe).
    #[serde(default, skip_serializing_if = "is_default")]
    pub progress: f64,
    /// Replaces each advantage by `exp(advantage / reward_temperature)` (RISE); above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward_temperature: Option<f64>,
    /// Penalty of long episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_penalty: Option<LengthPenalty>,
    /// Relative increase of the advantage per standard deviation of entropy above the batch's mean (AEPO).
    #[serde(default, skip_serializing_if = "is_default")]
    pub entropy_advantage: f64,
    /// Turns with a mean entropy below this quantile of the batch are masked (DART); above 0, below 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy_quantile: Option<f64>,
    /// Tokens excluded from the loss.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masks: Vec<Mask>,
    /// Granularity of the ratio, required for a `surrogate` with a ratio and unused without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// Surrogate objective.
    pub surrogate: Surrogate,
    /// Aggregation of token losses.
    pub aggregation: Aggregation,
    /// Divisor of `aggregation = "constant"`, required with it: a typical number of sampled tokens in an episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant_tokens: Option<u32>,
    /// Penalty on the divergence from the reference policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl: Option<Kl>,
    /// Weight of the token entropy in the objective; at least 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub entropy_bonus: f64,
    /// Entropy band; requires `entropy_bonus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy_band: Option<EntropyBand>,
    /// Off-policy correction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_policy: Option<OffPolicy>,
    /// Replay of good episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Covariance clip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covariance_clip: Option<CovarianceClip>,
    /// Number of passes over a batch; at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub epochs: u32,
    /// Number of optimiser steps per pass; at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub minibatches: u32,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for Algorithm {
    /// The preset `loop`.
    fn default() -> Self {
        Self {
            credit: Credit::Episode,
            group_by: GroupBy::Seat,
            baseline: Baseline::LeaveOneOut,
            average_decay: None,
            scale: Scale::None,
            whiten: Whiten::None,
            critic: None,
            progress: 0.0,
            reward_temperature: None,
            length_penalty: None,
            entropy_advantage: 0.0,
            entropy_quantile: None,
            masks: Vec::new(),
            ratio: Some(Ratio::Token),
            surrogate: Surrogate::Clip { low: 0.2, high: 0.2, dual: None, when_clipped: WhenClipped::DropGradient },
            aggregation: Aggregation::Token,
            constant_tokens: None,
            kl: None,
            entropy_bonus: 0.0,
            entropy_band: None,
            off_policy: None,
            replay: None,
            covariance_clip: None,
            epochs: 1,
            minibatches: 1,
        }
    }
}

impl Algorithm {
    /// The divergence penalty, if its weight is above 0.
    #[must_use]
    pub fn penalty(&self) -> Option<Kl> {
        self.kl.filter(|kl| kl.beta > 0.0)
    }

    /// The divergence penalty, if it enters this term.
    pub(crate) fn penalty_in(&self, place: KlPlace) -> Option<Kl> {
        self.penalty().filter(|kl| kl.place == place)
    }

    pub(crate) fn masks(&self, mask: Mask) -> bool {
        self.masks.contains(&mask)
    }

    /// Models that a stage needs for the algorithm.
    #[must_use]
    pub fn stage_models(&self) -> StageModels {
        let reference = self.penalty().is_some() || matches!(self.surrogate, Surrogate::Preference { .. });
        StageModels { reference, critic: self.critic.is_some(), teacher: None }
    }

    /// Whether the stage needs a teacher.
    #[must_use]
    pub fn wants_teacher(&self) -> bool {
        self.credit == Credit::Teacher
    }

    /// Whether the loss is over pairs of a group's episodes.
    pub(crate) fn pairs(&self) -> bool {
        matches!(self.surrogate, Surrogate::Regression { .. } | Surrogate::Preference { .. })
    }
}
