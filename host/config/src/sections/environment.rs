//! `[environment]`: splits, options and reward weight of the environment.

use std::collections::BTreeMap;

use gymkhana_rollout::Schedule;
use serde::{Deserialize, Serialize};

use super::rewards::check_weight;
use crate::error::RunFileError;

/// Options of a plugin, as written in the run file.
pub type Options = BTreeMap<String, toml::Value>;

/// The environment: its splits, its options and the weight of its rewards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentSection {
    /// Split of training tasks.
    pub train: String,
    /// Split of held-out tasks for evaluation.
    pub eval: String,
    /// Weight of the sum of the environment's rewards, -1000000 to 1000000.
    pub weight: f64,
    /// Change of the weight over training steps. Default: constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Condition under which the rewards count, such as `answer-match.correct >= 0.5`. Default: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Options of the plugin.
    pub options: Options,
}

impl Default for EnvironmentSection {
    fn default() -> Self {
        Self {
            train: "train".to_owned(),
            eval: "test".to_owned(),
            weight: 1.0,
            schedule: None,
            gate: None,
            options: Options::new(),
        }
    }
}

impl EnvironmentSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_weight("environment", self.weight, self.schedule)
    }
}
