//! Figures of a step, from the log-probabilities that the server's passes return.

use std::ops::AddAssign;

use gymkhana_record::StepMetrics;
use gymkhana_record::step_metrics::rl;
use gymkhana_tinker::Loss;
use gymkhana_trainer::{TokenSequence, TokenTarget};

/// Sums over the tokens of passes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct PassSums {
    /// Loss, as the shares of the tokens add it up.
    pub loss: f64,
    /// Part of the loss over tokens that the expert wrote.
    pub loss_by_expert: f64,
    /// Tokens without copies; of demonstrations, those that the expert wrote.
    pub tokens: f64,
    /// Optimiser steps.
    pub updates: f64,
    /// Tokens whose ratio a bound of the surrogate replaced.
    clipped: f64,
    /// k3 divergence of all tokens from the policy that sampled them, in nats.
    divergence: f64,
    /// As `divergence`, of the tokens that the same weights sampled, and their number.
    on_policy: (f64, f64),
}

impl PassSums {
    /// Adds a sequence with the log-probability of each of its tokens but the first. Tokens of the weights `compared` are
    /// counted as sampled by the same weights.
    pub(super) fn add(&mut self, sequence: &TokenSequence, log_probs: &[f32], loss: Loss, compared: u32) {
        for target in &sequence.targets {
            let Some(log_prob) = target.at.checked_sub(1).and_then(|place| log_probs.get(place)) else { continue };
            self.add_token(target, f64::from(*log_prob), loss, compared);
        }
    }

    fn add_token(&mut self, target: &TokenTarget, log_prob: f64, loss: Loss, compared: u32) {
        let TokenTarget { weight, advantage, log_prob: sampled, version, .. } = *target;
        if loss == Loss::Supervised {
            let by_expert = f64::from(u8::from(advantage > 0.0));
            self.tokens += by_expert;
            self.loss -= weight * log_prob;
            self.loss_by_expert -= by_expert * weight * log_prob;
            return;
        }
        let counted = f64::from(u8::from(!target.is_copy));
        self.tokens += counted;
        let ratio = (log_prob - sampled).exp();
        let difference = sampled - log_prob;
        let divergence = difference.exp() - difference - 1.0;
        self.divergence += counted * divergence;
        if version == compared && !target.is_copy {
            self.on_policy = (self.on_policy.0 + divergence, self.on_policy.1 + 1.0);
        }
        let objective = match loss {
            Loss::Supervised => return,
            Loss::Importance => ratio * advantage,
            Loss::Clip { low, high } => {
                let bounded = ratio.clamp(1.0 - low, 1.0 + high) * advantage;
                self.clipped += counted * f64::from(u8::from(bounded < ratio * advantage));
                bounded.min(ratio * advantage)
            }
            Loss::Cispo { low, high } => {
                let bounded = ratio.clamp(1.0 - low, 1.0 + high);
                self.clipped += counted * f64::from(u8::from(bounded != ratio));
                bounded * advantage * log_prob
            }
        };
        self.loss -= weight * objective;
    }

    /// Figures of a step of reinforcement learning.
    pub(super) fn metrics(self) -> StepMetrics {
        let (updates, tokens) = (self.updates.max(1.0), self.tokens.max(1.0));
        let mut metrics = StepMetrics::from([
            (rl::LOSS, self.loss / updates),
            (rl::UPDATES, self.updates),
            (rl::SKIPPED_UPDATES, 0.0),
            (rl::CLIP_FRACTION, self.clipped / tokens),
            (rl::BEHAVIOUR_DIVERGENCE, self.divergence / tokens),
        ]);
        let (divergence, compared) = self.on_policy;
        if compared > 0.0 {
            metrics.push(rl::ON_POLICY_DIVERGENCE, divergence / compared);
        }
        metrics
    }
}

impl AddAssign for PassSums {
    fn add_assign(&mut self, more: Self) {
        self.loss += more.loss;
        self.loss_by_expert += more.loss_by_expert;
        self.tokens += more.tokens;
        self.updates += more.updates;
        self.clipped += more.clipped;
        self.divergence += more.divergence;
        self.on_policy = (self.on_policy.0 + more.on_policy.0, self.on_policy.1 + more.on_policy.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
    }

    /// Two tokens with an advantage of 1 and a share of 1/2: one of the same policy, one whose probability doubled.
    #[test]
    fn figures_by_hand() {
        let target =
            |at, version| TokenTarget { at, weight: 0.5, advantage: 1.0, log_prob: -1.0, version, is_copy: false };
        let sequence = TokenSequence { tokens: vec![1, 2, 3], targets: vec![target(1, 7), target(2, 6)] };
        let log_probs = [-1.0, -1.0 + std::f32::consts::LN_2];
        let mut found = PassSums { updates: 1.0, ..PassSums::default() };
        found.add(&sequence, &log_probs, Loss::Clip { low: 0.2, high: 0.3 }, 7);
        // 1/2 · 1 + 1/2 · 1.3.
        close(found.loss, -1.15);
        let metrics = found.metrics();
        close(metrics.get(rl::CLIP_FRACTION.name()).unwrap(), 0.5);
        // e^-ln 2 + ln 2 - 1 for one of two tokens.
        close(metrics.get(rl::BEHAVIOUR_DIVERGENCE.name()).unwrap(), (0.5 + std::f64::consts::LN_2 - 1.0) / 2.0);
        close(metrics.get(rl::ON_POLICY_DIVERGENCE.name()).unwrap(), 0.0);
        let mut unbounded = PassSums::default();
        unbounded.add(&sequence, &log_probs, Loss::Importance, 7);
        close(unbounded.loss, -1.5);
        let mut supervised = PassSums::default();
        supervised.add(&sequence, &log_probs, Loss::Supervised, 0);
        close(supervised.loss, 0.5 + 0.5 * (1.0 - std::f64::consts::LN_2));
        // The second token was not written by the expert, and in reinforcement learning is another episode's.
        let other = TokenTarget { advantage: 0.0, is_copy: true, ..target(2, 6) };
        let sequence = TokenSequence { targets: vec![target(1, 7), other], ..sequence };
        let mut supervised = PassSums::default();
        supervised.add(&sequence, &log_probs, Loss::Supervised, 0);
        close(supervised.loss, 0.5 + 0.5 * (1.0 - std::f64::consts::LN_2));
        assert_eq!((supervised.loss_by_expert, supervised.tokens), (0.5, 1.0));
        let mut found = PassSums::default();
        found.add(&sequence, &log_probs, Loss::Clip { low: 0.2, high: 0.3 }, 7);
        assert_eq!((found.tokens, found.clipped, found.divergence), (1.0, 0.0, 0.0));
    }
}
