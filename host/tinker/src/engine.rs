//! The training engine of a Tinker-compatible server.
//!
//! A loss that the server has is one pass. Any other is two: the first finds log-probabilities, and the second has a
//! gradient with given weights, which are the derivatives of the loss by them.

use gymkhana_algorithm::{Algorithm, Critic, KlPlace, Optimizer, Ratio, Surrogate, WhenClipped};
use gymkhana_engine::{
    Column, Engine, Flat, FurtherModels, Loss, Pass, Passed, Scorer, Sequence, Share, Stepped, TokenNumbers,
};
use tokio::runtime::Handle;

use crate::TinkerModel;
use crate::datum::{Datum, Reduction, ServerLoss, TrainedToken};
use crate::error::TinkerError;

/// Sequences of one request.
const SEQUENCES: usize = 64;

/// What changes with optimiser steps and is part of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Optimiser steps of the stage.
    pub optimizer_steps: u64,
    /// Number of saved weights, so that their names differ.
    pub saved: u32,
}

/// A model on the server, and the weights of the reference policy.
#[derive(Debug)]
pub struct TinkerEngine {
    /// The model in training.
    pub model: TinkerModel,
    /// Counters.
    pub counters: Counters,
    /// The reference policy, if the stage has one, and the path of its weights. It is a model of its own: a server may load
    /// the weights that it samples from into the model that was trained.
    reference: Option<(TinkerModel, String)>,
    runtime: Handle,
}

/// How a loss is computed on the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plan {
    /// By a loss of the server's own, in one pass.
    Own(ServerLoss),
    /// By derivatives that do not depend on log-probabilities, in one pass.
    Constant,
    /// By derivatives from the log-probabilities of a first pass.
    Derivatives,
}

impl Plan {
    fn of(loss: Loss<'_>, reduction: Reduction) -> Self {
        let flags = match loss {
            Loss::Supervised => return Self::Own(ServerLoss::Supervised),
            Loss::Policy { flags, .. } => flags,
        };
        let is_surrogate = flags.penalty_in(KlPlace::Loss).is_none() && flags.ratio == Some(Ratio::Token);
        match (flags.surrogate, reduction) {
            (Surrogate::Clip { low, high, dual: None, when_clipped: WhenClipped::DropGradient }, _) if is_surrogate => {
                Self::Own(ServerLoss::Clip { low, high })
            }
            (Surrogate::Cispo { low, high }, _) if is_surrogate => Self::Own(ServerLoss::Cispo { low, high }),
            (Surrogate::Importance {}, _) if is_surrogate => Self::Own(ServerLoss::Importance),
            (_, Reduction::Sum) if is_linear(flags) => Self::Constant,
            _ => Self::Derivatives,
        }
    }
}

/// Number of passes that a loss takes on a server that adds up losses.
#[must_use]
pub fn passes(flags: &Algorithm) -> u32 {
    match Plan::of(Loss::Policy { flags, version: 0 }, Reduction::Sum) {
        Plan::Own(_) | Plan::Constant => 1,
        Plan::Derivatives => 2,
    }
}

/// Whether the loss is a weighted sum of log-probabilities.
fn is_linear(flags: &Algorithm) -> bool {
    let by_log_probs = match flags.surrogate {
        Surrogate::Plain {}
        | Surrogate::Regression { .. }
        | Surrogate::Preference { .. }
        | Surrogate::UnpairedPreference { .. } => true,
        Surrogate::Clip { .. }
        | Surrogate::Cispo { .. }
        | Surrogate::Importance {}
        | Surrogate::Distillation { .. } => false,
    };
    by_log_probs && flags.penalty_in(KlPlace::Loss).is_none()
}

impl TinkerEngine {
    /// An engine for a model. Its calls block the thread and use the runtime, of which the thread must not be part.
    #[must_use]
    pub fn new(model: TinkerModel, counters: Counters, runtime: Handle) -> Self {
        Self { model, counters, reference: None, runtime }
    }

