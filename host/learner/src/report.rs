//! Metrics of one reinforcement learning step.

use gymkhana_record::StepMetrics;
use gymkhana_record::step_metrics::rl;

use crate::layout::Batch;
use crate::on_policy::OnPolicy;
use crate::whole_episodes::Preferences;
use gymkhana_engine::{Column, LossSums};

/// Sums over the minibatches of a step.
#[derive(Debug, Default)]
pub(crate) struct StepSums {
    pub updates: f64,
    /// Optimiser steps that were skipped because their gradient was not finite. Their minibatches are not measured.
    pub skipped: f64,
    /// Gradient norms of the optimiser steps, where the engine says them.
    pub gradient_norms: Vec<f64>,
    /// Tokens in the loss, without copies.
    pub tokens: f64,
    pub positions: f64,
    /// Sums of the losses.
    pub sums: LossSums,
    /// Mean entropy of the behaviour policy, in nats.
    pub entropy: f64,
    /// Tokens that the weights before the step sampled.
    pub on_policy: OnPolicy,
    /// Sum of the critic's losses and number of its steps.
    pub values: Option<(f64, f64)>,
    /// Supervised losses of the optimiser steps, without their weight.
    pub supervised: Vec<f64>,
    /// Divergences of the optimiser steps, before steps were shortened.
    pub step_divergences: Vec<f64>,
    /// Number of replayed episodes.
    pub replayed: Option<f64>,
    /// Number of groups that got a stored success.
    pub backfilled: Option<f64>,
    /// What the policy preferred before each optimiser step.
    pub preferences: Preferences,
}

impl StepSums {
    /// Mean estimated divergence from the reference policy in nats per token; `None` if no token was measured.
    pub fn reference_divergence(&self) -> Option<f64> {
        (self.tokens > 0.0).then(|| self.sums.from_reference / self.tokens)
    }

    pub fn metrics(&self, batch: &Batch, learning_rate: f64) -> StepMetrics {
        let (updates, tokens) = (self.updates.max(1.0), self.tokens.max(1.0));
        let mut metrics = StepMetrics::from([
            (rl::LOSS, self.sums.loss / updates),
            (rl::LEARNING_RATE, learning_rate),
            (rl::UPDATES, self.updates),
            (rl::SKIPPED_UPDATES, self.skipped),
            (rl::CLIP_FRACTION, self.sums.clipped / tokens),
            (rl::BEHAVIOUR_DIVERGENCE, self.sums.from_proximal / tokens),
            (rl::REFERENCE_DIVERGENCE, self.sums.from_reference / tokens),
            (rl::POSITIONS, self.positions),
        ]);
        metrics.append(of_batch(batch, self.entropy));
        if let Some(divergence) = self.on_policy.mean() {
            metrics.push(rl::ON_POLICY_DIVERGENCE, divergence);
        }
        if let Some((loss, steps)) = self.values {
            metrics.push(rl::VALUE_LOSS, loss / steps);
        }
        if let Some(explained) = explained_variance(batch) {
            metrics.push(rl::EXPLAINED_VARIANCE, explained);
        }
        for (metric, values) in [
            (rl::GRADIENT_NORM, &self.gradient_norms),
            (rl::STEP_DIVERGENCE, &self.step_divergences),
            (rl::DEMONSTRATION_LOSS, &self.supervised),
        ] {
            if !values.is_empty() {
                metrics.push(metric, values.iter().sum::<f64>() / values.len() as f64);
            }
        }
        if let Some(replayed) = self.replayed {
            metrics.push(rl::REPLAYED, replayed);
        }
        if let Some(backfilled) = self.backfilled {
            metrics.push(rl::BACKFILLED, backfilled);
        }
        metrics.append(self.preferences.metrics());
        metrics
    }
}

/// Figures of a batch's advantages and tokens. `entropy` is the mean entropy of its tokens, in nats.
pub(crate) fn of_batch(batch: &Batch, entropy: f64) -> StepMetrics {
    // The first token in the loss represents the episode: without credit of turns all its tokens are equal.
    let firsts = batch.inputs.iter().filter_map(|input| input.tokens.column_in_loss(Column::Advantage).next());
    let advantages: Vec<f64> = firsts.collect();
    let count = advantages.len().max(1) as f64;
    let mean = advantages.iter().sum::<f64>() / count;
    let variance = advantages.iter().map(|advantage| (advantage - mean).powi(2)).sum::<f64>() / count;
    let learning = advantages.iter().filter(|advantage| **advantage != 0.0).count();
    let sampled: usize = batch.inputs.iter().map(|input| input.tokens.originals()).sum();
    StepMetrics::from([
        (rl::ADVANTAGE_MEAN, mean),
        (rl::ADVANTAGE_STD, variance.sqrt()),
        (rl::EPISODES_WITH_ADVANTAGE, learning as f64),
        (rl::TOKENS, sampled as f64),
        (rl::ENTROPY, entropy),
    ])
}

/// Share of the variance of returns that the critic's values explain, over the values that it learns:
/// `1 - var(target - value) / var(target)`. `None` without such values, or if all targets are equal.
fn explained_variance(batch: &Batch) -> Option<f64> {
    let (mut targets, mut errors) = (Vec::new(), Vec::new());
    for tokens in batch.inputs.iter().map(|input| &input.tokens) {
        for token in tokens.in_loss().filter(|token| tokens.get(Column::ValueMask, *token) != 0.0) {
            let target = tokens.get(Column::ValueTarget, token);
            targets.push(target);
            errors.push(target - tokens.get(Column::Value, token));
        }
    }
    let variance = |numbers: &[f64]| {
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / numbers.len() as f64
    };
    let all = variance(&targets);
    (all > 0.0).then(|| 1.0 - variance(&errors) / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advantage::{AdvantageInput, TurnPart};
    use gymkhana_engine::TokenStats;

    /// Targets 0, 2, 4 have the variance 8/3; errors 0, 1, -1 have 2/3. The fourth token has no value to learn.
    #[test]
    fn explained_variance_by_hand() {
        let of = |tokens: &[(f64, f64, f64)]| {
            let mut stats = TokenStats::default();
            for (value, target, mask) in tokens {
                stats.push(&[(Column::Value, *value), (Column::ValueTarget, *target), (Column::ValueMask, *mask)]);
            }
            let mut input = AdvantageInput::default();
            input.push_turn(TurnPart::default(), &stats);
            explained_variance(&Batch { inputs: vec![input], ..Batch::default() })
        };
        let found = of(&[(0.0, 0.0, 1.0), (1.0, 2.0, 1.0), (5.0, 4.0, 1.0), (9.0, 0.0, 0.0)]).expect("values");
        assert!((found - 0.75).abs() < 1e-12, "{found}");
        assert_eq!(of(&[(0.0, 1.0, 1.0), (1.0, 1.0, 1.0)]), None, "equal targets");
        assert_eq!(of(&[]), None);
    }
}
