//! Algorithms as compositions of flags; a preset is a file of flags for a paper.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Aggregation, Baseline, CovarianceClip, Credit, Critic, EntropyBand, GroupBy, Kl, KlPlace, LengthPenalty, Mask,
    OffPolicy, Ratio, Replay, Scale, SharedTurns, Surrogate, WhenClipped, Whiten,
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
    /// Weight of the token entropy in the objective.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub entropy_bonus: f64,
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
            baseline: Baseline::LeaveOneOut,
            average_decay: None,
            scale: Scale::None,
            whiten: Whiten::None,
            whiten_floor: 0.0,
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

/// Models that a stage needs in addition to the policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageModels {
    /// Reference policy: a frozen copy of the weights at the start of the stage.
    pub reference: bool,
    /// A critic.
    pub critic: bool,
    /// Teacher: the folder of a model with the same vocabulary.
    pub teacher: Option<PathBuf>,
}

impl Algorithm {
    /// The divergence penalty, if its weight is above 0.
    #[must_use]
    pub fn penalty(&self) -> Option<Kl> {
        self.kl.filter(|kl| kl.beta > 0.0)
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
        let reference = self.penalty().is_some() || matches!(self.surrogate, Surrogate::Preference { .. });
        StageModels { reference, critic: self.critic.is_some(), teacher: None }
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
        self.credit == Credit::Teacher {}
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

    /// Whether the loss is over pairs of a group's episodes.
    #[must_use]
    pub fn pairs(&self) -> bool {
        matches!(self.surrogate, Surrogate::Regression { .. } | Surrogate::Preference { .. })
    }
}
