//! Settings of training steps, checked before anything is computed.

mod demonstrations;
mod parameter_group;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::require;
use crate::{Algorithm, EnvironmentAdvantage, SettingError};

pub use demonstrations::Demonstrations;
pub use parameter_group::{ParameterGroup, ParameterKind};

/// Learning rate schedule after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "LearningRateSchedule")]
pub enum Schedule {
    /// A constant learning rate.
    Constant,
    /// Down to `floor` at `total_steps` along a line.
    Linear,
    /// Down to `floor` at `total_steps` along half a cosine.
    Cosine,
    /// Constant up to the last `decay_steps` of `total_steps`, then down to `floor` along a line.
    WarmupStableDecay,
}

/// Number format of an optimiser's moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MomentFormat {
    /// 4 bytes for a number.
    #[default]
    Float32,
    /// 1 byte for a number and 4 for each block of 256 (arXiv 2110.02861).
    Int8,
}

/// AdamW and its learning rate.
///
/// With `policy.checkpoint`, the default learning rate is `1e-5` in `sft` stages and `1e-6` in others, ten times that
/// for adapters, with 10 steps of warm-up, and a critic's is `1e-5`. Without, it is `1e-3` in `sft` and `best-of-n` stages,
/// and `1e-4` in others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Optimizer {
    /// Learning rate after the warm-up.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub learning_rate: f64,
    /// Optimiser steps of linear warm-up.
    pub warmup_steps: u64,
    /// Schedule of the learning rate after the warm-up.
    pub schedule: Schedule,
    /// Optimiser steps after which the rate has fallen; rejected by `schedule = "constant"`, required by all others. An
    /// `sft` stage takes one optimiser step per step, an `rl` stage one per minibatch and epoch, except for minibatches
    /// without a gradient. Fewer than the stage takes are rejected without a `floor`, since the rest would be trained at a
    /// rate of 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = 1),
        extend("x-range" = "above `warmup_steps`; without `floor` at least the stage's optimiser steps")
    )]
    pub total_steps: Option<u64>,
    /// Last optimiser steps, in which the rate falls; required by `schedule = "warmup-stable-decay"`, rejected by all
    /// others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-range" = "up to `total_steps` less `warmup_steps`"))]
    pub decay_steps: Option<u64>,
    /// Learning rate at `total_steps`, as a share of `learning_rate`; rejected by `schedule = "constant"`.
    #[serde(skip_serializing_if = "is_0")]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub floor: f64,
    /// Decay of the mean of gradients.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub beta2: f64,
    /// Term added to the root of the mean square.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub epsilon: f64,
    /// Decoupled weight decay, multiplied by the learning rate. Without `groups` it applies to matrices, but not to
    /// embeddings, norms and biases.
    #[schemars(range(min = 0))]
    pub weight_decay: f64,
    /// Maximum gradient norm; larger gradients are rescaled.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub gradient_clip: f64,
    /// Optimiser steps in a row that are skipped because their gradient is not finite; one more ends the run.
    pub max_skipped_steps: u32,
    /// Number format of the means of gradients and squares: `"int8"` takes a quarter of the memory of `"float32"`, and an
    /// optimiser step more time.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if)]
    pub moments: MomentFormat,
    /// Parameter groups: other learning rates and weight decays for some kinds of parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub groups: Vec<ParameterGroup>,
    /// Decay of a moving average of the trained weights: after each optimiser step it is `ema` times itself plus `1 - ema`
    /// times the weights. Checkpoints hold the averaged model in the folder `average`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub ema: Option<f64>,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            warmup_steps: 0,
            schedule: Schedule::Constant,
            total_steps: None,
            decay_steps: None,
            floor: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            gradient_clip: 1.0,
            max_skipped_steps: 3,
            moments: MomentFormat::Float32,
            groups: Vec::new(),
            ema: None,
        }
    }
}

