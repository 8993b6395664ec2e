//! From scores to the rewards that are trained on, and the success of an episode.
//!
//! Each source of rewards (the environment and the reward plugins) has a term: a weight, which can change with the
//! training step, and a gate. A seat's reward is the sum of the terms; rewards that belong to single turns are also
//! kept per turn.

mod catalog;
mod episode_end;
mod gate;
mod metric_ref;
mod success;
mod turns;

use gymkhana_record::{EpisodeRecord, Score};

pub(crate) use catalog::Catalog;
pub use episode_end::EndedEpisode;
pub(crate) use episode_end::EpisodeEnd;
pub use gate::Gate;
use gate::Gates;
pub use gymkhana_algorithm::{ScheduleError, Weight, WeightSchedule, WeightShape};
use metric_ref::ENVIRONMENT;
pub use metric_ref::RuleError;
pub use success::SuccessRule;

/// Weight, gate and seat of a source of rewards.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardTerm {
    /// Factor of the source's rewards.
    pub weight: Weight,
    /// Condition under which the source counts.
    pub gate: Option<Gate>,
    /// Seat whose score all seats get; `None` if each has its own.
    pub seat: Option<u32>,
}

impl RewardTerm {
    /// The scores of an episode, in which all seats have the total and the components of the term's seat. A seat that did
    /// not act has zeros. Parts of a score about turns stay with the seat that took them.
    pub(crate) fn shared(&self, mut scores: Vec<Score>) -> Vec<Score> {
        let Some(seat) = self.seat else { return scores };
        let own = scores.iter().find(|score| score.seat == seat).map(|own| (own.total, own.components.clone()));
        for score in scores.iter_mut().filter(|score| score.seat != seat) {
            match &own {
                Some((total, components)) => (score.total, score.components) = (*total, components.clone()),
                None => {
                    score.total = 0.0;
                    score.components.iter_mut().for_each(|component| component.value = 0.0);
                }
            }
            score.turns.clear();
        }
        scores
    }
}

impl From<f64> for RewardTerm {
    /// A constant weight without a gate.
    fn from(weight: f64) -> Self {
        Self { weight: weight.into(), gate: None, seat: None }
    }
}

/// Sum of the reward terms of a run. The terms of reward plugins are in the plugin set.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardSum {
    /// Term of the environment's rewards.
    pub environment: RewardTerm,
    /// Reward of every seat if the environment or a reward fails.
    pub failure_reward: f64,
    /// Rule for success.
    pub success: SuccessRule,
}

impl RewardSum {
    /// Checks that the metrics in the success rule and gates can exist, and that each gate can open.
    ///
    /// # Errors
    /// If a reward or a component does not exist, or gates depend on each other. Facts of an environment are known only
    /// after a step.
    pub(crate) fn check(&self, catalog: &Catalog<'_>, terms: &[(&str, &RewardTerm)]) -> Result<(), RuleError> {
        self.success.check(catalog)?;
        self.gates(terms).check(catalog)
    }

    /// Checks that an episode that the environment ended has the facts in the success rule and gates.
    ///
    /// # Errors
    /// If a fact is missing, so that the rule could never hold.
    pub(crate) fn check_facts(&self, terms: &[(&str, &RewardTerm)], end: &EpisodeEnd<'_>) -> Result<(), RuleError> {
        self.success.check_facts(end)?;
        self.gates(terms).check_facts(end)
    }

    /// Whether the success rule or a gate names a fact of the environment.
    pub(crate) fn names_facts(&self, terms: &[(&str, &RewardTerm)]) -> bool {
        self.success.names_fact() || self.gates(terms).name_facts()
    }

    fn gates<'a>(&'a self, terms: &[(&'a str, &'a RewardTerm)]) -> Gates<'a> {
        let rewards = terms.iter().map(|(name, term)| (*name, term.gate.as_ref()));
        Gates::new(std::iter::once((ENVIRONMENT, self.environment.gate.as_ref())).chain(rewards))
    }

    /// Sets an episode's rewards and success from its scores. `terms` holds the terms of the reward plugins by name;
    /// with `failed`, a plugin's failure decides the reward.
    pub fn assemble(&self, record: &mut EpisodeRecord, terms: &[(&str, &RewardTerm)], seats: usize, failed: bool) {
        record.success = !failed && self.success.holds(record);
        let seats = 0..seats as u32;
        if failed {
            record.rewards = seats.clone().map(|_| self.failure_reward).collect();
            record.turn_rewards = seats.map(|seat| turns::nothing(record, seat)).collect();
            return;
        }
        let gates = self.gates(terms);
        let factor = |source: &str, term: &RewardTerm, seat: u32| {
            if gates.open(source, record, seat) { term.weight.at(record.training_step) } else { 0.0 }
        };
        let (mut rewards, mut turn_rewards) = (vec![], vec![]);
        for seat in seats {
            let mut turns = turns::nothing(record, seat);
            let weight = factor(ENVIRONMENT, &self.environment, seat);
            let earned = record.environment_rewards.iter().find(|rewards| rewards.seat == seat);
            let earned = earned.map_or(&[][..], |rewards| &rewards.rewards);
            turns::add_steps(&mut turns, record, seat, earned, weight);
            let mut reward = weight * sum(earned.iter().copied());
            for (name, term) in terms {
                let weight = factor(name, term, seat);
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

/// Sum; 0 for no numbers (the standard library's sum is -0).
pub(crate) fn sum(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |sum, number| sum + number)
}

#[cfg(test)]
mod tests;
