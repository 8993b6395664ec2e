//! Supervised loss on demonstrations, added to the gradients of reinforcement learning.

use tch::{Kind, Tensor};

use crate::TrainerError;
use crate::batch::{Packed, Sequence, parts};
use crate::learner::forward::{Pass, accumulate};
use crate::loss::{Objective, PerToken};
use crate::model::Model;
use crate::token_stats::Column;

/// Demonstrations with each token's share of the loss in [`Column::LossWeight`], and the weight of the loss.
#[derive(Debug, Default)]
pub(crate) struct Supervised {
    sequences: Vec<Sequence>,
    weight: f64,
}

impl Supervised {
    /// A loss of this weight; none if the weight is 0.
    pub fn new(mut sequences: Vec<Sequence>, weight: f64) -> Self {
        if weight == 0.0 {
            sequences.clear();
        }
        for sequence in &mut sequences {
            sequence.stats.column_mut(Column::LossWeight).iter_mut().for_each(|share| *share *= weight);
        }
        Self { sequences, weight }
    }

    /// Adds the gradients to those of the model. Returns the loss without its weight; `None` if there is no such loss.
    ///
    /// # Errors
    /// If a pass fails.
    pub fn accumulate(&self, model: &Model, pass: Pass) -> Result<Option<f64>, TrainerError> {
        if self.sequences.is_empty() {
            return Ok(None);
        }
        let [loss, _] = accumulate_supervised(model, &self.sequences, pass)?;
        Ok(Some(loss / self.weight))
    }
}

/// Adds the gradients of the supervised loss to those of the model. Returns the loss, and its part on tokens that the
/// expert wrote.
///
/// # Errors
/// If a pass fails.
pub(in crate::learner) fn accumulate_supervised(
    model: &Model,
    sequences: &[Sequence],
    pass: Pass,
) -> Result<[f64; 2], TrainerError> {
    let mut sums = [0.0; 2];
    for part in parts(sequences, pass.micro_batch_tokens, true) {
        let packed = Packed::new(&part, model.device());
        let inputs = packed.inputs(None);
        let found = accumulate(model, &packed, &inputs, pass, None, true, &|terms: &PerToken, inputs| {
            let of = |column| inputs.get_or_neutral(column, &terms.log_probs_N);
            let losses_N = -&terms.log_probs_N * of(Column::LossWeight);
            let by_expert = (&losses_N * of(Column::Advantage)).sum(Kind::Float);
            let loss = losses_N.sum(Kind::Float);
            let sums = Tensor::stack(&[&loss, &by_expert], 0).detach();
            Objective { loss, sums }
        })
        .map_err(TrainerError::torch("computed gradients"))?;
        (0..2).for_each(|index| sums[index] += found.double_value(&[index as i64]));
    }
    Ok(sums)
}
