//! `[environment]`: splits, options and reward weight of the environment.

use std::collections::BTreeMap;

use gymkhana_rollout::WeightSchedule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rewards::check_weight;
use crate::error::RunFileError;

/// Options of a plugin, as in the run file.
pub type Options = BTreeMap<String, toml::Value>;

/// Environment: its splits, its options and the weight of its rewards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentSection {
    /// Split of training tasks.
    #[schemars(extend("x-range" = "a split"))]
    pub train: String,
    /// Split of held-out tasks.
    #[schemars(extend("x-range" = "a split"))]
    pub eval: String,
    /// Factor of the sum of the environment's rewards.
    #[schemars(range(min = -1e6, max = 1e6))]
    pub weight: f64,
    /// Change of the weight over training steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "constant"))]
    pub schedule: Option<WeightSchedule>,
    /// Condition under which the rewards count, such as `answer-match.correct >= 0.5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a [condition](#gates)"))]
    pub gate: Option<String>,
    /// Options of the plugin.
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend("x-range" = "the plugin's options"))]
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
