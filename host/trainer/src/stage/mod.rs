//! State of a stage: optimiser, further models, and the learner that trains by them.
#![allow(non_snake_case)]

mod average;
mod critic;
mod embedded;
mod forward;

use std::path::PathBuf;

use average::Average;
use critic::CriticModel;
pub(crate) use embedded::Embedded;
use gymkhana_algorithm::{MomentFormat, StageModels};
use gymkhana_learner::advantage::AdvantageState;
use gymkhana_learner::{Buffer, Learner};
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::TrainerError;
use crate::adamw::AdamW;
use crate::model::Model;
use crate::parameters::Parameters;

/// A stage of training.
#[derive(Debug)]
pub(crate) struct Stage {
    pub learner: Learner,
    pub models: Models,
}

/// Optimiser state and further models.
#[derive(Debug)]
pub(crate) struct Models {
    pub optimizer: AdamW,
    pub reference: Option<Parameters>,
    /// Whether the reference policy follows the policy.
    follows: bool,
    pub critic: Option<CriticModel>,
    pub average: Average,
    teacher: Option<Teacher>,
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
    steps: u64,
    /// Optimiser steps of the critic.
    critic_steps: u64,
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
    /// As in [`Learner`].
    kl_beta: Option<f64>,
    memory: AdvantageState,
    buffer: Buffer,
}

impl Stage {
    /// State at the start of a stage. `teacher` is the model of the folder that `models` names.
    pub fn new(model: &Model, models: StageModels, teacher: Option<Model>) -> Result<Self, TrainerError> {
        // Small moves towards the policy would be lost in fewer bits.
        let copied = || if models.follows { model.trained_copy() } else { model.frozen_copy() };
        let models = Models {
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
        };
        Ok(Self { learner: Learner::default(), models })
    }

    /// Current state, for a checkpoint.
    pub fn state(&self) -> StageState {
        let critic = self.models.critic.as_ref().map(|critic| &critic.optimizer);
        let Learner { steps, kl_beta, memory, buffer } = self.learner.clone();
        StageState {
            critic_steps: critic.map_or(0, AdamW::steps),
            has_average: self.models.average.parameters().is_some(),
            skipped_steps: self.models.optimizer.skipped(),
            critic_skipped_steps: critic.map_or(0, AdamW::skipped),
            moments: self.models.optimizer.format(),
            critic_moments: critic.map_or(MomentFormat::Float32, AdamW::format),
            steps,
            kl_beta,
            memory,
            buffer,
        }
    }

    /// Restores the state of a checkpoint.
    pub fn restore(&mut self, state: StageState) {
        self.models.optimizer.set_skipped(state.skipped_steps);
        if let Some(critic) = &mut self.models.critic {
            critic.optimizer.set_steps(state.critic_steps);
            critic.optimizer.set_skipped(state.critic_skipped_steps);
        }
        let StageState { steps, kl_beta, memory, buffer, .. } = state;
        self.learner = Learner { steps, kl_beta, memory, buffer };
    }
}

impl Models {
    /// Allocates the optimisers' state and the average that `state` has, to be filled through the tensors of
    /// [`Models::named`].
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
    pub fn kinds(&self) -> StageModels {
        StageModels {
            reference: self.reference.is_some(),
            follows: self.follows,
            critic: self.critic.is_some(),
            teacher: self.teacher.as_ref().map(|teacher| teacher.folder.clone()),
        }
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
}
