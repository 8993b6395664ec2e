//! What advantages need to know of earlier steps. It is a part of every checkpoint.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Averages over the steps of a stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Each seat's moving average of rewards.
    pub averages: BTreeMap<u32, f64>,
    /// By a turn's number, the mean over steps of the mean entropy of its tokens, in nats, and over how many steps.
    pub entropies: BTreeMap<usize, (f64, u64)>,
}

impl Memory {
    /// The seat's average as it stood, before it moves towards a reward.
    pub(super) fn average(&mut self, seat: u32, reward: f64, decay: f64) -> f64 {
        let average = self.averages.entry(seat).or_insert(0.0);
        let before = *average;
        *average = decay * before + (1.0 - decay) * reward;
        before
    }

    /// The mean entropy of a turn so far, before this step's counts; none at the first.
    pub(super) fn entropy(&mut self, turn: usize, found: f64) -> Option<f64> {
        let (mean, steps) = self.entropies.entry(turn).or_insert((0.0, 0));
        let before = (*steps > 0).then_some(*mean);
        *steps += 1;
        *mean += (found - *mean) / *steps as f64;
        before
    }
}
