//! Numbers of an episode by their names: what success and gates are judged by.

use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Value};

use super::catalog::Catalog;
use crate::listing::listed;

/// The source that is no reward.
pub(super) const ENVIRONMENT: &str = "environment";
/// What every reward has beside its components.
const TOTAL: &str = "total";

/// A fact of the environment, a component of a reward, or a reward's total.
///
/// Written `environment.FACT`, `REWARD.COMPONENT` or `REWARD.total`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetricRef {
    pub(super) source: String,
    name: String,
}

/// A rule of the run file, such as `success`, that says nothing. `rule` is its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It names no number.
    #[error("{rule} `{text}` is neither `environment.FACT` nor `REWARD.COMPONENT`")]
    Form {
        /// The rule.
        rule: String,
        /// What stands there.
        text: String,
    },
    /// It compares nothing.
    #[error(
        "{rule} `{text}` is not a condition\nhint: write one such as `answer-match.correct >= 0.5`, with >=, >, <= or <"
    )]
    Condition {
        /// The rule.
        rule: String,
        /// What stands there.
        text: String,
    },
    /// There is no such reward.
    #[error(
        "{rule} names the reward `{reward}`, but the rewards among the run's plugins are {}; add it to --plugins",
        listed(known)
    )]
    NoReward {
        /// The rule.
        rule: String,
        /// The reward.
        reward: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The reward has no such component.
    #[error("{rule} names `{component}`, but reward `{reward}` has only {}", listed(known))]
    NoComponent {
        /// The rule.
        rule: String,
        /// The reward.
        reward: String,
        /// The component.
        component: String,
        /// What it has.
        known: Vec<String>,
    },
    /// The environment ended an episode and told no such fact.
    #[error(
        "{rule} names the fact `{fact}`, but the environment ended episode {episode} without it; its facts that are \
         flags or numbers are {}",
        listed(known)
    )]
    NoFact {
        /// The rule.
        rule: String,
        /// The fact.
        fact: String,
        /// The episode.
        episode: EpisodeId,
        /// Those that there were.
        known: Vec<String>,
    },
    /// Gates wait for each other.
    #[error("no gate of {} can ever open, as they wait for each other; take one of them out", listed(circle))]
    Circle {
        /// Whose gates they are.
        circle: Vec<String>,
    },
}

impl MetricRef {
    /// Reads `SOURCE.NAME`; `rule` is the key that names it.
    pub(super) fn parse(rule: &str, text: &str) -> Result<Self, RuleError> {
        match text.split_once('.') {
            Some((source, name)) if !source.is_empty() && !name.is_empty() => {
                Ok(Self { source: source.to_owned(), name: name.to_owned() })
            }
            _ => Err(RuleError::Form { rule: rule.to_owned(), text: text.to_owned() }),
        }
    }

    /// Checks that it can be there; `rule` is the key that names it.
    ///
    /// # Errors
    /// If there is no such reward or component. An environment's facts are known only when it acts.
    pub(super) fn check(&self, rule: &str, catalog: &Catalog<'_>) -> Result<(), RuleError> {
        if self.source == ENVIRONMENT {
            return Ok(());
        }
        let (rule, reward) = (rule.to_owned(), self.source.clone());
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        match catalog.components(&self.source) {
            None => Err(RuleError::NoReward { rule, reward, known: owned(&catalog.rewards()) }),
            Some(known) if known.contains(&self.name.as_str()) || self.name == TOTAL => Ok(()),
            Some(known) => {
                Err(RuleError::NoComponent { rule, reward, component: self.name.clone(), known: owned(known) })
            }
        }
    }

    /// Checks that an episode which the environment ended has the fact.
    ///
    /// # Errors
    /// If it has not: then the rule could never hold.
    pub(super) fn check_record(&self, rule: &str, record: &EpisodeRecord) -> Result<(), RuleError> {
        let over = matches!(record.ending, Ending::Terminated | Ending::Truncated);
        if self.source != ENVIRONMENT || !over {
            return Ok(());
        }
        let counting = record.extras.iter().filter(|fact| fact.value.as_number().is_some());
        let known: Vec<String> = counting.map(|fact| fact.name.clone()).collect();
        if known.contains(&self.name) {
            return Ok(());
        }
        let (rule, fact) = (rule.to_owned(), self.name.clone());
        Err(RuleError::NoFact { rule, fact, episode: record.id, known })
    }

    /// Its value in an episode for a seat; none if the episode has none. A fact is the same for all seats.
    pub(super) fn value(&self, record: &EpisodeRecord, seat: u32) -> Option<f64> {
        if self.source == ENVIRONMENT {
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

    /// The first seat that the source speaks of, and 0 where it speaks of none.
    pub(super) fn first_seat(&self, record: &EpisodeRecord) -> u32 {
        let plugin = record.scores.iter().find(|each| each.plugin == self.source);
        plugin.and_then(|plugin| plugin.scores.first()).map_or(0, |score| score.seat)
    }
}
