//! `[failures]`: handling of failed episodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;
use crate::range::check_range;

/// Handling of failed episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FailuresSection {
    /// Reward of an episode whose environment or reward plugin failed.
    #[schemars(range(min = -1e6, max = 1e6))]
    pub reward: f64,
    /// Maximum share of failed episodes, above which the run stops; applied to each batch (a step, an evaluation) and
    /// to each stage so far, from 20 episodes on.
    #[schemars(range(min = 0, max = 1))]
    pub limit: f64,
    /// Retries of an episode after a failure of the host or a model.
    #[schemars(range(max = 100))]
    pub retries: u32,
}

impl Default for FailuresSection {
    fn default() -> Self {
        Self { reward: 0.0, limit: 0.2, retries: 2 }
    }
}

impl FailuresSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_range("failures.reward", self.reward, -1e6..=1e6, "a number from -1000000 to 1000000")?;
        check_range("failures.limit", self.limit, 0.0..=1.0, "a share from 0 to 1")?;
        check_range("failures.retries", self.retries, 0..=100, "a number from 0 to 100")
    }
}
