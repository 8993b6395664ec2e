//! State that the advantage computation keeps between training steps. Every checkpoint holds it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Running averages over the steps of a stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AdvantageState {
    /// Moving average of rewards by seat.
    pub averages: BTreeMap<u32, f64>,
    /// Distribution of total rewards by seat.
    #[serde(default)]
    pub rewards: BTreeMap<u32, Moments>,
    /// By turn index: mean over steps of the mean token entropy in nats, and the number of steps.
    pub entropies: BTreeMap<usize, (f64, u64)>,
    /// Averages of each environment, in a run with several environments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, AdvantageState>,
}

/// Mean and spread of numbers that arrive one by one (Welford 1962).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared differences from the mean.
    squares: f64,
}

impl Moments {
    fn add(&mut self, number: f64) {
        self.count += 1;
        let before = number - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (number - self.mean);
    }

    /// Sample standard deviation; 0 for fewer than two numbers.
    fn deviation(self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }
}

/// Deviation up to which numbers count as equal.
const NO_SPREAD: f64 = 1e-6;

impl AdvantageState {
    /// The averages of an environment; those of the run without a name.
    pub(super) fn of(&mut self, environment: Option<&str>) -> &mut Self {
        match environment {
            Some(name) => self.environments.entry(name.to_owned()).or_default(),
            None => self,
        }
    }

    /// Adds a step's total rewards of each seat.
    pub(super) fn add_rewards(&mut self, rewards: impl Iterator<Item = (u32, f64)>) {
        rewards.for_each(|(seat, reward)| self.rewards.entry(seat).or_default().add(reward));
    }

    /// Divisor of the seat's rewards: their deviation, or 1 as long as they are equal.
    pub(super) fn reward_scale(&self, seat: u32) -> f64 {
        let deviation = self.rewards.get(&seat).map_or(0.0, |moments| moments.deviation());
        if deviation > NO_SPREAD { deviation } else { 1.0 }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// 1, 3, 5: mean 3, squares 4 + 0 + 4, deviation sqrt(8 / 2) = 2.
    #[test]
    fn rewards_have_a_running_deviation() {
        let mut memory = AdvantageState::default();
        assert_eq!(memory.reward_scale(0), 1.0);
        memory.add_rewards([(0, 1.0), (1, 0.1)].into_iter());
        assert_eq!(memory.reward_scale(0), 1.0);
        memory.add_rewards([(0, 3.0), (1, 0.1), (0, 5.0), (1, 0.1)].into_iter());
        assert!((memory.reward_scale(0) - 2.0).abs() < 1e-12);
        assert_eq!(memory.reward_scale(1), 1.0, "equal rewards are not scaled up");
        // State of before this field is read.
        let old = r#"{"averages":{"0":0.5},"entropies":{}}"#;
        assert_eq!(serde_json::from_str::<AdvantageState>(old).unwrap().rewards, BTreeMap::new());
    }
}
