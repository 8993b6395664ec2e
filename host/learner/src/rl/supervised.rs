//! Supervised loss on demonstrations, added to the gradients of reinforcement learning.

use gymkhana_engine::{Column, Engine, Loss, Pass, Sequence};

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

    /// Adds the gradient of the loss. Returns the loss without its weight; `None` if there is no such loss.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn accumulate<E: Engine>(&self, engine: &mut E, pass: Pass) -> Result<Option<f64>, E::Error> {
        if self.sequences.is_empty() {
            return Ok(None);
        }
        let pass = Pass { temperature: 1.0, entropies: false, share_beginnings: true, ..pass };
        Ok(Some(engine.accumulate(&self.sequences, Loss::Supervised, pass)?.sums.loss / self.weight))
    }
}
