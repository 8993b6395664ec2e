//! When an episode counts as solved.

use std::str::FromStr;

use gymkhana_record::EpisodeRecord;

use super::RuleError;
use super::catalog::Catalog;
use super::metric_ref::MetricRef;

const RULE: &str = "success";

/// An episode succeeded when a fact of the environment, or a number of a reward for the first seat, is at least one
/// half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessRule(MetricRef);

impl FromStr for SuccessRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        MetricRef::parse(RULE, text).map(Self)
    }
}

impl SuccessRule {
    /// Checks that what the rule names can be there.
    ///
    /// # Errors
    /// If it names a reward or a component that does not exist. An environment's facts are known only when it acts.
    pub(super) fn check(&self, catalog: &Catalog<'_>) -> Result<(), RuleError> {
        self.0.check(RULE, catalog)
    }

    /// Checks that an episode which the environment ended has the fact that the rule names.
    ///
    /// # Errors
    /// If it has not: then no episode could ever succeed.
    pub fn check_record(&self, record: &EpisodeRecord) -> Result<(), RuleError> {
        self.0.check_record(RULE, record)
    }

    pub(super) fn holds(&self, record: &EpisodeRecord) -> bool {
        self.0.value(record, self.0.first_seat(record)).is_some_and(|value| value >= 0.5)
    }
}
