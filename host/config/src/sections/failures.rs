//! `[failures]`: handling of failed episodes.

use gymkhana_rules::ProvokedReward;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Handling of failed episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FailuresSection {
    /// Total reward of an episode in which the agent's turn provoked a failure of the environment, a reward or the agent
    /// program, such as a trap or spent fuel, time or memory: `least` is the least total that their declared ranges
    /// allow, `exclude` leaves the episode out of a training step.
    #[schemars(extend("x-range" = "`least`, `exclude`, or a number from -1000000 to 1000000"))]
    pub provoked: ProvokedReward,
    /// Maximum share of failed episodes, above which the run stops; applied to each batch (a step, an evaluation) and
    /// to each stage so far, from 20 episodes on.
    #[schemars(range(min = 0, max = 1))]
    pub limit: f64,
    /// Retries of an episode after a failure of the host or a model.
    #[schemars(range(max = 100))]
    pub retries: u32,
    /// Maximum duration, in seconds, of an outage: a step or an evaluation whose episodes are all lost to failures of the
    /// host, a model or a remote tool is played again after pauses of up to a minute. After this time the run ends, and
    /// can be resumed.
    #[schemars(range(min = 0, max = 86_400))]
    pub outage_seconds: f64,
}

impl Default for FailuresSection {
    fn default() -> Self {
        Self { provoked: ProvokedReward::Least, limit: 0.2, retries: 2, outage_seconds: 600.0 }
    }
}
