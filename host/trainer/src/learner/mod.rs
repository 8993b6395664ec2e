//! Training steps: from demonstrations or groups of episodes to moved weights.
#![allow(non_snake_case)]

mod average;
mod critic;
#[cfg(test)]
mod failed_episodes;
mod forward;
#[cfg(test)]
mod from_records;
#[cfg(test)]
mod goldens;
mod layout;
mod minibatch;
mod on_policy;
mod replay;
mod report;
mod rl;
mod turns;
mod whole_episodes;

use std::path::PathBuf;

use average::Average;
use critic::CriticModel;
use forward::Pass;
use gymkhana_algorithm::{MomentFormat, Optimizer, SftSettings, StageModels};
use gymkhana_record::StepMetrics;
use gymkhana_record::step_metrics::sft;
pub(crate) use layout::{Batch, check_segment, demonstration_sequences, imitated_sequences};
pub use layout::{RlData, Weighted};
use rl::accumulate_supervised;
pub use rl::remote;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::TrainerError;
use crate::adamw::AdamW;
use crate::advantage::AdvantageState;
use crate::batch::{Sequence, parts, positions};
use crate::model::Model;
use crate::parameters::Parameters;
use crate::token_stats::{Column, TokenStats};

/// Optimiser state, further models and the other state of a stage.
#[derive(Debug)]
pub(crate) struct Learner {
    pub optimizer: AdamW,
    pub reference: Option<Parameters>,
    /// Whether the reference policy follows the policy.
    follows: bool,
    pub critic: Option<CriticModel>,
    pub average: Average,
    teacher: Option<Teacher>,
    pub state: StageState,
}

/// The teacher model and its folder.
#[derive(Debug)]
struct Teacher {
    folder: PathBuf,
    model: Model,
}

impl Teacher {
    fn new(folder: PathBuf, model: Model, student: &Model) -> Result<Self, TrainerError> {
        let [own, others] = [&model, student].map(|model| model.config().vocab_size);
        if own != others || model.positions() < student.positions() {
            let problem = format!(
                "the teacher has {own} tokens and {} positions, the student {others} and {}\nhint: use a teacher with \
                 the same vocabulary and at least the same context",
                model.positions(),
                student.positions()
            );
            return Err(TrainerError::Folder { path: folder, problem });
        }
        Ok(Self { folder, model })
    }
}

/// State of a stage that is not a tensor.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StageState {
    /// Steps of reinforcement learning so far.
    pub steps: u64,
    /// Optimiser steps of the critic.
    pub critic_steps: u64,
    /// Whether there is a moving average of the weights.
    has_average: bool,
    /// Optimiser steps skipped since the last one that was taken.
    skipped_steps: u32,
    /// As `skipped_steps`, of the critic.
    critic_skipped_steps: u32,
    /// Number format of the optimiser's moments.
    moments: MomentFormat,
    /// As `moments`, of the critic.
    critic_moments: MomentFormat,
    /// Adaptive weight of the divergence penalty; absent before its first update.
    kl_beta: Option<f64>,
    memory: AdvantageState,
    buffer: replay::Buffer,
}

impl Learner {
    /// State at the start of a stage. `teacher` is the model of the folder that `models` names.
    pub fn new(model: &Model, models: StageModels, teacher: Option<Model>) -> Result<Self, TrainerError> {
        // Small moves towards the policy would be lost in fewer bits.
        let copied = || if models.follows { model.trained_copy() } else { model.frozen_copy() };
        Ok(Self {
            optimizer: AdamW::default(),
            reference: models.reference.then(copied).transpose()?,
            follows: models.follows,
            critic: models.critic.then(|| CriticModel::new(model)).transpose()?,
            average: Average::default(),
            teacher: models
                .teacher
                .zip(teacher)
                .map(|(folder, teacher)| Teacher::new(folder, teacher, model))
                .transpose()?,
            state: StageState::default(),
        })
    }

    /// Allocates the optimisers' state and the average that `state` has, to be filled through the tensors of
    /// [`Learner::named`].
    pub fn begin(&mut self, model: &Model, state: &StageState) -> Result<(), TrainerError> {
        if state.has_average {
            self.average.begin(model)?;
        }
        let torch = || TrainerError::torch("prepared a stage");
        self.optimizer.begin(model.trained(), state.moments).map_err(torch())?;
        if let Some(critic) = &mut self.critic {
            critic.optimizer.begin(critic.model.parameters(), state.critic_moments).map_err(torch())?;
        }
        Ok(())
    }

