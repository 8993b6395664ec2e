//! `[evaluation]`: evaluation on held-out tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;
use crate::range::check_range;

/// Evaluation on held-out tasks before and after each stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationSection {
    /// Number of held-out tasks; 0 disables evaluation.
    #[schemars(range(max = 1_000_000))]
    pub tasks: u64,
    /// Evaluates sampled decoding at temperature 1 besides greedy decoding.
    pub sampled: bool,
}

impl Default for EvaluationSection {
    fn default() -> Self {
        Self { tasks: 200, sampled: true }
    }
}

impl EvaluationSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_range("evaluation.tasks", self.tasks, 0..=1_000_000, "a number from 0 to 1000000")
    }
}