impl Optimizer {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), SettingError> {
        let above_0 = |value: f64| value > 0.0 && value.is_finite();
        require(above_0(self.learning_rate), "learning_rate", self.learning_rate, "above 0")?;
        require((0.0..1.0).contains(&self.beta1), "beta1", self.beta1, "at least 0 and below 1")?;
        require((0.0..1.0).contains(&self.beta2), "beta2", self.beta2, "at least 0 and below 1")?;
        require(above_0(self.epsilon), "epsilon", self.epsilon, "above 0")?;
        let decay = self.weight_decay;
        require(decay >= 0.0 && decay.is_finite(), "weight_decay", decay, "at least 0")?;
        require(above_0(self.gradient_clip), "gradient_clip", self.gradient_clip, "above 0")?;
        require((0.0..1.0).contains(&self.floor), "floor", self.floor, "at least 0 and below 1")?;
        parameter_group::check(&self.groups)?;
        let decay = self.ema.unwrap_or(0.5);
        require(decay > 0.0 && decay < 1.0, "ema", decay, "above 0 and below 1")?;
        self.check_schedule()
    }

    /// Refuses keys that the schedule lacks, and those that it does not use.
    fn check_schedule(&self) -> Result<(), SettingError> {
        let unused = "left out under this `schedule`: it has no effect";
        let falls = self.schedule != Schedule::Constant;
        match self.total_steps {
            None => require(!falls, "total_steps", "missing", "the stage's optimiser steps under this `schedule`")?,
            Some(steps) => {
                require(falls, "total_steps", steps, unused)?;
                require(steps > self.warmup_steps, "total_steps", steps, "above `warmup_steps`")?;
            }
        }
        require(falls || self.floor == 0.0, "floor", self.floor, unused)?;
        let is_stable = self.schedule == Schedule::WarmupStableDecay;
        match self.decay_steps {
            None => require(!is_stable, "decay_steps", "missing", "the number of last steps in which the rate falls"),
            Some(steps) => {
                require(is_stable, "decay_steps", steps, unused)?;
                let most = self.total_steps.unwrap_or(0).saturating_sub(self.warmup_steps);
                let fits = (1..=most).contains(&steps);
                require(fits, "decay_steps", steps, "at least 1, and at most `total_steps` less `warmup_steps`")
            }
        }
    }

    /// Factor of the learning rate, and weight decay, of a kind of parameters.
    #[must_use]
    pub fn of_kind(&self, kind: ParameterKind) -> (f64, f64) {
        parameter_group::of_kind(&self.groups, kind, self.weight_decay)
    }

    /// The learning rate of an optimiser step, counted from 0.
    #[must_use]
    pub fn learning_rate_at(&self, step: u64) -> f64 {
        if step < self.warmup_steps {
            return self.learning_rate * (step + 1) as f64 / self.warmup_steps as f64;
        }
        let Some(total) = self.total_steps else { return self.learning_rate };
        let falling = self.decay_steps.unwrap_or_else(|| total.saturating_sub(self.warmup_steps)).max(1);
        let fallen = step.saturating_sub(total.saturating_sub(falling)) as f64 / falling as f64;
        let left = match self.schedule {
            Schedule::Constant => 1.0,
            Schedule::Linear | Schedule::WarmupStableDecay => 1.0 - fallen.min(1.0),
            Schedule::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * fallen.min(1.0)).cos()),
        };
        self.learning_rate * (self.floor + (1.0 - self.floor) * left)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_0(value: &f64) -> bool {
    *value == 0.0
}

/// Default tokens per forward and backward pass: enough to keep the cores busy, few enough for caches and memory.
const MICRO_TOKENS: usize = 4096;

/// Supervised fine-tuning on demonstrations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SftSettings {
    /// AdamW and the learning rate.
    pub optimizer: Optimizer,
    /// Weight of the mean loss over the tokens that the expert did not write; at least 0. A small weight helps a model
    /// that starts from random weights.
    pub other_tokens: f64,
    /// Tokens of one forward pass; at least 1. Changes memory and speed, not the result.
    pub micro_batch_tokens: usize,
    /// Whether the backward pass recomputes the layers instead of keeping their activations: about a third more time,
    /// less memory, the same result.
    pub activation_checkpointing: bool,
}

impl Default for SftSettings {
    fn default() -> Self {
        Self {
            optimizer: Optimizer::default(),
            other_tokens: 0.1,
            micro_batch_tokens: MICRO_TOKENS,
            activation_checkpointing: false,
        }
    }
}

impl SftSettings {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), SettingError> {
        self.optimizer.check()?;
        let weight = self.other_tokens;
        require(weight >= 0.0 && weight.is_finite(), "other_tokens", weight, "at least 0")?;
        require(self.micro_batch_tokens >= 1, "micro_batch_tokens", self.micro_batch_tokens, "at least 1")
    }
}