    /// Path of the reference policy's weights.
    #[must_use]
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_ref().map(|(_, path)| path.as_str())
    }

    /// Scores with weights under a path as the reference policy from now on.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn set_reference(&mut self, path: Option<String>) -> Result<(), TinkerError> {
        self.reference = match path {
            None => None,
            Some(path) => Some((self.model.beside(&path).await?, path)),
        };
        Ok(())
    }

    /// Makes the current weights those of the reference policy.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn refer_to_current(&mut self) -> Result<(), TinkerError> {
        self.counters.saved += 1;
        let path = self.model.save(&format!("reference-{}", self.counters.saved)).await?;
        self.set_reference(Some(path)).await
    }

    /// Saves the current weights and the optimiser's state under a new name that begins with this one; returns their path.
    /// Blocks the thread.
    ///
    /// # Errors
    /// If the server fails.
    pub fn save_as(&mut self, name: &str) -> Result<String, TinkerError> {
        self.counters.saved += 1;
        self.runtime.block_on(self.model.save(&format!("{name}-{}", self.counters.saved)))
    }

    /// Saves the current weights for sampling; returns their path.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn save_for_sampling(&mut self, version: u32) -> Result<String, TinkerError> {
        self.counters.saved += 1;
        self.model.save_for_sampling(&format!("v{version:06}-{}", self.counters.saved)).await
    }

    /// Adds the gradient of the loss of a few sequences. Returns the log-probabilities before the step.
    async fn gradient(&self, part: &[Sequence], flat: &Flat, loss: Loss<'_>) -> Result<TokenNumbers, TinkerError> {
        let plan = Plan::of(loss, self.model.reduction());
        let found = match plan {
            Plan::Own(own) => {
                let data: Vec<Datum> =
                    part.iter().map(|sequence| datum(sequence, own_numbers(sequence, own))).collect();
                self.model.forward_backward(&data, own).await?
            }
            Plan::Constant => {
                let zeros = TokenNumbers::from(vec![0.0; flat.targets.len()]);
                self.weighted(part, flat, loss, &zeros).await?
            }
            Plan::Derivatives => {
                let numbers = forward(&self.model, part).await?;
                self.weighted(part, flat, loss, &numbers).await?;
                return Ok(numbers);
            }
        };
        Ok(of_targets(part, &found))
    }

    /// A pass whose gradient has the derivatives of a loss at some log-probabilities as weights.
    async fn weighted(
        &self,
        part: &[Sequence],
        flat: &Flat,
        loss: Loss<'_>,
        at: &TokenNumbers,
    ) -> Result<Vec<Vec<f32>>, TinkerError> {
        let by = flat.split(&flat.evaluate(loss, at).by.log_probs);
        let log_probs = flat.split(&at.log_probs);
        // A mean over weights has no such gradient, but at a ratio of 1 that of the importance-weighted loss has.
        let own = match self.model.reduction() {
            Reduction::Sum => ServerLoss::Supervised,
            Reduction::SequenceMean => ServerLoss::Importance,
        };
        let each = part.iter().zip(by.iter().zip(&log_probs));
        let data: Vec<Datum> = each
            .map(|(sequence, (by, log_probs))| {
                datum(sequence, |row, at| match own {
                    ServerLoss::Supervised => token(at, -by[row]),
                    _ => TrainedToken { at, share: 1.0, advantage: -by[row], log_prob: log_probs[row] },
                })
            })
            .collect();
        self.model.forward_backward(&data, own).await
    }
}

/// Log-probabilities of the targets of a few sequences.
async fn forward(model: &TinkerModel, part: &[Sequence]) -> Result<TokenNumbers, TinkerError> {
    let data: Vec<Datum> = part.iter().map(|sequence| datum(sequence, |_, at| token(at, 0.0))).collect();
    Ok(of_targets(part, &model.forward(&data).await?))
}

/// A token with a weight in a supervised loss.
fn token(at: usize, share: f64) -> TrainedToken {
    TrainedToken { at, share, advantage: 0.0, log_prob: 0.0 }
}

/// The message of a sequence; `number` gives the token of a row, by its index in the sequence.
fn datum(sequence: &Sequence, number: impl Fn(usize, usize) -> TrainedToken) -> Datum {
    let trained = sequence.targets.iter().enumerate().map(|(row, target)| number(row, target.at)).collect();
    Datum { tokens: sequence.tokens.clone(), trained }
}

