//! Early-stop rule of episodes that repeat states or fail calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Early-stop rule. A stopped episode ends as at any other limit and is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EarlyStop {
    /// Maximum number of visits to one state; the episode ends above it. Requires an environment with state keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub repeats: Option<u32>,
    /// Number of consecutive failed calls that ends the episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub failed_calls: Option<u32>,
}
