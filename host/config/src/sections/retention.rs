//! `[checkpoints]`: checkpoints that a run keeps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Checkpoints of a stage that stay in the run's folder. The last one of each stage always stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointsSection {
    /// Number of the newest checkpoints of a stage that stay.
    #[schemars(range(min = 1, max = 100_000))]
    pub last: usize,
    /// Whether the checkpoint with the highest `evaluation.metric` stays as well. It is written when `evaluation.every`
    /// measures a higher value than before.
    pub best: bool,
}

impl Default for CheckpointsSection {
    fn default() -> Self {
        Self { last: 1, best: true }
    }
}
