//! What an algorithm asks of a training engine: log-probabilities forward, weighted gradients back.
//!
//! A loss is computed here, in double precision, from the numbers that a forward pass finds for each token. Its
//! derivative by each of them is all that an engine needs for the backward pass, so that engines know no algorithms.

mod flat;
pub mod loss;
pub mod message;
mod sequence;
mod token_stats;

use gymkhana_algorithm::{Critic, Optimizer};

pub use flat::Flat;
pub use loss::{Coefficients, Evaluated, Loss, LossSums, TokenNumbers, TokenRows};
pub use sequence::{Sequence, Target};
pub use token_stats::{Column, TokenStats};

/// Weights that score tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scorer {
    /// The policy in training.
    Policy,
    /// The reference policy.
    Reference,
    /// The teacher.
    Teacher,
}

/// Models of a stage besides the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FurtherModels {
    /// The reference policy.
    pub reference: bool,
    /// The teacher.
    pub teacher: bool,
    /// The critic.
    pub critic: bool,
}

/// Settings of a pass. They do not change what it computes, but for the temperature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pass {
    /// Sampling temperature of the tokens.
    pub temperature: f64,
    /// Whether to compute entropies.
    pub entropies: bool,
    /// Maximum number of positions that are computed at once.
    pub micro_batch_tokens: usize,
    /// Whether the backward pass recomputes the layers instead of keeping their activations.
    pub activation_checkpointing: bool,
    /// Whether common beginnings of sequences are computed once.
    pub share_beginnings: bool,
}

/// Outcome of an optimiser step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stepped {
    /// The weights moved.
    Taken {
        /// Norm of the gradient before clipping, if the engine says it.
        gradient_norm: Option<f64>,
    },
    /// The gradient was not finite. The weights are unchanged.
    Skipped,
}

/// What a pass found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Passed {
    /// The loss, and what is reported with it.
    pub sums: LossSums,
    /// Log-probability of each target of each sequence, in nats.
    pub log_probs: Vec<Vec<f64>>,
    /// Number of positions that were computed.
    pub positions: usize,
}

impl Passed {
    /// Adds what a pass over some of the sequences found: the loss's sums, and the log-probabilities of their targets.
    pub fn add(&mut self, part: &[Sequence], flat: &Flat, sums: LossSums, log_probs: &[f64]) {
        self.sums += sums;
        self.log_probs.extend(flat.split(log_probs));
        self.positions += part.iter().map(|sequence| sequence.inputs().len()).sum::<usize>();
    }
}

/// A training engine: it owns the policy's weights and optimiser, and further models.
///
/// Sequences of one call may be computed in any order and division, except that tokens that share a ratio are evaluated
/// together.
pub trait Engine: Sized {
    /// Failure of the engine.
    type Error;

    /// Models besides the policy.
    fn further_models(&self) -> FurtherModels;

    /// Optimiser steps of the stage so far.
    fn optimizer_steps(&self) -> u64;

    /// Log-probability of each target of each sequence, in nats.
    ///
    /// # Errors
    /// If the engine fails.
    fn log_probs(&self, scorer: Scorer, sequences: &[Sequence], pass: Pass) -> Result<Vec<Vec<f32>>, Self::Error>;

    /// The critic's value before each target of each sequence.
    ///
    /// # Errors
    /// If the engine fails.
    fn values(&self, sequences: &[Sequence], pass: Pass) -> Result<Vec<Vec<f32>>, Self::Error>;

    /// Forgets the gradients.
    ///
    /// # Errors
    /// If the engine fails.
    fn begin_update(&mut self) -> Result<(), Self::Error>;

    /// Adds the gradient of a loss.
    ///
    /// # Errors
    /// If the engine fails.
    fn accumulate(&mut self, sequences: &[Sequence], loss: Loss<'_>, pass: Pass) -> Result<Passed, Self::Error>;

    /// A loss without its gradient. Entropies are left out.
    ///
    /// # Errors
    /// If the engine fails.
    fn measure(&self, sequences: &[Sequence], loss: Loss<'_>, pass: Pass) -> Result<Passed, Self::Error>;

    /// Whether a step can be shortened once the weights have taken it.
    fn shortens_steps(&self) -> bool;

    /// Takes an optimiser step along the gradients. `share`, if there is one, tells how much of the step stays, from 0 to 1,
    /// once the weights have taken it; an engine that cannot shorten steps does not ask.
    ///
    /// # Errors
    /// If the engine fails, or too many steps in a row were skipped.
    fn step(&mut self, optimizer: &Optimizer, share: Option<&mut Share<'_, Self>>) -> Result<Stepped, Self::Error>;

    /// One step of the critic towards [`Column::ValueTarget`]. Returns its loss; `None` if the
    /// step was skipped.
    ///
    /// # Errors
    /// As [`Engine::step`].
    fn value_step(
        &mut self,
        sequences: &[Sequence],
        critic: Critic,
        optimizer: &Optimizer,
        pass: Pass,
    ) -> Result<Option<f64>, Self::Error>;

    /// Moves the reference policy by a share of the way to the policy.
    ///
    /// # Errors
    /// If the engine fails.
    fn approach_reference(&mut self, share: f64) -> Result<(), Self::Error>;
}

/// Share of an optimiser step that stays, given the engine with the moved weights.
pub type Share<'a, E> = dyn FnMut(&E) -> Result<f64, <E as Engine>::Error> + 'a;
