//! Divergence between the weights before an update and the policy that sampled with the same weights. It is about 0,
//! unless the generating side computes something else than the trainer.
use std::ops::AddAssign;

use crate::layout::Batch;
use gymkhana_engine::{Column, LossSums};

/// Tokens that the current weights sampled: the sum of their k3 divergences in nats, and their number.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OnPolicy {
    divergence: f64,
    tokens: f64,
}

impl OnPolicy {
    /// All tokens of a batch whose proximal log-probabilities are set. `version` is the current weight version.
    pub fn of(batch: &Batch, version: u32) -> Self {
        let mut found = Self::default();
        for stats in batch.inputs.iter().map(|input| &input.tokens) {
            let is_current = |token: &usize| stats.get(Column::Version, *token) as u32 == version;
            for token in (0..stats.len()).filter(is_current).filter(|token| !stats.is_copy(*token)) {
                let difference = stats.get(Column::Behaviour, token) - stats.get(Column::Proximal, token);
                found += Self { divergence: difference.exp() - difference - 1.0, tokens: 1.0 };
            }
        }
        found
    }

    /// Those of passes.
    pub fn measured(sums: &LossSums) -> Self {
        Self { divergence: sums.on_policy_divergence, tokens: sums.on_policy }
    }

    /// Mean divergence in nats; `None` without such tokens.
    pub fn mean(self) -> Option<f64> {
        (self.tokens > 0.0).then(|| self.divergence / self.tokens)
    }
}

impl AddAssign for OnPolicy {
    fn add_assign(&mut self, more: Self) {
        self.divergence += more.divergence;
        self.tokens += more.tokens;
    }
}
