//! `summary.json`: what came of a run.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The number of the summary's shape.
pub const SUMMARY_SCHEMA: u32 = 1;

/// What came of a run. Success is always the share of held-out tasks that were solved, from 0 to 1; none when the run
/// measures none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SUMMARY_SCHEMA`] when it was written.
    pub schema: u32,
    /// The stages, in order.
    pub stages: Vec<StageSummary>,
    /// Success by greedy decoding after the last stage.
    pub success: Option<f64>,
    /// The same by sampling, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_sampled: Option<f64>,
    /// Wall time of the whole run, in seconds, over all resumptions.
    pub seconds: f64,
}

/// What came of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageSummary {
    /// The stage's name in the run file.
    pub name: String,
    /// Success by greedy decoding before the stage.
    pub success_before: Option<f64>,
    /// Success by greedy decoding after the stage.
    pub success_after: Option<f64>,
    /// Success by sampling before the stage, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_before_sampled: Option<f64>,
    /// Success by sampling after the stage, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_after_sampled: Option<f64>,
    /// How many episodes it trained on.
    pub episodes: u64,
    /// How many tokens it trained on.
    pub tokens: u64,
    /// Its wall time in seconds, over all resumptions.
    pub seconds: f64,
}

impl Summary {
    /// This summary, unless it is newer than this host.
    pub(crate) fn checked(self, path: &Path) -> Result<Self, StoreError> {
        if self.schema == SUMMARY_SCHEMA {
            Ok(self)
        } else {
            Err(StoreError::Schema { path: path.to_owned(), found: self.schema, known: SUMMARY_SCHEMA })
        }
    }
}