/// Reinforcement learning on groups of episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RlSettings {
    /// AdamW and the learning rate.
    pub optimizer: Optimizer,
    /// The algorithm's flags.
    pub algorithm: Algorithm,
    /// Advantages of environments by name. Others have the flags of the algorithm.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, EnvironmentAdvantage>,
    /// Supervised loss on the step's demonstrations.
    pub demonstrations: Option<Demonstrations>,
    /// Largest divergence between the policy after an optimiser step and before it, in nats per token, above 0; a step
    /// beyond it is shortened. In a minibatch of which only a share has a gradient, the bound is that share of it. `None`
    /// for no bound. Losses over whole episodes and from a teacher have none.
    pub step_divergence: Option<f64>,
    /// Sampling temperature of the episodes; above 0. Ratios, divergences and entropies use the distribution at this
    /// temperature.
    pub temperature: f64,
    /// Seats whose tokens are trained on; all if absent.
    pub seats: Option<Vec<u32>>,
    /// Tokens of one forward pass; at least 1. Changes memory and speed, not the result.
    pub micro_batch_tokens: usize,
    /// As in [`SftSettings::activation_checkpointing`].
    pub activation_checkpointing: bool,
    /// Whether common prefixes of sequences are computed once. Changes speed, not the result.
    pub share_beginnings: bool,
    /// Whether sequences without a gradient get no backward pass: all advantages are 0 and no other loss term is set. They
    /// are only measured. A minibatch of such sequences takes no optimiser step; otherwise this changes speed, not the
    /// result.
    pub skip_idle: bool,
}

impl Default for RlSettings {
    fn default() -> Self {
        let optimizer = Optimizer { learning_rate: 1e-4, ..Optimizer::default() };
        let (algorithm, temperature, micro_batch_tokens) = (Algorithm::default(), 1.0, MICRO_TOKENS);
        let (share_beginnings, skip_idle) = (true, true);
        let (seats, activation_checkpointing) = (None, false);
        let demonstrations = None;
        Self {
            optimizer,
            algorithm,
            environments: BTreeMap::new(),
            demonstrations,
            step_divergence: None,
            temperature,
            seats,
            micro_batch_tokens,
            activation_checkpointing,
            share_beginnings,
            skip_idle,
        }
    }
}

impl RlSettings {
    /// Whether this seat's tokens are trained on.
    #[must_use]
    pub fn learns(&self, seat: u32) -> bool {
        self.seats.as_ref().is_none_or(|seats| seats.contains(&seat))
    }

