//! The critic: a model of its own, begun with the policy's weights, with a head that says what is still to come.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use super::forward::{chosen_hidden, tell};
use crate::TrainerError;
use crate::adamw::AdamW;
use crate::algorithm;
use crate::batch::{Packed, Sequence, parts};
use crate::loss::value_loss;
use crate::model::Model;
use crate::settings::Optimizer;

const HEAD: &str = "value_head.weight";

/// A model that predicts returns, and its optimiser.
#[derive(Debug)]
pub(crate) struct Critic {
    pub model: Model,
    pub optimizer: AdamW,
}

impl Critic {
    /// Begins with the policy's weights and a head of zeros: it expects nothing.
    pub fn new(policy: &Model) -> Result<Self, TrainerError> {
        let head = (HEAD.to_owned(), vec![1, policy.config().hidden_size]);
        let model = policy.copy_with(&[head])?;
        Ok(Self { model, optimizer: AdamW::default() })
    }

    fn values(&self, packed: &Packed) -> Tensor {
        let chosen_NC = chosen_hidden(&self.model, &self.model.weights(), packed);
        let head = self.model.parameters().get(HEAD).map_or_else(Tensor::new, Tensor::shallow_clone);
        chosen_NC.to_kind(Kind::Float).linear::<&Tensor>(&head, None).squeeze_dim(-1)
    }

    /// What is expected before each target.
    pub fn expect(&self, sequences: &[Sequence], micro_batch_tokens: usize) -> Vec<Vec<f32>> {
        tell(&self.model, sequences, micro_batch_tokens, |packed| self.values(packed))
    }

    /// One optimiser step towards the targets' values, of which each has a weight. Gives the loss.
    pub fn step(
        &mut self,
        sequences: &[Sequence],
        flags: algorithm::Critic,
        optimizer: &Optimizer,
        micro_batch_tokens: usize,
    ) -> Result<f64, TrainerError> {
        let settings = Optimizer { learning_rate: flags.learning_rate, total_steps: None, ..optimizer.clone() };
        let settings = Optimizer { schedule: crate::Schedule::Constant, warmup_steps: 0, ..settings };
        let mut sum = 0.0;
        self.model.trained_mut().forget_gradients().map_err(TrainerError::torch("began an update"))?;
        for part in parts(sequences, micro_batch_tokens, true) {
            let packed = Packed::new(&part, self.model.device());
            let [before_N, targets_N] = [0, 1].map(|index| packed.column(|target| target.value[index]));
            let losses_N = value_loss(&self.values(&packed), &before_N, &targets_N, flags.clip);
            let loss = (losses_N * packed.column(|target| target.weight)).sum(Kind::Float);
            loss.backward();
            sum += loss.double_value(&[]);
        }
        self.optimizer.step(self.model.parameters(), &settings)?;
        Ok(sum)
    }
}
