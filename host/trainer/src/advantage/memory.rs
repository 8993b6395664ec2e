//! State that the advantage computation keeps between training steps. Every checkpoint holds it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Running averages over the steps of a stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Moving average of rewards by seat.
    pub averages: BTreeMap<u32, f64>,
    /// By turn index: mean over steps of the mean token entropy in nats, and the number of steps.
    pub entropies: BTreeMap<usize, (f64, u64)>,
}

impl Memory {
    /// Moves the seat's average towards a reward and returns its value from before the move.
    pub(super) fn average(&mut self, seat: u32, reward: f64, decay: f64) -> f64 {
        let average = self.averages.entry(seat).or_insert(0.0);
        let before = *average;
        *average = decay * before + (1.0 - decay) * reward;
        before
    }

    /// Adds a step's mean entropy of a turn and returns the mean over earlier steps; `None` at the first step.
    pub(super) fn entropy(&mut self, turn: usize, found: f64) -> Option<f64> {
        let (mean, steps) = self.entropies.entry(turn).or_insert((0.0, 0));
        let before = (*steps > 0).then_some(*mean);
        *steps += 1;
        *mean += (found - *mean) / *steps as f64;
        before
    }
}
