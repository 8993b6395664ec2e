//! Metrics of one reinforcement learning step.

use super::layout::Batch;
use super::{StepMetrics, named};
use crate::token_stats::Column;

/// Sums over the minibatches of a step.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub updates: f64,
    pub gradient_norm: f64,
    /// Tokens in the loss.
    pub tokens: f64,
    pub positions: f64,
    /// Sums of the objective: loss, tokens whose gradient the clip removed, k3 divergence from the proximal policy,
    /// estimated divergence from the reference policy.
    pub sums: [f64; 4],
    /// Sum of the critic's losses and number of its steps.
    pub values: Option<(f64, f64)>,
    /// Number of replayed episodes.
    pub replayed: Option<f64>,
}

impl Report {
    pub fn metrics(&self, batch: &Batch, learning_rate: f64) -> StepMetrics {
        let (updates, tokens) = (self.updates.max(1.0), self.tokens.max(1.0));
        // The first token in the loss represents the episode: without credit of turns all its tokens are equal.
        let firsts = batch.inputs.iter().filter_map(|input| input.tokens.column_in_loss(Column::Advantage).next());
        let advantages: Vec<f64> = firsts.collect();
        let count = advantages.len().max(1) as f64;
        let mean = advantages.iter().sum::<f64>() / count;
        let variance = advantages.iter().map(|advantage| (advantage - mean).powi(2)).sum::<f64>() / count;
        let learning = advantages.iter().filter(|advantage| **advantage != 0.0).count();
        let sampled: usize = batch.inputs.iter().map(|input| input.tokens.len()).sum();
        let mut metrics = named([
            ("loss", self.sums[0] / updates),
            ("gradient_norm", self.gradient_norm / updates),
            ("learning_rate", learning_rate),
            ("updates", self.updates),
            ("clip_fraction", self.sums[1] / tokens),
            ("behaviour_divergence", self.sums[2] / tokens),
            ("reference_divergence", self.sums[3] / tokens),
            ("advantage_mean", mean),
            ("advantage_std", variance.sqrt()),
            ("episodes_with_advantage", learning as f64),
            ("tokens", sampled as f64),
            ("positions", self.positions),
        ]);
        if let Some((loss, steps)) = self.values {
            metrics.push(("value_loss".to_owned(), loss / steps));
        }
        if let Some(replayed) = self.replayed {
            metrics.push(("replayed".to_owned(), replayed));
        }
        metrics
    }
}
