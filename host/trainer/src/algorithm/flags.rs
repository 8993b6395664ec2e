//! The axes of the grid: one enum or table for each.

use serde::{Deserialize, Serialize};

/// How what an episode earned becomes credit of its turns.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Credit {
    /// The whole reward, for every turn alike.
    #[default]
    Episode,
    /// What the last turn brought, for every turn alike.
    Outcome,
    /// Each turn's own reward, compared with the same turn's; what belongs to no turn is the last one's.
    Immediate,
    /// What came from the turn on, summed first and compared then (MARS).
    Returns {
        /// γ, from 0 to 1, for each turn.
        discount: f64,
    },
    /// Rewards of turns, compared first and summed then (IGPO).
    Rewards {
        /// γ, from 0 to 1, for each turn.
        discount: f64,
        /// Whether last turns are compared together with all others, or among themselves.
        jointly: bool,
    },
    /// A turn's reward among the same turns of the group, plus the last turn's among last turns (MT-GRPO).
    Turns {
        /// What the latter counts.
        outcome_weight: f64,
    },
    /// By how much more probable a teacher finds each token than the policy that sampled it; rewards say nothing.
    Teacher,
    /// The whole reward in the group, plus returns among turns that began with the same observation (GiGPO).
    Anchors {
        /// γ, from 0 to 1, for each turn.
        discount: f64,
        /// ω: what the latter counts.
        weight: f64,
    },
}

/// Who is compared with whom in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupBy {
    /// A seat with the same seat in the other episodes: what one seat of a game wins says nothing of another's.
    #[default]
    Seat,
    /// All seats of all episodes together.
    All,
}

impl GroupBy {
    /// Seats of equal keys are compared.
    pub(crate) fn key(self, seat: u32) -> u32 {
        match self {
            Self::Seat => seat,
            Self::All => 0,
        }
    }
}

/// What is taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Nothing.
    None,
    /// The mean of the group.
    GroupMean,
    /// The mean of the group's other members.
    LeaveOneOut,
    /// A moving average of the seat's rewards (SPIRAL), read before it moves.
    SeatAverage,
    /// What a critic expects, through generalised advantages.
    Critic,
}

/// What the difference from the baseline is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Nothing.
    #[default]
    None,
    /// The group's sample standard deviation.
    GroupStd,
    /// The sample standard deviation over the batch, before any baseline is taken off.
    BatchStd,
}

/// Over what advantages are brought to mean 0 and deviation 1 at last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whiten {
    /// Nothing: they stay as they are.
    #[default]
    None,
    /// All learnt tokens of the batch.
    Tokens,
    /// All learnt turns of the batch.
    Turns,
}

/// A model of its own that learns what to expect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Critic {
    /// Where values stand.
    pub level: Level,
    /// γ, from 0 to 1, for each token or turn.
    pub discount: f64,
    /// λ, from 0 (one step ahead) to 1 (what really came).
    pub lambda: f64,
    /// Its learning rate; above 0.
    pub learning_rate: f64,
    /// Training steps in which it alone learns.
    pub warmup_steps: u64,
    /// How far a value may move from what it was when the step began, without loss of gradient; above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
}

/// What one action of the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A token.
    Token,
    /// A turn.
    Turn,
}

/// What is not learnt from, though it counts where episodes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mask {
    /// Episodes with a turn that neither called, where something could be called, nor ended the episode (SimpleTIR).
    VoidTurn,
    /// Episodes that a limit of the run ended.
    OverLong,
    /// Groups whose rewards do not differ.
    ZeroVariance,
    /// Episodes without any advantage.
    ZeroAdvantage,
}

/// DAPO's soft punishment of long episodes: from 0 at `tokens - buffer` sampled tokens down to -1 at `tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthPenalty {
    /// Where it is whole.
    pub tokens: u32,
    /// Over how many tokens it grows; from 1 to `tokens`.
    pub buffer: u32,
}

/// Over what the ratio of new to old probability is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ratio {
    /// Each token's own.
    Token,
    /// The geometric mean over a turn.
    Turn,
    /// The geometric mean over a sequence: the sampled tokens of one context (GSPO).
    Sequence,
}