/// Numbers of a sequence's tokens for a loss that the server has.
fn own_numbers(sequence: &Sequence, loss: ServerLoss) -> impl Fn(usize, usize) -> TrainedToken + '_ {
    move |row, at| {
        let of = |column| sequence.stats.get(column, row);
        let share = of(Column::LossWeight);
        match loss {
            ServerLoss::Supervised => token(at, share),
            _ => TrainedToken {
                at,
                share: share * of(Column::Correction),
                advantage: of(Column::Advantage),
                log_prob: of(Column::Proximal),
            },
        }
    }
}

/// Log-probabilities of targets among those of all tokens but the first.
fn of_targets(part: &[Sequence], found: &[Vec<f32>]) -> TokenNumbers {
    let each = part
        .iter()
        .zip(found)
        .flat_map(|(sequence, found)| sequence.targets.iter().map(|target| f64::from(found[target.at - 1])));
    each.collect::<Vec<f64>>().into()
}

impl Engine for TinkerEngine {
    type Error = TinkerError;

    fn further_models(&self) -> FurtherModels {
        FurtherModels { reference: self.reference.is_some(), ..FurtherModels::default() }
    }

    fn optimizer_steps(&self) -> u64 {
        self.counters.optimizer_steps
    }

    fn log_probs(&self, scorer: Scorer, sequences: &[Sequence], _: Pass) -> Result<Vec<Vec<f32>>, TinkerError> {
        let model = match (scorer, &self.reference) {
            (Scorer::Policy, _) => &self.model,
            (Scorer::Reference, Some((reference, _))) => reference,
            (Scorer::Reference | Scorer::Teacher, _) => return Err(TinkerError::NoReference),
        };
        self.runtime.block_on(async {
            let mut all = vec![];
            for part in sequences.chunks(SEQUENCES) {
                let numbers = forward(model, part).await?;
                let split = Flat::of(part).split(&numbers.log_probs);
                all.extend(split.into_iter().map(|own| own.into_iter().map(|number| number as f32).collect()));
            }
            Ok(all)
        })
    }

    fn values(&self, _: &[Sequence], _: Pass) -> Result<Vec<Vec<f32>>, TinkerError> {
        Err(TinkerError::NoCritic)
    }

    /// The server begins with no gradient, and forgets it at each optimiser step.
    fn begin_update(&mut self) -> Result<(), TinkerError> {
        Ok(())
    }

    fn accumulate(&mut self, sequences: &[Sequence], loss: Loss<'_>, _: Pass) -> Result<Passed, TinkerError> {
        let runtime = self.runtime.clone();
        runtime.block_on(async {
            let mut passed = Passed::default();
            for part in sequences.chunks(SEQUENCES) {
                let flat = Flat::of(part);
                let numbers = self.gradient(part, &flat, loss).await?;
                passed.add(part, &flat, flat.evaluate(loss, &numbers).sums, &numbers.log_probs);
            }
            Ok(passed)
        })
    }

    /// Sequences without a gradient are not sent: figures leave them out.
    fn measure(&self, sequences: &[Sequence], _: Loss<'_>, _: Pass) -> Result<Passed, TinkerError> {
        let log_probs = sequences.iter().map(|sequence| vec![0.0; sequence.targets.len()]).collect();
        Ok(Passed { log_probs, ..Passed::default() })
    }

    fn shortens_steps(&self) -> bool {
        false
    }

    fn step(&mut self, optimizer: &Optimizer, _: Option<&mut Share<'_, Self>>) -> Result<Stepped, TinkerError> {
        let learning_rate = optimizer.learning_rate_at(self.counters.optimizer_steps);
        self.runtime.block_on(self.model.optim_step(optimizer, learning_rate))?;
        self.counters.optimizer_steps += 1;
        Ok(Stepped::Taken { gradient_norm: None })
    }

    fn value_step(&mut self, _: &[Sequence], _: Critic, _: &Optimizer, _: Pass) -> Result<Option<f64>, TinkerError> {
        Err(TinkerError::NoCritic)
    }

    /// The current weights become the reference policy's; the run file's check refuses shares of the way.
    fn approach_reference(&mut self, _: f64) -> Result<(), TinkerError> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.refer_to_current())
    }
}
