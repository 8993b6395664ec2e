//! Success rule of an episode.

use std::str::FromStr;

use gymkhana_record::EpisodeRecord;

use super::MetricRuleError;
use super::episode_end::EpisodeEnd;
use super::metric_ref::MetricRef;
use super::metric_ref::RewardCatalog;

const RULE: &str = "success";

/// Rule for success: a fact of the environment, or a metric of a reward for the first seat, is at least 0.5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessRule(MetricRef);

impl FromStr for SuccessRule {
    type Err = MetricRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        MetricRef::parse(RULE, text).map(Self)
    }
}

impl SuccessRule {
    /// Checks that the rule's metric can exist.
    ///
    /// # Errors
    /// If a reward or a component does not exist. Facts of an environment are known only after a step.
    pub(super) fn check(&self, catalog: &RewardCatalog<'_>) -> Result<(), MetricRuleError> {
        self.0.check(RULE, catalog)
    }

    /// Checks that an episode that the environment ended has the rule's fact.
    ///
    /// # Errors
    /// If the fact is missing, so that no episode could ever succeed.
    pub(super) fn check_facts(&self, end: &EpisodeEnd<'_>) -> Result<(), MetricRuleError> {
        self.0.check_facts(RULE, end)
    }

    /// Whether the rule names a fact of the environment.
    pub(super) fn names_fact(&self) -> bool {
        self.0.is_fact()
    }

    pub(super) fn holds(&self, record: &EpisodeRecord) -> bool {
        self.0.value(record, self.0.first_seat(record)).is_some_and(|value| value >= 0.5)
    }
}
