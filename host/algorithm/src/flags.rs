//! Flags of an algorithm: one enum or table per axis.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::WeightSchedule;

/// Credit assignment: from the rewards of an episode to its turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Credit {
    /// The total reward, for every turn.
    Episode {},
    /// The last turn's reward, for every turn.
    Outcome {},
    /// Each turn's own reward, compared with the same turn of the group. The last turn also gets rewards without a turn.
    Immediate {},
    /// The return from the turn on: rewards are summed, then compared (MARS).
    Returns {
        /// γ, per turn.
        #[schemars(range(min = 0, max = 1))]
        discount: f64,
    },
    /// Rewards of turns: compared first, then summed (IGPO).
    Rewards {
        /// γ, per turn.
        #[schemars(range(min = 0, max = 1))]
        discount: f64,
        /// Compares last turns with all turns instead of with each other only.
        jointly: bool,
        /// Leaves turns before the last whose reward is 0 out of the comparison: they count as 0 in the sums.
        #[serde(default, skip_serializing_if = "is_false")]
        #[schemars(!skip_serializing_if)]
        skip_zero_gains: bool,
    },
    /// The turn's reward compared with the same turn of the group, plus the last turn's compared with last turns (MT-GRPO).
    Turns {
        /// Weight of the first term, in turns before the last.
        #[serde(default = "neutral_weight")]
        #[schemars(range(min = 0))]
        turn_weight: f64,
        /// Weight of the second term, in turns before the last.
        #[schemars(range(min = 0))]
        outcome_weight: f64,
    },
    /// Log-probability under a teacher minus that under the behaviour policy; rewards are not used.
    Teacher {},
    /// The total reward compared in the group, plus returns compared between turns in equal states (GiGPO). States are
    /// equal by the environment's state key, or without state keys by the text heard since the seat's last turn.
    Anchors {
        /// γ, per turn.
        #[schemars(range(min = 0, max = 1))]
        discount: f64,
        /// ω: weight of the second term.
        #[schemars(range(min = 0))]
        weight: f64,
    },
}

fn neutral_weight() -> f64 {
    1.0
}

impl Default for Credit {
    fn default() -> Self {
        Self::Episode {}
    }
}

/// Comparison within a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupBy {
    /// Compares each seat with the same seat of the other episodes.
    #[default]
    Seat,
    /// Compares all seats of all episodes.
    All,
}

impl GroupBy {
    /// Seats with equal keys are compared.
    #[must_use]
    pub fn key(self, seat: u32) -> u32 {
        match self {
            Self::Seat => seat,
            Self::All => 0,
        }
    }
}

/// Baseline subtracted from rewards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// No baseline.
    None,
    /// Mean of the group.
    GroupMean,
    /// Mean of the other members of the group.
    LeaveOneOut,
    /// Mean of the batch: of all groups together, by `group_by`.
    BatchMean,
    /// Moving average of the seat's rewards before the update (SPIRAL).
    SeatAverage,
    /// A critic's values, through generalised advantage estimation.
    Critic,
}

/// Divisor of the difference from the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// No divisor.
    #[default]
    None,
    /// Sample standard deviation of the group (divisor n - 1).
    GroupStd,
    /// Population standard deviation of the group (divisor n).
    GroupPopulationStd,
    /// Sample standard deviation of the batch, before baselines are subtracted.
    BatchStd,
}

/// Divisor of rewards, before they are clipped and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RewardScale {
    /// No divisor.
    #[default]
    None,
    /// Standard deviation of the seat's total rewards in this and all earlier steps of the stage.
    Running,
}

/// Bounds of a number, to which others are clipped.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Lowest value.
    pub low: f64,
    /// Highest value.
    #[schemars(extend("x-range" = "above `low`"))]
    pub high: f64,
}

impl Bounds {
    /// The nearest number within the bounds.
    #[must_use]
    pub fn clip(self, number: f64) -> f64 {
        // `clamp` would panic where the lower bound is not below the upper one.
        number.max(self.low).min(self.high)
    }
}

/// Final whitening of advantages to mean 0 and standard deviation 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whiten {
    /// No whitening.
    #[default]
    None,
    /// Over all tokens in the loss.
    Tokens,
    /// Over all turns in the loss.
    Turns,
}

