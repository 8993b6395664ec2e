//! `[rewards.NAME]`: weight, schedule, gate and options of a reward.

use std::collections::BTreeMap;

use gymkhana_algorithm::WeightSchedule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Options;
use crate::error::RunFileError;
use crate::range::check_range;

/// Reward `NAME`, a plugin: its weight and its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RewardSection {
    /// Factor of the reward's total in the sum of rewards.
    #[schemars(range(min = -1e6, max = 1e6))]
    pub weight: f64,
    /// Change of the weight over training steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "constant"))]
    pub schedule: Option<WeightSchedule>,
    /// Condition under which the reward counts, such as `answer-match.correct >= 0.5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a [condition](#gates)"))]
    pub gate: Option<String>,
    /// Seat whose total and components all seats get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "each seat has its own"))]
    pub seat: Option<String>,
    /// Options of the plugin.
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend("x-range" = "the plugin's options"))]
    pub options: Options,
}

impl Default for RewardSection {
    fn default() -> Self {
        Self { weight: 1.0, schedule: None, gate: None, seat: None, options: Options::new() }
    }
}

impl RewardSection {
    pub(crate) fn check(&self, reward: &str) -> Result<(), RunFileError> {
        check_weight(&format!("rewards.{reward}"), self.weight, self.schedule)
    }
}

/// Rejects weights that would make sums of rewards infinite or NaN.
pub(super) fn check_weight(section: &str, weight: f64, schedule: Option<WeightSchedule>) -> Result<(), RunFileError> {
    check_range(&format!("{section}.weight"), weight, -1e6..=1e6, "a number from -1000000 to 1000000")?;
    let checked = schedule.map_or(Ok(()), |schedule| schedule.check());
    checked.map_err(|error| RunFileError::Contradiction(format!("{section}.schedule.{error}")))
}
