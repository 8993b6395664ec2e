//! Divergence between the weights before an update and the policy that sampled with the same weights. It is about 0,
//! unless the generating side computes something else than the trainer.
#![allow(non_snake_case)]

use std::ops::AddAssign;

use tch::{Kind, Tensor};

use super::layout::Batch;
use crate::loss::{Inputs, k3_divergence};
use crate::token_stats::Column;

/// Tokens that the current weights sampled: the sum of their k3 divergences in nats, and their number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OnPolicy {
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

    /// Adds the last sums of a part.
    pub fn add(&mut self, found: &Tensor) {
        *self += Self { divergence: found.double_value(&[-2]), tokens: found.double_value(&[-1]) };
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

/// Sums over the tokens of a micro-batch that the current weights sampled, `[2]`: their k3 divergences, and their number.
pub(super) fn sums(log_probs_N: &Tensor, inputs: &Inputs, version: u32) -> Tensor {
    let log_probs_N = log_probs_N.detach();
    let current_N = inputs.get_or_neutral(Column::Version, &log_probs_N).eq(f64::from(version));
    let current_N = match inputs.get(Column::Copy) {
        Some(copies_N) => current_N.logical_and(&copies_N.eq(0.0)),
        None => current_N,
    };
    // Other tokens are compared with themselves, so that no large difference reaches the sum.
    let behaviour_N = inputs.get_or_neutral(Column::Behaviour, &log_probs_N).where_self(&current_N, &log_probs_N);
    let divergence = k3_divergence(&log_probs_N, &behaviour_N).sum(Kind::Float);
    Tensor::stack(&[divergence, current_N.sum(Kind::Float)], 0)
}