/// Critic: a separate model that predicts returns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Critic {
    /// Granularity of values.
    pub level: Level,
    /// γ, per token or turn.
    #[schemars(range(min = 0, max = 1))]
    pub discount: f64,
    /// λ of generalised advantage estimation: 0 is the one-step TD error, 1 the Monte Carlo return.
    #[schemars(range(min = 0, max = 1))]
    pub lambda: f64,
    /// Learning rate of the critic. With `policy.checkpoint`, a stage that leaves it out uses `1e-5` instead of the
    /// preset's.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub learning_rate: f64,
    /// Schedule of the learning rate over training steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<WeightSchedule>,
    /// Training steps in which only the critic learns.
    pub warmup_steps: u64,
    /// Clip range of a value around its prediction at the start of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub clip: Option<f64>,
    /// Whether the return of an episode that a limit cut short, one of the run or the environment's own, continues with
    /// the critic's value after its last token. Without it, and after every other ending, the value is 0.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(!skip_serializing_if)]
    pub bootstrap: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Granularity of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// One action per token.
    Token,
    /// One action per turn.
    Turn,
}

/// Tokens excluded from the loss; their episodes still count in comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mask {
    /// Episodes with a turn that neither made a call that could be read, where one could be made, nor ended the episode
    /// (SimpleTIR).
    VoidTurn,
    /// Episodes that a limit cut short: one of the run, or the environment's own (ending `truncated`).
    OverLong,
    /// Replies that a limit of tokens cut: `limits.reply_tokens` or the context. Other replies of the episode stay in the
    /// loss.
    CutReply,
    /// Episodes with such a reply (DAPO's overlong filtering).
    CutEpisode,
    /// Groups of equal rewards (zero variance).
    ZeroVariance,
    /// Episodes whose advantages are all 0.
    ZeroAdvantage,
}

/// DAPO's soft penalty of long episodes: from 0 at `tokens - buffer` sampled tokens down to -1 at `tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LengthPenalty {
    /// Sampled tokens at which the penalty of an episode is 1 (DAPO).
    #[schemars(range(min = 1))]
    pub tokens: u32,
    /// Tokens over which the penalty grows from 0.
    #[schemars(range(min = 1), extend("x-range" = "1 to `length_penalty.tokens`"))]
    pub buffer: u32,
}

/// Granularity of the ratio of new to old probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ratio {
    /// Each token.
    Token,
    /// Geometric mean over a turn.
    Turn,
    /// Geometric mean over a sequence: the sampled tokens of one context (GSPO), in a tree those of the branch alone.
    Sequence,
}

/// Surrogate objective. `regression`, `preference` and `unpaired-preference` require `baseline = "none"`, `aggregation =
/// "constant"` and `constant_tokens = 1`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Surrogate {
    /// `min(ρA, clip(ρ, 1 - low, 1 + high)A)`.
    Clip {
        /// Clip range below 1.
        #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
        low: f64,
        /// Clip range above 1.
        #[schemars(extend("exclusiveMinimum" = 0))]
        high: f64,
        /// Lower bound, as a multiple of A, where A is negative (dual clip).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 1))]
        dual: Option<f64>,
        /// Gradient of tokens with a positive advantage above the upper bound.
        #[serde(default, skip_serializing_if = "WhenClipped::drops_gradient")]
        #[schemars(!skip_serializing_if)]
        when_clipped: WhenClipped,
    },
    /// `sg(clip(ρ, 1 - low, 1 + high)) · A · log π`: every token keeps its gradient (CISPO). Requires `ratio =
    /// "token"`.
    Cispo {
        /// Clip range of the weight below 1.
        #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
        low: f64,
        /// Clip range above 1.
        #[schemars(extend("exclusiveMinimum" = 0))]
        high: f64,
    },
    /// `ρA` without clipping.
    Importance {},
    /// `A · log π`.
    Plain {},
    /// Least squares between the difference of two episodes' log-ratios, divided by `eta`, and the difference of their
    /// rewards.
    Regression {
        /// η: divisor of the difference of log-ratios.
        #[schemars(extend("exclusiveMinimum" = 0))]
        eta: f64,
        /// Tokens whose log-ratios are compared.
        #[serde(default)]
        over: RegressionOver,
    },
    /// For each pair of a group's episodes, raises the better one's log-ratio to the reference policy (DPO).
    Preference {
        /// β: weight of a difference.
        #[schemars(extend("exclusiveMinimum" = 0))]
        beta: f64,
    },
    /// Raises the log-ratio to the reference policy of episodes with a reward above 0, and lowers that of others, each
    /// relative to the mean log-ratio of unrelated replies (KTO).
    UnpairedPreference {
        /// β: weight of a log-ratio.
        #[schemars(extend("exclusiveMinimum" = 0))]
        beta: f64,
        /// λ: weight of an episode with a reward above 0.
        #[serde(default = "neutral_weight")]
        #[schemars(range(min = 0))]
        desirable: f64,
        /// λ: weight of another episode.
        #[serde(default = "neutral_weight")]
        #[schemars(range(min = 0))]
        undesirable: f64,
    },
    /// Divergence between the policy's and the teacher's distributions at each sampled token, over the whole vocabulary;
    /// rewards are not used. Requires `baseline = "none"`, `credit.kind = "episode"` and a `teacher`.
    Distillation {
        /// Order of the two distributions.
        direction: Direction,
        /// Number of the teacher's most probable tokens to which both distributions are restricted and normalised; all
        /// tokens if unset.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 2))]
        top_k: Option<u32>,
    },
}

