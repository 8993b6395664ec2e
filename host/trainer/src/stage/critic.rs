//! The critic: a separate model, initialised with the policy's weights, with a head that predicts the return.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use super::forward::{target_hidden, target_values};
use crate::TrainerError;
use crate::adamw::AdamW;
use crate::batch::{Packed, parts};
use crate::loss::PerToken;
use crate::model::Model;
use gymkhana_algorithm::Optimizer;
use gymkhana_engine::loss::value_loss;
use gymkhana_engine::{Coefficients, Column, Pass, Sequence};

const HEAD: &str = "value_head.weight";

/// A model that predicts returns, and its optimiser.
#[derive(Debug)]
pub(crate) struct CriticModel {
    pub model: Model,
    pub optimizer: AdamW,
}

impl CriticModel {
    /// Starts from the policy's weights and a head of zeros, which predicts 0.
    pub fn new(policy: &Model) -> Result<Self, TrainerError> {
        let head = (HEAD.to_owned(), vec![1, policy.config().hidden_size]);
        let model = policy.copy_with(&[head])?;
        Ok(Self { model, optimizer: AdamW::default() })
    }

    fn values(&self, packed: &Packed) -> Tensor {
        let hidden_NC = target_hidden(&self.model, &self.model.weights(), packed);
        let head = self.model.parameters().get(HEAD).map_or_else(Tensor::new, Tensor::shallow_clone);
        hidden_NC.to_kind(Kind::Float).linear::<&Tensor>(&head, None).squeeze_dim(-1)
    }

    /// The value before each target.
    ///
    /// # Errors
    /// If a result cannot be read.
    pub fn predict(&self, sequences: &[Sequence], pass: Pass) -> Result<Vec<Vec<f32>>, TrainerError> {
        target_values(&self.model, sequences, pass, |packed| Ok(self.values(packed)))
    }

    /// One optimiser step towards the value targets, weighted by [`Column::LossWeight`]. Returns the loss; `None` if the
    /// step was skipped because its gradient was not finite.
    ///
    /// # Errors
    /// As [`AdamW::step`].
    pub fn step(
        &mut self,
        sequences: &[Sequence],
        flags: gymkhana_algorithm::Critic,
        optimizer: &Optimizer,
        micro_batch_tokens: usize,
    ) -> Result<Option<f64>, TrainerError> {
        let settings =
            Optimizer { learning_rate: flags.learning_rate, total_steps: None, decay_steps: None, ..optimizer.clone() };
        let settings = Optimizer { schedule: crate::Schedule::Constant, warmup_steps: 0, floor: 0.0, ..settings };
        let mut sum = 0.0;
        self.model.trained_mut().forget_gradients().map_err(TrainerError::torch("began an update"))?;
        for part in parts(sequences, micro_batch_tokens, true) {
            let packed = Packed::new(&part, self.model.device());
            let values = PerToken::from(self.values(&packed));
            let mut by = Coefficients::default();
            let numbers = values.numbers().map_err(TrainerError::torch("read a critic's values"))?;
            for (row, value) in numbers.log_probs.into_iter().enumerate() {
                let of = |column| packed.stats.get(column, row);
                let (loss, slope) = value_loss(value, of(Column::Value), of(Column::ValueTarget), flags.clip);
                sum += loss * of(Column::LossWeight);
                by.log_probs.push(slope * of(Column::LossWeight));
            }
            let all = 0..by.log_probs.len();
            values.backward(&by, all);
        }
        Ok(self.optimizer.step(self.model.parameters(), &settings)?.map(|_| sum))
    }
}