/// What is maximised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Surrogate {
    /// `min(ρA, clip(ρ, 1 - low, 1 + high)A)`.
    Clip {
        /// How far below 1 the ratio counts; in (0, 1].
        low: f64,
        /// How far above 1; above 0.
        high: f64,
        /// Where A is negative, at least this many times A (dual clip); above 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dual: Option<f64>,
        /// What becomes of the gradient of good tokens beyond the upper bound.
        #[serde(default, skip_serializing_if = "WhenClipped::drops_gradient")]
        when_clipped: WhenClipped,
    },
    /// `sg(clip(ρ, 1 - low, 1 + high)) · A · log π`: no token loses its gradient (CISPO).
    Cispo {
        /// How far below 1 the weight counts; in (0, 1].
        low: f64,
        /// How far above 1; above 0.
        high: f64,
    },
    /// `ρA`, whatever ρ is.
    Importance,
    /// `A · log π`.
    Plain,
    /// Least squares of differences of log-ratios of whole episodes, over `eta`, against differences of their rewards
    /// (REFUEL).
    Regression {
        /// η; above 0.
        eta: f64,
    },
    /// Of every two episodes of a group, the better one's log-ratio to the reference is to be the larger (DPO).
    Preference {
        /// β: how much a difference counts; above 0.
        beta: f64,
    },
}

/// What becomes of the gradient of tokens with a positive advantage beyond the upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenClipped {
    /// It is lost.
    #[default]
    DropGradient,
    /// It is that of the bound: `(1 + high) / sg(ρ) · ρ` (AEPO).
    KeepGradient,
}

impl WhenClipped {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn drops_gradient(&self) -> bool {
        *self == Self::DropGradient
    }
}

/// How the losses of tokens become the loss of a minibatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// The mean over all learnt tokens: long episodes weigh more.
    Token,
    /// The mean over episodes of the mean over each episode's learnt tokens.
    Sequence,
    /// The sum over all learnt tokens, over the number of episodes times `constant_tokens`.
    Constant,
}

/// A penalty for leaving the weights with which the stage began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kl {
    /// Its weight; at least 0, where 0 is none.
    pub beta: f64,
    /// How it is estimated from sampled tokens.
    pub estimator: Estimator,
    /// Where it counts.
    pub place: KlPlace,
    /// Only in the first so many turns (SCoRe's first stage); in a loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_turns: Option<u32>,
}

/// Schulman's estimators of the divergence, with `d = log π - log π_ref`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// `d`: unbiased, and in a loss of a gradient whose mean is 0.
    K1,
    /// `d² / 2`.
    K2,
    /// `exp(-d) + d - 1`: unbiased and never negative.
    K3,
}

/// Where a penalty counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KlPlace {
    /// It is added to each token's loss.
    Loss,
    /// Its sum is taken off the episode's reward.
    Reward,
    /// What is still to come of it is taken off each token's advantage.
    Tokens,
}

/// Holds the entropy of each turn in a band around what it was before (EPO).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntropyBand {
    /// The lower end, times the mean so far; at least 0.
    pub low: f64,
    /// The upper end; above `low`.
    pub high: f64,
    /// β: what the penalty weighs beside the entropy.
    pub weight: f64,
    /// What the penalty is.
    pub mode: BandMode,
    /// From which turn on it counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_turn: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What the penalty of leaving the band is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BandMode {
    /// How far outside: it leads back.
    Hinge,
    /// 0.1 outside, as the released code has it: a constant, which has no gradient.
    Literal,
}

/// What is done about tokens that another policy than the one in training sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffPolicy {
    /// The loss is weighed by the ratio of the weights when the step began to those that sampled, and at most by this
    /// (truncated importance sampling); above 0.
    pub cap: f64,
    /// Over what that ratio is taken.
    pub level: CapLevel,
    /// Episodes with a token of a ratio below this are not learnt from; above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veto: Option<f64>,
    /// Tokens from weights that are older, in training steps, are not learnt from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_steps: Option<u32>,
}

/// Over what the corrected ratio is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapLevel {
    /// Each token's own.
    Token,
    /// The product over a seat's part of an episode.
    Sequence,
}

/// Good episodes are kept and learnt from again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Replay {
    /// SPEAR: episodes with an advantage are learnt from once more, by what they are better than the median of recent
    /// groups' means.
    SelfImitation {
        /// How many episodes are kept.
        capacity: usize,
        /// Of how many groups the means are kept.
        baselines: usize,
        /// Episodes that are older, in training steps, are forgotten.
        stale_steps: u32,
        /// Over how many training steps their weight grows to 1, along half a cosine.
        ramp_steps: u64,
    },
    /// DART: a group in which nobody succeeded gets a success of its task from before.
    Backfill {
        /// How many episodes are kept, one a task.
        capacity: usize,
        /// From which reward on an episode is a success.
        success: f64,
    },
}

/// SPEAR's limit on tokens that move the policy most: of those whose covariance of advantage and log-probability lies
/// between two bounds, a few are left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CovarianceClip {
    /// The lower bound.
    pub low: f64,
    /// The upper bound; above `low`.
    pub high: f64,
    /// How many at most, as a share of all learnt tokens; above 0, at most 1.
    pub share: f64,
}
