//! Guided retries: failed attempts are repeated with a hint from the environment (Agent-RLVR).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanError, require};

/// Repetition of failed episodes with the environment's hint about the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Guided {
    /// Further attempts of a failed episode, each with the environment's hint.
    #[schemars(range(min = 1, max = 8))]
    pub retries: u32,
}

impl Default for Guided {
    fn default() -> Self {
        Self { retries: 1 }
    }
}

impl Guided {
    pub(super) fn check(self) -> Result<(), PlanError> {
        require((1..=8).contains(&self.retries), "retries", self.retries, "1 to 8")
    }
}
