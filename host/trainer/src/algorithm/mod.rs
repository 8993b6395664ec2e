//! An algorithm is a composition of flags; a paper is a file of them.

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

/// The flags. A run file names a preset and overrides what it likes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Algorithm {
    /// How what an episode earned becomes credit of its turns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub credit: Credit,
    /// Who is compared with whom.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_by: GroupBy,
    /// What a reward is compared with.
    pub baseline: Baseline,
    /// How slowly `baseline = "seat-average"` moves, and only it; in [0, 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_decay: Option<f64>,
    /// What the difference is divided by.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scale: Scale,
    /// Over what advantages are whitened at last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub whiten: Whiten,
    /// The critic of `baseline = "critic"`, and only of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic: Option<Critic>,
    /// What a turn gets, beside its reward, for each unit by which it is better than the turn before (SCoRe).
    #[serde(default, skip_serializing_if = "is_default")]
    pub progress: f64,
    /// Weighs by `exp(reward / reward_temperature)` in the place of the reward (RISE); above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward_temperature: Option<f64>,
    /// The punishment of long episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_penalty: Option<LengthPenalty>,
    /// How much more tokens count whose distribution's entropy is a deviation above the batch's mean (AEPO).
    #[serde(default, skip_serializing_if = "is_default")]
    pub entropy_advantage: f64,
    /// Turns are not learnt from whose mean entropy is below this quantile of the batch's (DART); above 0, below 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy_quantile: Option<f64>,
    /// What is not learnt from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masks: Vec<Mask>,
    /// Over what ratios are taken, for a `surrogate` that has one and only for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// What is maximised.
    pub surrogate: Surrogate,
    /// How the losses of tokens are added up.
    pub aggregation: Aggregation,
    /// The divisor of `aggregation = "constant"`, and only of it: a typical number of sampled tokens in an episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant_tokens: Option<u32>,
    /// The penalty for leaving the weights with which the stage began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl: Option<Kl>,
    /// Weight of the entropy of sampled tokens' distributions; at least 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub entropy_bonus: f64,
    /// Holds that entropy in a band; with `entropy_bonus` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy_band: Option<EntropyBand>,
    /// What is done about tokens of other weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_policy: Option<OffPolicy>,
    /// What is kept and learnt from again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Which tokens are left out because they would move the policy most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covariance_clip: Option<CovarianceClip>,
    /// How often a batch is gone through; at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub epochs: u32,
    /// Into how many parts, each an optimiser step, a batch is cut; at least 1.
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
    /// The penalty, if it weighs anything.
    #[must_use]
    pub fn penalty(&self) -> Option<Kl> {
        self.kl.filter(|kl| kl.beta > 0.0)
    }

    /// The penalty, if it counts in this place.
    pub(crate) fn penalty_in(&self, place: KlPlace) -> Option<Kl> {
        self.penalty().filter(|kl| kl.place == place)
    }

    pub(crate) fn masks(&self, mask: Mask) -> bool {
        self.masks.contains(&mask)
    }

    /// What the trainer must keep for it.
    #[must_use]
    pub fn stage_models(&self) -> StageModels {
        let reference = self.penalty().is_some() || matches!(self.surrogate, Surrogate::Preference { .. });
        StageModels { reference, critic: self.critic.is_some(), teacher: None }
    }

    /// Whether a teacher must be given.
    #[must_use]
    pub fn wants_teacher(&self) -> bool {
        self.credit == Credit::Teacher
    }

    /// Whether pairs of a group's episodes are looked at.
    pub(crate) fn pairs(&self) -> bool {
        matches!(self.surrogate, Surrogate::Regression { .. } | Surrogate::Preference { .. })
    }
}
