//! Algorithms as compositions of flags; a preset is a file of flags for a paper.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Aggregation, Baseline, Bounds, CovarianceClip, Credit, Critic, EntropyBand, GroupBy, Kl, KlPlace, LengthPenalty,
    Mask, OffPolicy, Ratio, ReferenceUpdate, Replay, RewardScale, Scale, SharedTurns, Surrogate, Weight,
    WeightSchedule, WhenClipped, Whiten,
};

/// Flags of an algorithm. A run file names a preset and overrides single flags. A flag that would have no effect is an
/// error, such as `group_by` with a critic or `length_penalty` with a teacher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Algorithm {
    /// Credit assignment to turns.
    #[serde(default)]
    pub credit: Credit,
    /// Comparison within a group.
    #[serde(default)]
    pub group_by: GroupBy,
    /// Turns that several episodes of a tree share. Other values than `once` require a `plan` with forks.
    #[serde(default)]
    pub shared_turns: SharedTurns,
    /// Divisor of rewards, before they are clipped and compared.
    #[serde(default)]
    pub reward_scale: RewardScale,
    /// Lowest and highest total reward of a seat: rewards outside are clipped before episodes are compared. The
    /// difference goes to the last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward_clip: Option<Bounds>,
    /// Baseline subtracted from rewards.
    pub baseline: Baseline,
    /// Decay of the moving average; required by `baseline = "seat-average"`, rejected otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub average_decay: Option<f64>,
    /// Divisor of the advantage. Requires a baseline that compares the group.
    #[serde(default)]
    pub scale: Scale,
    /// Final whitening of advantages.
    #[serde(default)]
    pub whiten: Whiten,
    /// Minimum standard deviation that whitening divides by. A batch of nearly equal advantages is then not scaled up to
    /// deviation 1. Requires `whiten`.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub whiten_floor: f64,
    /// Lowest and highest advantage: others are clipped, after whitening and `entropy_advantage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advantage_clip: Option<Bounds>,
    /// Critic; required by `baseline = "critic"`, rejected otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic: Option<Critic>,
    /// Bonus per unit by which a turn's reward exceeds the previous turn's (SCoRe). Requires a `credit` of turns.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub progress: f64,
    /// Temperature of RISE, which replaces each advantage by `exp(advantage / reward_temperature)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub reward_temperature: Option<f64>,
    /// Penalty of long episodes (DAPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_penalty: Option<LengthPenalty>,
    /// Relative increase of the advantage per standard deviation of entropy above the batch's mean (AEPO).
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub entropy_advantage: f64,
    /// Quantile of the batch's mean entropies below which turns are masked (DART).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub entropy_quantile: Option<f64>,
    /// Tokens excluded from the loss, whose episodes still count in comparisons.
    #[serde(default)]
    pub masks: Vec<Mask>,
    /// Granularity of the probability ratio; required by a `surrogate` with a ratio, rejected otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// Surrogate objective.
    pub surrogate: Surrogate,
    /// Aggregation of token losses.
    pub aggregation: Aggregation,
    /// Divisor of `aggregation = "constant"`, required with it: a typical number of sampled tokens in an episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub constant_tokens: Option<u32>,
    /// Penalty on the divergence from the reference policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl: Option<Kl>,
    /// Update of the reference policy. Requires `kl`, or the surrogate `preference` or `unpaired-preference`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ReferenceUpdate>,
    /// Weight of the token entropy in the objective.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub entropy_bonus: f64,
    /// Schedule of `entropy_bonus` over training steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy_schedule: Option<WeightSchedule>,
    /// Band for the entropy of each turn (EPO). Requires `entropy_bonus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy_band: Option<EntropyBand>,
    /// Off-policy correction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_policy: Option<OffPolicy>,
    /// Replay of good episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Covariance clip (SPEAR).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covariance_clip: Option<CovarianceClip>,
    /// Passes over a batch.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub epochs: u32,
    /// Optimiser steps per pass.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub minibatches: u32,
}

fn one() -> u32 {
    1
}

impl Default for Algorithm {
    /// The preset `loop`.
    fn default() -> Self {
        Self {
            credit: Credit::Episode {},
            group_by: GroupBy::Seat,
            shared_turns: SharedTurns::Once,
            reward_scale: RewardScale::None,
            reward_clip: None,
            baseline: Baseline::LeaveOneOut,
            average_decay: None,
            scale: Scale::None,
            whiten: Whiten::None,
            whiten_floor: 0.0,
            advantage_clip: None,
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
            reference: None,
            entropy_bonus: 0.0,
            entropy_schedule: None,
            entropy_band: None,
            off_policy: None,
            replay: None,
            covariance_clip: None,
            epochs: 1,
            minibatches: 1,
        }
    }
}

/// Models that a stage needs in addition to the policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageModels {
    /// Reference policy: a copy of the weights at the start of the stage.
    pub reference: bool,
    /// The reference policy follows the policy.
    #[serde(default)]
    pub follows: bool,
    /// A critic.
    pub critic: bool,
    /// Teacher: the folder of a model with the same vocabulary.
    pub teacher: Option<PathBuf>,
}