    /// Models of the stage, by kind.
    pub fn stage_models(&self) -> StageModels {
        StageModels {
            reference: self.reference.is_some(),
            follows: self.follows,
            critic: self.critic.is_some(),
            teacher: self.teacher.as_ref().map(|teacher| teacher.folder.clone()),
        }
    }

    /// One optimiser step on demonstrations.
    pub fn sft_step(
        &mut self,
        model: &mut Model,
        sequences: &[Sequence],
        settings: &SftSettings,
    ) -> Result<StepMetrics, TrainerError> {
        let pass = Pass {
            temperature: 1.0,
            entropies: false,
            micro_batch_tokens: settings.micro_batch_tokens,
            activation_checkpointing: settings.activation_checkpointing,
        };
        model.trained_mut().forget_gradients().map_err(TrainerError::torch("began an update"))?;
        let sums = accumulate_supervised(model, sequences, pass)?;
        let learning_rate = settings.optimizer.learning_rate_at(self.optimizer.steps());
        let norm = self.optimizer_step(model, &settings.optimizer, |_| Ok(1.0))?;
        let sampled =
            |stats: &TokenStats| stats.column(Column::Advantage).iter().filter(|by_expert| **by_expert > 0.0).count();
        let tokens: usize = sequences.iter().map(|sequence| sampled(&sequence.stats)).sum();
        let mut metrics = StepMetrics::default();
        if let Some(norm) = norm {
            let [loss, by_expert] = sums;
            metrics = [(sft::LOSS, loss), (sft::LOSS_SAMPLED, by_expert), (sft::GRADIENT_NORM, norm)].into();
        }
        metrics.append(StepMetrics::from([
            (sft::SKIPPED_UPDATES, f64::from(u8::from(norm.is_none()))),
            (sft::LEARNING_RATE, learning_rate),
            (sft::TOKENS, tokens as f64),
            (sft::POSITIONS, positions(&parts(sequences, settings.micro_batch_tokens, true)) as f64),
        ]));
        Ok(metrics)
    }

    /// One step of the policy's optimiser, which the moving average follows. `share` tells how much of the step stays,
    /// from 0 to 1, once the weights have taken it. Returns the gradient norm; `None` if the step was skipped.
    fn optimizer_step(
        &mut self,
        model: &Model,
        settings: &Optimizer,
        share: impl FnOnce(&Model) -> Result<f64, TrainerError>,
    ) -> Result<Option<f64>, TrainerError> {
        if settings.ema.is_some() {
            self.average.begin(model)?;
        }
        let norm = self.optimizer.step_of(model.trained(), settings, || share(model))?;
        if let (Some(_), Some(decay)) = (norm, settings.ema) {
            self.average.follow(model, decay)?;
        }
        Ok(norm)
    }

    /// Names and tensors of the state, for a checkpoint.
    pub fn named(&self, model: &Model) -> Result<Vec<(String, Tensor)>, TrainerError> {
        let torch = || TrainerError::torch("copied the optimiser's state");
        let mut named = self.optimizer.named(model.trained()).map_err(torch())?;
        named.extend(model.adapter_state());
        let kept = |parameters: &Parameters, as_: &str| -> Vec<(String, Tensor)> {
            parameters.named().map(|(name, tensor)| (format!("{as_}.{name}"), tensor.shallow_clone())).collect()
        };
        if let Some(reference) = &self.reference {
            named.extend(kept(reference, "reference"));
        }
        if let Some(average) = self.average.parameters() {
            named.extend(kept(average, "average"));
        }
        if let Some(critic) = &self.critic {
            named.extend(kept(critic.model.parameters(), "critic"));
            let state = critic.optimizer.named(critic.model.parameters()).map_err(torch())?;
            named.extend(state.into_iter().map(|(name, tensor)| (format!("critic.{name}"), tensor)));
        }
        Ok(named)
    }

    /// Current state, for a checkpoint.
    pub fn stage_state(&self) -> StageState {
        let critic = self.critic.as_ref().map(|critic| &critic.optimizer);
        StageState {
            critic_steps: critic.map_or(0, AdamW::steps),
            has_average: self.average.parameters().is_some(),
            skipped_steps: self.optimizer.skipped(),
            critic_skipped_steps: critic.map_or(0, AdamW::skipped),
            moments: self.optimizer.format(),
            critic_moments: critic.map_or(MomentFormat::Float32, AdamW::format),
            ..self.state.clone()
        }
    }

    /// Restores the state of a checkpoint.
    pub fn restore(&mut self, state: StageState) {
        self.optimizer.set_skipped(state.skipped_steps);
        if let Some(critic) = &mut self.critic {
            critic.optimizer.set_steps(state.critic_steps);
            critic.optimizer.set_skipped(state.critic_skipped_steps);
        }
        self.state = state;
    }
}
