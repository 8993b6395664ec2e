//! Settings of a forward pass.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use crate::loss;
use crate::model::Weights;

/// Settings of a pass.
#[derive(Debug, Clone, Copy)]
pub(in crate::learner) struct Pass {
    /// Sampling temperature of the tokens.
    pub temperature: f64,
    /// Whether to compute entropies.
    pub entropies: bool,
    /// Maximum number of positions in a part.
    pub micro_batch_tokens: usize,
    /// Whether the backward pass recomputes the layers instead of keeping their activations.
    pub activation_checkpointing: bool,
}

impl Pass {
    pub(super) fn logits(self, hidden_NC: &Tensor, weights: &Weights) -> Tensor {
        loss::tempered(weights.logits(hidden_NC), self.temperature)
    }

    pub(super) fn log_probs(self, hidden_NC: &Tensor, weights: &Weights) -> Tensor {
        self.logits(hidden_NC, weights).log_softmax(-1, Kind::Float)
    }
}