impl Algorithm {
    /// The flags of a training step, counted from 0 in the stage: scheduled weights have their value in this step.
    /// `beta` is the adaptive weight of the divergence after earlier steps.
    #[must_use]
    pub fn at(&self, step: u64, beta: Option<f64>) -> Self {
        let scheduled = |start, schedule| Weight { start, schedule }.at(step);
        let kl = self.kl.map(|kl| {
            let adaptive = beta.filter(|_| kl.adaptive.is_some());
            Kl { beta: adaptive.unwrap_or_else(|| scheduled(kl.beta, kl.schedule)), ..kl }
        });
        let rate = |critic: Critic| scheduled(critic.learning_rate, critic.schedule);
        let critic = self.critic.map(|critic| Critic { learning_rate: rate(critic), ..critic });
        Self { kl, critic, entropy_bonus: scheduled(self.entropy_bonus, self.entropy_schedule), ..self.clone() }
    }

    /// The divergence penalty, if its weight is above 0 in any step.
    #[must_use]
    pub fn penalty(&self) -> Option<Kl> {
        let grows = |kl: &Kl| kl.schedule.is_some_and(|schedule| schedule.to > 0.0);
        self.kl.filter(|kl| kl.beta > 0.0 || kl.adaptive.is_some() || grows(kl))
    }

    /// The divergence penalty, if it enters this term.
    #[must_use]
    pub fn penalty_in(&self, place: KlPlace) -> Option<Kl> {
        self.penalty().filter(|kl| kl.place == place)
    }

    /// Whether this mask is set.
    #[must_use]
    pub fn masks(&self, mask: Mask) -> bool {
        self.masks.contains(&mask)
    }

    /// Models that a stage needs for the algorithm.
    #[must_use]
    pub fn stage_models(&self) -> StageModels {
        let reference = self.penalty().is_some() || self.prefers();
        let follows = reference && self.reference.is_some();
        StageModels { reference, follows, critic: self.critic.is_some(), teacher: None }
    }

    /// Upper bound on the optimiser steps of the policy in this many training steps.
    #[must_use]
    pub fn optimizer_steps(&self, steps: u64) -> u64 {
        let warmup = self.critic.map_or(0, |critic| critic.warmup_steps);
        let each = u64::from(self.epochs).saturating_mul(u64::from(self.minibatches));
        steps.saturating_sub(warmup).saturating_mul(each)
    }

    /// Whether the stage needs a teacher.
    #[must_use]
    pub fn wants_teacher(&self) -> bool {
        self.credit == Credit::Teacher {} || self.distils()
    }

    /// Whether the loss is the divergence from the teacher's distributions.
    #[must_use]
    pub fn distils(&self) -> bool {
        matches!(self.surrogate, Surrogate::Distillation { .. })
    }

    /// Whether the baseline compares the episodes of a group.
    #[must_use]
    pub fn compares_episodes(&self) -> bool {
        matches!(self.baseline, Baseline::GroupMean | Baseline::LeaveOneOut)
    }

    /// Whether groups of one episode teach nothing, because the baseline or the loss compares the episodes of a group.
    #[must_use]
    pub fn needs_groups(&self) -> bool {
        self.compares_episodes() || self.pairs()
    }

    /// Whether the loss raises good episodes over bad ones relative to the reference policy.
    #[must_use]
    pub fn prefers(&self) -> bool {
        matches!(self.surrogate, Surrogate::Preference { .. } | Surrogate::UnpairedPreference { .. })
    }

    /// Whether the loss depends on sums over whole episodes: over pairs of them, or of each one.
    #[must_use]
    pub fn of_whole_episodes(&self) -> bool {
        self.pairs() || self.prefers()
    }

    /// Whether the loss is over pairs of a group's episodes.
    #[must_use]
    pub fn pairs(&self) -> bool {
        matches!(self.surrogate, Surrogate::Regression { .. } | Surrogate::Preference { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdaptiveKl, Estimator, WeightShape};

    /// Halfway from 0.4 to 0: 0.2.
    #[test]
    fn scheduled_weights_have_the_value_of_the_step() {
        let schedule = |to| Some(WeightSchedule { shape: WeightShape::Linear, to, begin: 0, over: 4, every: None });
        let (estimator, place) = (Estimator::K3, KlPlace::Loss);
        let kl = Kl { beta: 0.4, schedule: schedule(0.0), adaptive: None, estimator, place, first_turns: None };
        let (entropy_bonus, entropy_schedule) = (0.0, schedule(0.1));
        let flags = Algorithm { kl: Some(kl), entropy_bonus, entropy_schedule, ..Algorithm::default() };
        let at = |flags: &Algorithm, step, beta| {
            let flags = flags.at(step, beta);
            (flags.kl.map(|kl| kl.beta), flags.entropy_bonus)
        };
        assert_eq!(at(&flags, 0, None), (Some(0.4), 0.0));
        assert_eq!(at(&flags, 2, Some(7.0)), (Some(0.2), 0.05));
        assert_eq!(at(&flags, 9, None), (Some(0.0), 0.1));
        // The reference is needed for the steps in which the weight is above 0.
        let rising = Algorithm { kl: Some(Kl { beta: 0.0, schedule: schedule(0.1), ..kl }), ..Algorithm::default() };
        assert!(rising.stage_models().reference);
        let adaptive = Kl { schedule: None, adaptive: Some(AdaptiveKl { target: 0.1, horizon: 9.0 }), ..kl };
        let flags = Algorithm { kl: Some(adaptive), ..Algorithm::default() };
        assert_eq!(at(&flags, 9, None).0, Some(0.4));
        assert_eq!(at(&flags, 9, Some(0.3)).0, Some(0.3));
    }
}
