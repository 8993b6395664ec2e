//! References to metrics of an episode, used by the success rule and by gates.

use gymkhana_record::{EpisodeRecord, Value};

use super::episode_end::{EpisodeEnd, EpisodeName};
use crate::listed;

/// Source name of the environment's facts; other sources are rewards.
pub(super) const ENVIRONMENT: &str = "environment";
/// Name of a reward's total, next to its components.
const TOTAL: &str = "total";

/// A fact of the environment, a component of a reward, or a reward's total, written `environment.FACT`,
/// `REWARD.COMPONENT` or `REWARD.total`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetricRef {
    pub(super) source: String,
    name: String,
}

/// Rewards of a run with the names of their components.
pub(crate) struct RewardCatalog<'a>(pub(crate) Vec<(&'a str, Vec<&'a str>)>);

impl<'a> RewardCatalog<'a> {
    /// Names of the rewards.
    pub(super) fn rewards(&self) -> Vec<&'a str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    /// Names of a reward's components; `None` if the run does not have the reward.
    pub(super) fn components(&self, reward: &str) -> Option<&[&'a str]> {
        self.0.iter().find(|(name, _)| *name == reward).map(|(_, components)| &components[..])
    }
}

/// An invalid rule of the run file, such as `success`. `rule` is its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricRuleError {
    /// The rule does not name a metric.
    #[error("{rule} `{text}` is neither `environment.FACT` nor `REWARD.COMPONENT`")]
    Form {
        /// The rule.
        rule: String,
        /// The rule's text.
        text: String,
    },
    /// The rule has no comparison.
    #[error(
        "{rule} `{text}` is not a condition\nhint: write one such as `answer-match.correct >= 0.5`, with >=, >, <= or <"
    )]
    Condition {
        /// The rule.
        rule: String,
        /// The rule's text.
        text: String,
    },
    /// The reward does not exist.
    #[error("{rule} names the reward `{reward}`, but {}\nhint: add it to --plugins", rewards_of_the_run(known))]
    NoReward {
        /// The rule.
        rule: String,
        /// The reward.
        reward: String,
        /// Names of the run's rewards.
        known: Vec<String>,
    },
    /// The reward does not have the component.
    #[error(
        "{rule} names `{component}`, but reward `{reward}` has no such component\nhint: its components are {}",
        listed(known)
    )]
    NoComponent {
        /// The rule.
        rule: String,
        /// The reward.
        reward: String,
        /// The component.
        component: String,
        /// Components of the reward.
        known: Vec<String>,
    },
    /// The environment ended an episode without the fact.
    #[error(
        "{rule} names the fact `{fact}`, but the environment ended {episode} without it\nhint: {}",
        possible_facts(known)
    )]
    NoFact {
        /// The rule.
        rule: String,
        /// The fact.
        fact: String,
        /// The episode.
        episode: EpisodeName,
        /// Facts of the episode that are flags or numbers.
        known: Vec<String>,
    },
    /// Gates depend on each other.
    #[error("the gates of {} wait for each other and can never open\nhint: remove one of them", listed(circle))]
    Circle {
        /// Owners of the gates.
        circle: Vec<String>,
    },
}

/// Facts that a rule may name instead.
fn possible_facts(known: &[String]) -> String {
    match known {
        [] => "it has no fact that is a flag or a number; name a component of a reward".to_owned(),
        _ => format!("its facts that are flags or numbers are {}", listed(known)),
    }
}

impl MetricRef {
    /// Parses `SOURCE.NAME`; `rule` is the run-file key that contains it.
    pub(super) fn parse(rule: &str, text: &str) -> Result<Self, MetricRuleError> {
        match text.split_once('.') {
            Some((source, name)) if !source.is_empty() && !name.is_empty() => {
                Ok(Self { source: source.to_owned(), name: name.to_owned() })
            }
            _ => Err(MetricRuleError::Form { rule: rule.to_owned(), text: text.to_owned() }),
        }
    }

    /// Whether the metric is a fact of the environment.
    pub(super) fn is_fact(&self) -> bool {
        self.source == ENVIRONMENT
    }

    /// Checks that the metric can exist; `rule` is the run-file key that contains it.
    ///
    /// # Errors
    /// If the reward or the component does not exist. Facts of an environment are known only after a step.
    pub(super) fn check(&self, rule: &str, catalog: &RewardCatalog<'_>) -> Result<(), MetricRuleError> {
        if self.is_fact() {
            return Ok(());
        }
        let (rule, reward) = (rule.to_owned(), self.source.clone());
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        match catalog.components(&self.source) {
            None => Err(MetricRuleError::NoReward { rule, reward, known: owned(&catalog.rewards()) }),
            Some(known) if known.contains(&self.name.as_str()) || self.name == TOTAL => Ok(()),
            Some(known) => {
                Err(MetricRuleError::NoComponent { rule, reward, component: self.name.clone(), known: owned(known) })
            }
        }
    }

    /// Checks that an episode that the environment ended has the fact.
    ///
    /// # Errors
    /// If the fact is missing, so that the rule could never hold.
    pub(super) fn check_facts(&self, rule: &str, end: &EpisodeEnd<'_>) -> Result<(), MetricRuleError> {
        if !self.is_fact() {
            return Ok(());
        }
        let counting = end.facts.iter().filter(|fact| fact.value.as_number().is_some());
        let known: Vec<String> = counting.map(|fact| fact.name.clone()).collect();
        if known.contains(&self.name) {
            return Ok(());
        }
        let (rule, fact) = (rule.to_owned(), self.name.clone());
        Err(MetricRuleError::NoFact { rule, fact, episode: end.episode.clone(), known })
    }

    /// Value in an episode for a seat; `None` if the episode does not have it. A fact is the same for all seats.
    pub(super) fn value(&self, record: &EpisodeRecord, seat: u32) -> Option<f64> {
        if self.is_fact() {
            let fact = record.extras.iter().find(|fact| fact.name == self.name);
            return fact.map(|fact| &fact.value).and_then(Value::as_number);
        }
        let plugin = record.scores.iter().find(|each| each.plugin == self.source)?;
        let score = plugin.scores.iter().find(|score| score.seat == seat)?;
        let component = score.components.iter().find(|component| component.name == self.name);
        match component {
            Some(component) => Some(component.value),
            None => (self.name == TOTAL).then_some(score.total),
        }
    }

    /// First seat in the source's scores; 0 without scores.
    pub(super) fn first_seat(&self, record: &EpisodeRecord) -> u32 {
        let plugin = record.scores.iter().find(|each| each.plugin == self.source);
        plugin.and_then(|plugin| plugin.scores.first()).map_or(0, |score| score.seat)
    }
}

/// Which rewards a run has.
fn rewards_of_the_run(known: &[String]) -> String {
    match known {
        [] => "no plugin of the run is a reward".to_owned(),
        [..] => format!("the run's rewards are {}", listed(known)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_reward_is_told_with_those_that_exist() {
        let told = |known: &[&str]| {
            let known = known.iter().map(|name| (*name).to_owned()).collect();
            let error = MetricRuleError::NoReward { rule: "success".to_owned(), reward: "math".to_owned(), known };
            error.to_string().lines().next().map(str::to_owned)
        };
        let none = "success names the reward `math`, but no plugin of the run is a reward";
        assert_eq!(told(&[]).as_deref(), Some(none));
        let other = "success names the reward `math`, but the run's rewards are `match`";
        assert_eq!(told(&["match"]).as_deref(), Some(other));
    }
}
