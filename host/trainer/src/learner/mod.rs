//! Training steps: from demonstrations or groups of episodes to moved weights.
#![allow(non_snake_case)]

mod critic;
mod forward;
#[cfg(test)]
mod goldens;
mod layout;
mod minibatch;
mod pairs;
mod replay;
mod report;
mod rl;

use std::path::PathBuf;

use critic::Critic;
use forward::{Pass, accumulate};
pub(crate) use layout::{Batch, demonstration_sequences};
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::TrainerError;
use crate::adamw::AdamW;
use crate::advantage::Memory;
use crate::batch::{Packed, Sequence, Target, parts, positions};
use crate::loss::Objective;
use crate::model::Model;
use crate::parameters::Parameters;
use crate::settings::SftSettings;

/// Named figures of one training step, in a fixed order.
pub type StepMetrics = Vec<(String, f64)>;

/// What a stage needs beside the policy itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageModels {
    /// The weights with which the stage begins, from which a penalty measures.
    pub reference: bool,
    /// A critic.
    pub critic: bool,
    /// A teacher: the folder of a model with the same tokens.
    pub teacher: Option<PathBuf>,
}

/// The optimiser's state and what else a stage carries from step to step.
#[derive(Debug)]
pub(crate) struct Learner {
    pub optimizer: AdamW,
    pub reference: Option<Parameters>,
    pub critic: Option<Critic>,
    teacher: Option<Teacher>,
    pub state: StageState,
}

/// A model that is asked, and where it lies.
#[derive(Debug)]
struct Teacher {
    folder: PathBuf,
    model: Model,
}

impl Teacher {
    fn open(folder: PathBuf, student: &Model) -> Result<Self, TrainerError> {
        let model = Model::open(&folder, student.device())?;
        let [own, others] = [&model, student].map(|model| model.config().vocab_size);
        if own != others || model.positions() < student.positions() {
            let problem = format!(
                "it has {own} tokens and {} positions, the model that learns {others} and {}; a teacher must know the \
                 same tokens and read as far",
                model.positions(),
                student.positions()
            );
            return Err(TrainerError::Folder { path: folder, problem });
        }
        Ok(Self { folder, model })
    }
}

/// What a stage carries from step to step beside tensors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StageState {
    /// Steps of reinforcement learning so far.
    pub steps: u64,
    /// Optimiser steps of the critic.
    pub critic_steps: u64,
    memory: Memory,
    buffer: replay::Buffer,
}

impl Learner {
    /// Fresh state, as at the start of a stage.
    pub fn new(model: &Model, models: StageModels) -> Result<Self, TrainerError> {
        let torch = || TrainerError::torch("prepared a stage");
        Ok(Self {
            optimizer: AdamW::default(),
            reference: models.reference.then(|| model.trained().frozen_copy()).transpose().map_err(torch())?,
            critic: models.critic.then(|| Critic::new(model)).transpose()?,
            teacher: models.teacher.map(|folder| Teacher::open(folder, model)).transpose()?,
            state: StageState::default(),
        })
    }

    /// Makes room for the optimisers' state, to be filled by what [`Learner::named`] gives then.
    pub fn begin(&mut self, model: &Model) -> Result<(), TrainerError> {
        let torch = || TrainerError::torch("prepared a stage");
        self.optimizer.begin(model.trained()).map_err(torch())?;
        if let Some(critic) = &mut self.critic {
            critic.optimizer.begin(critic.model.parameters()).map_err(torch())?;
        }
        Ok(())
    }

    /// What it models.
    pub fn stage_models(&self) -> StageModels {
        StageModels {
            reference: self.reference.is_some(),
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
        let parts = parts(sequences, settings.micro_batch_tokens, true);
        model.trained_mut().forget_gradients().map_err(TrainerError::torch("began an update"))?;
        let mut sums = [0.0; 2];
        for part in &parts {
            let packed = Packed::new(part, model.device());
            let inputs = packed.inputs(None);
            let found = accumulate(model, &packed, &inputs, pass, true, &|log_probs_N, _, inputs| {
                let losses_N = -log_probs_N * &inputs.weights_N;
                let by_expert = (&losses_N * &inputs.advantages_N).sum(Kind::Float);
                let loss = losses_N.sum(Kind::Float);
                let sums = Tensor::stack(&[&loss, &by_expert], 0).detach();
                Objective { loss, sums }
            });
            (0..2).for_each(|index| sums[index] += found.double_value(&[index as i64]));
        }
        let learning_rate = settings.optimizer.learning_rate_at(self.optimizer.steps());
        let norm = self.optimizer.step(model.trained(), &settings.optimizer)?;
        let sampled = |target: &&Target| target.advantage > 0.0;
        let tokens: usize = sequences.iter().map(|sequence| sequence.targets.iter().filter(sampled).count()).sum();
        Ok(named([
            ("loss", sums[0]),
            ("loss_sampled", sums[1]),
            ("gradient_norm", norm),
            ("learning_rate", learning_rate),
            ("tokens", tokens as f64),
            ("positions", positions(&parts) as f64),
        ]))
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
        if let Some(critic) = &self.critic {
            named.extend(kept(critic.model.parameters(), "critic"));
            let state = critic.optimizer.named(critic.model.parameters()).map_err(torch())?;
            named.extend(state.into_iter().map(|(name, tensor)| (format!("critic.{name}"), tensor)));
        }
        Ok(named)
    }

    /// What it carries, as it is now.
    pub fn stage_state(&self) -> StageState {
        let critic_steps = self.critic.as_ref().map_or(0, |critic| critic.optimizer.steps());
        StageState { critic_steps, ..self.state.clone() }
    }

    /// Goes on from what was carried.
    pub fn restore(&mut self, state: StageState) {
        if let Some(critic) = &mut self.critic {
            critic.optimizer.set_steps(state.critic_steps);
        }
        self.state = state;
    }
}

fn named<const COUNT: usize>(figures: [(&str, f64); COUNT]) -> StepMetrics {
    figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
}
