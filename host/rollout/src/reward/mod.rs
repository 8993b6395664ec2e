//! From scores to the numbers that are trained on, and whether an episode succeeded.
//!
//! Each source of rewards, the environment and the reward plugins, has a share: a weight, which may change with the
//! training step, and a gate, which may be shut. What a seat gets is the sum of the shares; what of it belongs to
//! single turns stands beside it, turn by turn.

mod catalog;
mod gate;
mod metric_ref;
mod success;
mod turns;
mod weight;

use gymkhana_record::EpisodeRecord;

pub(crate) use catalog::Catalog;
pub use gate::Gate;
use gate::Gates;
use metric_ref::ENVIRONMENT;
pub use metric_ref::RuleError;
pub use success::SuccessRule;
pub use weight::{Schedule, ScheduleError, Shape, Weight};

/// What a source of rewards counts.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardTerm {
    /// Its numbers are multiplied by this.
    pub weight: Weight,
    /// They count only where this holds.
    pub gate: Option<Gate>,
}

impl From<f64> for RewardTerm {
    /// Always so much.
    fn from(weight: f64) -> Self {
        Self { weight: weight.into(), gate: None }
    }
}

/// How a run makes a reward of what plugins say. What the reward plugins count stands with them in the set.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardSum {
    /// What each seat's sum of environment rewards counts.
    pub environment: RewardTerm,
    /// What every seat gets when the environment or a reward fails.
    pub failure_reward: f64,
    /// When an episode counts as solved.
    pub success: SuccessRule,
}

impl RewardSum {
    /// Checks that what success and gates name can be there, and that each gate can open.
    ///
    /// # Errors
    /// If a reward or a component does not exist, or gates wait for each other. An environment's facts are known only
    /// when it acts.
    pub(crate) fn check(&self, catalog: &Catalog<'_>, shares: &[(&str, &RewardTerm)]) -> Result<(), RuleError> {
        self.success.check(catalog)?;
        self.gates(shares).check(catalog)
    }

    /// Checks that an episode which the environment ended has the facts that success and gates name.
    ///
    /// # Errors
    /// If it has not: then the rule could never hold.
    pub(crate) fn check_record(&self, shares: &[(&str, &RewardTerm)], record: &EpisodeRecord) -> Result<(), RuleError> {
        self.success.check_record(record)?;
        self.gates(shares).check_record(record)
    }

    fn gates<'a>(&'a self, shares: &[(&'a str, &'a RewardTerm)]) -> Gates<'a> {
        let rewards = shares.iter().map(|(name, share)| (*name, share.gate.as_ref()));
        Gates::new(std::iter::once((ENVIRONMENT, self.environment.gate.as_ref())).chain(rewards))
    }

    /// Sets an episode's rewards and success from its scores. `shares` holds the terms of the reward plugins by name;
    /// with `failed`, a plugin's failure decides the reward.
    pub fn assemble(&self, record: &mut EpisodeRecord, shares: &[(&str, &RewardTerm)], seats: usize, failed: bool) {
        record.success = !failed && self.success.holds(record);
        let seats = 0..seats as u32;
        if failed {
            record.rewards = seats.clone().map(|_| self.failure_reward).collect();
            record.turn_rewards = seats.map(|seat| turns::nothing(record, seat)).collect();
            return;
        }
        let gates = self.gates(shares);
        let factor = |source: &str, share: &RewardTerm, seat: u32| {
            if gates.open(source, record, seat) { share.weight.at(record.training_step) } else { 0.0 }
        };
        let (mut rewards, mut turn_rewards) = (vec![], vec![]);
        for seat in seats {
            let mut turns = turns::nothing(record, seat);
            let weight = factor(ENVIRONMENT, &self.environment, seat);
            let earned = record.environment_rewards.iter().find(|rewards| rewards.seat == seat);
            let earned = earned.map_or(&[][..], |rewards| &rewards.rewards);
            turns::add_steps(&mut turns, record, seat, earned, weight);
            let mut reward = weight * sum(earned.iter().copied());
            for (name, share) in shares {
                let weight = factor(name, share, seat);
                let plugin = record.scores.iter().filter(|plugin| plugin.plugin == *name);
                for score in plugin.flat_map(|plugin| &plugin.scores).filter(|score| score.seat == seat) {
                    reward += score.total * weight;
                    turns::add_messages(&mut turns, record, seat, &score.turns, weight);
                }
            }
            rewards.push(reward);
            turn_rewards.push(turns);
        }
        (record.rewards, record.turn_rewards) = (rewards, turn_rewards);
    }
}

/// A sum that is 0 when there is nothing to add: the standard library's is then -0, which a reader would wonder at.
pub(crate) fn sum(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |sum, number| sum + number)
}

#[cfg(test)]
mod tests;