    /// Refuses values out of range.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), SettingError> {
        self.optimizer.check()?;
        self.algorithm.check()?;
        self.environments.values().try_for_each(|advantage| advantage.check(&self.algorithm))?;
        self.demonstrations.map_or(Ok(()), |demonstrations| demonstrations.check())?;
        let bound = self.step_divergence.unwrap_or(1.0);
        require(bound > 0.0, "step_divergence", bound, "above 0")?;
        let above_0 = self.temperature > 0.0 && self.temperature.is_finite();
        require(above_0, "temperature", self.temperature, "above 0")?;
        require(self.micro_batch_tokens >= 1, "micro_batch_tokens", self.micro_batch_tokens, "at least 1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spoil = fn(&mut Optimizer);

    use ParameterKind::{Biases, Embeddings, LoraB, Matrices, Norms};

    fn group(of: &[ParameterKind]) -> ParameterGroup {
        ParameterGroup { of: of.to_vec(), rate: 1.0, weight_decay: None }
    }

    /// LoRA+: B learns 16 times as fast. Norms decay only where their group says so.
    #[test]
    fn groups_replace_the_rate_and_the_decay_of_their_kinds() {
        let optimizer = Optimizer { weight_decay: 0.1, ..Optimizer::default() };
        let of = |optimizer: &Optimizer| [Matrices, LoraB, Norms, Embeddings].map(|kind| optimizer.of_kind(kind));
        assert_eq!(of(&optimizer), [(1.0, 0.1), (1.0, 0.1), (1.0, 0.0), (1.0, 0.0)]);
        let groups = vec![
            ParameterGroup { rate: 16.0, ..group(&[LoraB]) },
            ParameterGroup { weight_decay: Some(0.3), ..group(&[Norms, Biases]) },
            ParameterGroup { rate: 0.5, weight_decay: Some(0.0), ..group(&[Matrices]) },
        ];
        let optimizer = Optimizer { groups, ..optimizer };
        optimizer.check().expect("three groups");
        assert_eq!(of(&optimizer), [(0.5, 0.0), (16.0, 0.1), (1.0, 0.3), (1.0, 0.0)]);
    }

    #[test]
    fn the_learning_rate_rises_and_falls() {
        let mut optimizer = Optimizer { learning_rate: 2.0, warmup_steps: 4, ..Optimizer::default() };
        let rates = |optimizer: &Optimizer| [0, 3, 4, 8, 12, 99].map(|step| optimizer.learning_rate_at(step));
        assert_eq!(rates(&optimizer), [0.5, 2.0, 2.0, 2.0, 2.0, 2.0]);
        let mut falls = |schedule, decay_steps, floor, expected: [f64; 6]| {
            (optimizer.schedule, optimizer.total_steps) = (schedule, Some(12));
            (optimizer.decay_steps, optimizer.floor) = (decay_steps, floor);
            optimizer.check().expect("a whole schedule");
            for (found, expected) in rates(&optimizer).into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{schedule:?}: {found} is not {expected}");
            }
        };
        // By hand: 2.0 at step 4, half of the way at step 8, the end at step 12.
        falls(Schedule::Cosine, None, 0.0, [0.5, 2.0, 2.0, 1.0, 0.0, 0.0]);
        falls(Schedule::Linear, None, 0.0, [0.5, 2.0, 2.0, 1.0, 0.0, 0.0]);
        falls(Schedule::Cosine, None, 0.1, [0.5, 2.0, 2.0, 1.1, 0.2, 0.2]);
        falls(Schedule::Linear, None, 0.5, [0.5, 2.0, 2.0, 1.5, 1.0, 1.0]);
        falls(Schedule::WarmupStableDecay, Some(2), 0.0, [0.5, 2.0, 2.0, 2.0, 0.0, 0.0]);
        assert_eq!(optimizer.learning_rate_at(11), 1.0);
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        let wrong: [(&str, Spoil); 18] = [
            ("learning_rate", |optimizer| optimizer.learning_rate = 0.0),
            ("beta1", |optimizer| optimizer.beta1 = 1.0),
            ("beta2", |optimizer| optimizer.beta2 = -0.1),
            ("epsilon", |optimizer| optimizer.epsilon = 0.0),
            ("weight_decay", |optimizer| optimizer.weight_decay = f64::NAN),
            ("gradient_clip", |optimizer| optimizer.gradient_clip = 0.0),
            ("total_steps", |optimizer| optimizer.total_steps = Some(3)),
            ("total_steps", |optimizer| optimizer.schedule = Schedule::Cosine),
            ("floor", |optimizer| optimizer.floor = 0.1),
            ("floor", |optimizer| optimizer.floor = 1.0),
            ("decay_steps", |optimizer| optimizer.decay_steps = Some(1)),
            ("decay_steps", |optimizer| {
                (optimizer.schedule, optimizer.total_steps) = (Schedule::WarmupStableDecay, Some(3));
            }),
            ("decay_steps", |optimizer| {
                (optimizer.schedule, optimizer.total_steps) = (Schedule::WarmupStableDecay, Some(3));
                optimizer.decay_steps = Some(4);
            }),
            ("ema", |optimizer| optimizer.ema = Some(1.0)),
            ("groups.of", |optimizer| optimizer.groups = vec![group(&[])]),
            ("groups.of", |optimizer| optimizer.groups = vec![group(&[Norms]), group(&[Biases, Norms])]),
            ("groups.rate", |optimizer| optimizer.groups = vec![ParameterGroup { rate: -1.0, ..group(&[Norms]) }]),
            ("groups.weight_decay", |optimizer| {
                optimizer.groups = vec![ParameterGroup { weight_decay: Some(f64::NAN), ..group(&[Norms]) }];
            }),
        ];
        for (key, spoil) in wrong {
            let mut settings = RlSettings::default();
            spoil(&mut settings.optimizer);
            assert!(settings.check().expect_err(key).to_string().contains(key));
        }
    }
}