/// Order of the distributions in the divergence from a teacher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// `Σ teacher · log(teacher / policy)`: the policy covers all that the teacher may write.
    Forward,
    /// `Σ policy · log(policy / teacher)`: the policy avoids what the teacher would not write.
    Reverse,
}

/// Tokens whose log-ratios the regression compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RegressionOver {
    /// All tokens of both episodes (REBEL).
    #[default]
    Episode,
    /// Those of the first turn in which the two episodes differ: two replies to one prefix (REFUEL). Episodes of a tree
    /// share a prefix of turns, others the task.
    Reply,
}

/// Gradient of tokens with a positive advantage above the upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenClipped {
    /// No gradient.
    #[default]
    DropGradient,
    /// The gradient at the bound: `(1 + high) / sg(ρ) · ρ` (AEPO).
    KeepGradient,
}

impl WhenClipped {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn drops_gradient(&self) -> bool {
        *self == Self::DropGradient
    }
}

/// Aggregation of token losses into the loss of a minibatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// Mean over all tokens: long episodes weigh more.
    Token,
    /// Mean over episodes of the mean over each episode's tokens, those of all its seats together.
    Sequence,
    /// As `sequence`, with each seat's part of an episode as a sequence of its own.
    SequencePerSeat,
    /// Sum over all tokens, divided by the number of episodes times `constant_tokens`.
    Constant,
}

/// Turns that several episodes of a tree share (plans `branch` and `prefixes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SharedTurns {
    /// They enter the loss once, with the mean of the advantages of the episodes behind them.
    #[default]
    Once,
    /// They enter the loss once for each episode, with its own advantage.
    PerEpisode,
}

/// Band around the running mean in which the entropy of each turn is kept (EPO).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntropyBand {
    /// Lower end, as a multiple of the running mean.
    #[schemars(range(min = 0))]
    pub low: f64,
    /// Upper end, as a multiple of the running mean.
    #[schemars(extend("x-range" = "above `low`"))]
    pub high: f64,
    /// β: weight of the penalty relative to the entropy bonus.
    #[schemars(range(min = 0))]
    pub weight: f64,
    /// Form of the penalty.
    pub mode: BandMode,
    /// Tokens whose mean entropy is compared with the band.
    #[serde(default)]
    pub unit: BandUnit,
    /// First turn that it covers, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(!skip_serializing_if)]
    pub from_turn: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Tokens whose mean entropy is compared with the band of their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BandUnit {
    /// All tokens of the batch in turns of the same number.
    #[default]
    Batch,
    /// The tokens of one turn of one episode.
    Turn,
    /// Each token.
    Token,
}

/// Form of the penalty outside the band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BandMode {
    /// Distance to the band.
    Hinge,
    /// The constant 0.1, as in the released code; it has no gradient.
    Literal,
}

/// Replay of good episodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Replay {
    /// SPEAR: episodes with a positive advantage are replayed, with advantages over the median of recent group means.
    SelfImitation {
        /// Number of stored episodes.
        #[schemars(range(min = 1))]
        capacity: usize,
        /// Number of stored group means.
        #[schemars(range(min = 1))]
        baselines: usize,
        /// Maximum age of stored episodes in training steps.
        stale_steps: u32,
        /// Training steps over which the weight of replayed episodes grows to 1 along half a cosine.
        ramp_steps: u64,
    },
    /// DART: a group without a success gets a stored success of the same task.
    Backfill {
        /// Number of stored episodes, one per task.
        #[schemars(range(min = 1))]
        capacity: usize,
        /// Minimum reward of a success.
        success: f64,
    },
}

/// SPEAR's covariance clip: a share of the tokens whose covariance of advantage and log-probability lies between two
/// bounds gets no surrogate gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CovarianceClip {
    /// Lower bound of the covariance of advantage and log-probability (SPEAR).
    pub low: f64,
    /// Upper bound of the covariance.
    #[schemars(extend("x-range" = "above `low`"))]
    pub high: f64,
    /// Maximum share of all tokens in the loss, drawn from those between the bounds, that get no surrogate gradient.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub share: f64,
}
