//! Metrics of one reinforcement learning step.

use gymkhana_record::StepMetrics;
use gymkhana_record::step_metrics::rl;

use super::layout::Batch;
use super::on_policy::OnPolicy;
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
    /// Tokens that the weights before the step sampled.
    pub on_policy: OnPolicy,
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
        let mut metrics = StepMetrics::from([
            (rl::LOSS, self.sums[0] / updates),
            (rl::GRADIENT_NORM, self.gradient_norm / updates),
            (rl::LEARNING_RATE, learning_rate),
            (rl::UPDATES, self.updates),
            (rl::CLIP_FRACTION, self.sums[1] / tokens),
            (rl::BEHAVIOUR_DIVERGENCE, self.sums[2] / tokens),
            (rl::REFERENCE_DIVERGENCE, self.sums[3] / tokens),
            (rl::ADVANTAGE_MEAN, mean),
            (rl::ADVANTAGE_STD, variance.sqrt()),
            (rl::EPISODES_WITH_ADVANTAGE, learning as f64),
            (rl::TOKENS, sampled as f64),
            (rl::POSITIONS, self.positions),
        ]);
        if let Some(divergence) = self.on_policy.mean() {
            metrics.push(rl::ON_POLICY_DIVERGENCE, divergence);
        }
        if let Some((loss, steps)) = self.values {
            metrics.push(rl::VALUE_LOSS, loss / steps);
        }
        if let Some(replayed) = self.replayed {
            metrics.push(rl::REPLAYED, replayed);
        }
        metrics
    }
}
