//! From scores to the one number that is trained on, and whether an episode succeeded.

use std::str::FromStr;

use gymkhana_episode::{Ending, EpisodeId, EpisodeRecord, Value};

use crate::plugins::{PluginSet, listed};

/// How a run makes a reward of what plugins say.
#[derive(Debug, Clone, PartialEq)]
pub struct Assembly {
    /// Each seat's sum of environment rewards is multiplied by this.
    pub environment_weight: f64,
    /// What every seat gets when the environment or a reward fails.
    pub failure_reward: f64,
    /// When an episode counts as solved.
    pub success: SuccessRule,
}

/// An episode succeeded when a fact of the environment or a component of a reward is at least one half.
///
/// Written `environment.FACT` or `REWARD.COMPONENT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessRule {
    source: String,
    name: String,
}

/// A success rule that says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuccessRuleError {
    /// It has not two parts.
    #[error("success `{0}` is neither `environment.FACT` nor `REWARD.COMPONENT`")]
    Form(String),
    /// There is no such reward.
    #[error("success names the reward `{reward}`, but the rewards among the run's plugins are {}", listed(known))]
    NoReward {
        /// The reward.
        reward: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The reward has no such component.
    #[error("success names `{component}`, but reward `{reward}` has only {}", listed(known))]
    NoComponent {
        /// The reward.
        reward: String,
        /// The component.
        component: String,
        /// What it has.
        known: Vec<String>,
    },
    /// The environment ended an episode and told no such fact.
    #[error(
        "success names the fact `{fact}`, but the environment ended episode {episode} without it; its facts that are \
         flags or numbers are {}",
        listed(known)
    )]
    NoFact {
        /// The fact.
        fact: String,
        /// The episode.
        episode: EpisodeId,
        /// Those that there were.
        known: Vec<String>,
    },
}

impl FromStr for SuccessRule {
    type Err = SuccessRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('.') {
            Some((source, name)) if !source.is_empty() && !name.is_empty() => {
                Ok(Self { source: source.to_owned(), name: name.to_owned() })
            }
            _ => Err(SuccessRuleError::Form(text.to_owned())),
        }
    }
}

impl SuccessRule {
    const ENVIRONMENT: &'static str = "environment";

    /// Checks that what the rule names can be there.
    ///
    /// # Errors
    /// If it names a reward or a component that does not exist. An environment's facts are known only when it acts.
    pub fn check(&self, plugins: &PluginSet) -> Result<(), SuccessRuleError> {
        if self.source == Self::ENVIRONMENT {
            return Ok(());
        }
        let reward = self.source.clone();
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        match plugins.components(&self.source) {
            None => Err(SuccessRuleError::NoReward { reward, known: owned(plugins.reward_names()) }),
            Some(known) if known.contains(&self.name.as_str()) => Ok(()),
            Some(known) => {
                Err(SuccessRuleError::NoComponent { reward, component: self.name.clone(), known: owned(known) })
            }
        }
    }

    /// Checks that an episode which the environment ended has the fact that the rule names.
    ///
    /// # Errors
    /// If it has not: then no episode could ever succeed.
    pub fn check_record(&self, record: &EpisodeRecord) -> Result<(), SuccessRuleError> {
        let over = matches!(record.ending, Ending::Terminated | Ending::Truncated);
        if self.source != Self::ENVIRONMENT || !over {
            return Ok(());
        }
        let counting = record.extras.iter().filter(|fact| fact.value.as_number().is_some());
        let known: Vec<String> = counting.map(|fact| fact.name.clone()).collect();
        if known.contains(&self.name) {
            return Ok(());
        }
        Err(SuccessRuleError::NoFact { fact: self.name.clone(), episode: record.id, known })
    }

    fn holds(&self, record: &EpisodeRecord) -> bool {
        let value = if self.source == Self::ENVIRONMENT {
            let fact = record.extras.iter().find(|fact| fact.name == self.name);
            fact.map(|fact| &fact.value).and_then(Value::as_number)
        } else {
            let plugin = record.scores.iter().find(|each| each.plugin == self.source);
            let score = plugin.and_then(|plugin| plugin.scores.first());
            let component =
                score.and_then(|score| score.components.iter().find(|component| component.name == self.name));
            component.map(|component| component.value)
        };
        value.is_some_and(|value| value >= 0.5)
    }
}

impl Assembly {
    /// Sets an episode's rewards and success from its scores; `weights` are the rewards' in the order of `scores`.
    /// `failed` says that a plugin's failure decides the reward.
    pub(crate) fn assemble(&self, record: &mut EpisodeRecord, weights: &[f64], seats: usize, failed: bool) {
        record.success = !failed && self.success.holds(record);
        record.rewards = (0..seats as u32)
            .map(|seat| {
                if failed {
                    return self.failure_reward;
                }
                let earned = record.environment_rewards.iter().find(|rewards| rewards.seat == seat);
                let earned = earned.map_or(0.0, |rewards| sum(rewards.rewards.iter().copied()));
                let scored = record
                    .scores
                    .iter()
                    .zip(weights)
                    .flat_map(|(plugin, weight)| plugin.scores.iter().map(move |score| (score, weight)))
                    .filter(|(score, _)| score.seat == seat)
                    .map(|(score, weight)| score.total * weight);
                self.environment_weight * earned + sum(scored)
            })
            .collect();
    }
}

/// A sum that is 0 when there is nothing to add: the standard library's is then -0, which a reader would wonder at.
pub(crate) fn sum(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |sum, number| sum + number)
}
