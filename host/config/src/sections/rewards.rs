//! `[rewards.NAME]`: weight, schedule, gate and options of a reward.

use gymkhana_rollout::Schedule;
use serde::{Deserialize, Serialize};

use super::Options;
use crate::error::RunFileError;
use crate::range::check_range;

/// A reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RewardSection {
    /// Factor of the reward's total in the sum of rewards, -1000000 to 1000000.
    pub weight: f64,
    /// Change of the weight over training steps. Default: constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Condition under which the reward counts, such as `answer-match.correct >= 0.5`. Default: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Options of the plugin.
    pub options: Options,
}

impl Default for RewardSection {
    fn default() -> Self {
        Self { weight: 1.0, schedule: None, gate: None, options: Options::new() }
    }
}

impl RewardSection {
    pub(crate) fn check(&self, reward: &str) -> Result<(), RunFileError> {
        check_weight(&format!("rewards.{reward}"), self.weight, self.schedule)
    }
}

/// Rejects weights that would make sums of rewards infinite or NaN.
pub(super) fn check_weight(section: &str, weight: f64, schedule: Option<Schedule>) -> Result<(), RunFileError> {
    check_range(&format!("{section}.weight"), weight, -1e6..=1e6, "a number from -1000000 to 1000000")?;
    let checked = schedule.map_or(Ok(()), |schedule| schedule.check());
    checked.map_err(|error| RunFileError::Contradiction(format!("{section}.schedule.{error}")))
}
