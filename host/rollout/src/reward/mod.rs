//! From scores to the rewards that are trained on, and the success of an episode.
//!
//! Each source of rewards (the environment and the reward plugins) has a term: a weight, which can change with the
//! training step, and a gate. A seat's reward is the sum of the terms; rewards that belong to single turns are also
//! kept per turn.

mod episode_end;
mod gate;
mod least;
mod metric_ref;
mod success;
mod turns;

use gymkhana_record::{EpisodeRecord, Score};
use gymkhana_rules::ProvokedReward;

pub(crate) use episode_end::EpisodeEnd;
pub use episode_end::EpisodeName;
pub use gate::Gate;
use gate::Gates;
pub use gymkhana_algorithm::{ScheduleError, Weight, WeightSchedule, WeightShape};
use metric_ref::ENVIRONMENT;
pub use metric_ref::MetricRuleError;
pub(crate) use metric_ref::RewardCatalog;
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
    /// Reward of every seat if the agent's turn provoked a failure.
    pub provoked: ProvokedReward,
    /// Rule for success.
    pub success: SuccessRule,
}

impl RewardSum {
    /// Checks that the metrics in the success rule and gates can exist, and that each gate can open.
    ///
    /// # Errors
    /// If a reward or a component does not exist, or gates depend on each other. Facts of an environment are known only
    /// after a step.
    pub(crate) fn check(
        &self,
        catalog: &RewardCatalog<'_>,
        terms: &[(&str, &RewardTerm)],
    ) -> Result<(), MetricRuleError> {
        self.success.check(catalog)?;
        self.gates(terms).check(catalog)
    }

    /// Checks that an episode that the environment ended has the facts in the success rule and gates.
    ///
    /// # Errors
    /// If a fact is missing, so that the rule could never hold.
    pub(crate) fn check_facts(
        &self,
        terms: &[(&str, &RewardTerm)],
        end: &EpisodeEnd<'_>,
    ) -> Result<(), MetricRuleError> {
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

    /// Sets an episode's rewards and success from its scores. `terms` holds the terms of the reward plugins by name.
    pub fn assemble(&self, record: &mut EpisodeRecord, terms: &[(&str, &RewardTerm)], seats: usize) {
        record.success = self.success.holds(record);
        let factor = self.factors(terms);
        let (mut rewards, mut turn_rewards) = (vec![], vec![]);
        for seat in 0..seats as u32 {
            let weight = factor(record, ENVIRONMENT, &self.environment, seat);
            let (mut reward, mut turns) = earned(record, seat, weight);
            for (name, term) in terms {
                let weight = factor(record, name, term, seat);
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

    /// Sets the rewards of an episode in which the agent's turn provoked a failure: `total` for every seat. Turns keep
    /// what the environment paid for them, so that the turn after which the failure came has the difference.
    pub(crate) fn assemble_failed(
        &self,
        record: &mut EpisodeRecord,
        terms: &[(&str, &RewardTerm)],
        seats: usize,
        total: f64,
    ) {
        record.success = false;
        let factor = self.factors(terms);
        let turns = |seat: u32| earned(record, seat, factor(record, ENVIRONMENT, &self.environment, seat)).1;
        record.turn_rewards = (0..seats as u32).map(turns).collect();
        record.rewards = vec![total; seats];
    }

    /// The factor of a source's rewards for a seat of an episode: the weight, or 0 while its gate is shut.
    fn factors<'a>(
        &'a self,
        terms: &[(&'a str, &'a RewardTerm)],
    ) -> impl Fn(&EpisodeRecord, &str, &RewardTerm, u32) -> f64 + 'a {
        let gates = self.gates(terms);
        move |record, source, term, seat| {
            if gates.open(source, record, seat) { term.weight.at(record.training_step) } else { 0.0 }
        }
    }
}

/// What the environment paid a seat, with this weight: in all, and for each turn.
fn earned(record: &EpisodeRecord, seat: u32, weight: f64) -> (f64, Vec<f64>) {
    let mut turns = turns::nothing(record, seat);
    let earned = record.environment_rewards.iter().find(|rewards| rewards.seat == seat);
    let earned = earned.map_or(&[][..], |rewards| &rewards.rewards);
    turns::add_steps(&mut turns, record, seat, earned, weight);
    (weight * sum(earned.iter().copied()), turns)
}

/// Sum; 0 for no numbers (the standard library's sum is -0).
pub(crate) fn sum(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |sum, number| sum + number)
}

#[cfg(test)]
mod tests;
