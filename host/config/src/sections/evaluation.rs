//! `[evaluation]`: evaluation on held-out tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;
use crate::range::check_range;

/// Evaluation on held-out tasks before and after each stage, and between its training steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationSection {
    /// Number of held-out tasks; 0 disables evaluation.
    #[schemars(range(max = 1_000_000))]
    pub tasks: u64,
    /// Evaluates sampled decoding at temperature 1 besides greedy decoding.
    pub sampled: bool,
    /// Training steps between evaluations within a stage; 0 for none.
    #[schemars(range(max = 100_000_000))]
    pub every: u64,
    /// Evaluations in a row without a higher greedy success than before, after which a stage stops; 0 for no limit.
    /// Requires `every`.
    #[schemars(range(max = 1_000_000))]
    pub patience: u64,
}

impl Default for EvaluationSection {
    fn default() -> Self {
        Self { tasks: 200, sampled: true, every: 0, patience: 0 }
    }
}

impl EvaluationSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_range("evaluation.tasks", self.tasks, 0..=1_000_000, "a number from 0 to 1000000")?;
        check_range("evaluation.every", self.every, 0..=100_000_000, "a number from 0 to 100000000")?;
        check_range("evaluation.patience", self.patience, 0..=1_000_000, "a number from 0 to 1000000")?;
        let needed = |key: &str, needed: &str, hint: &str| {
            Err(RunFileError::Contradiction(format!(
                "evaluation.{key} has no effect without evaluation.{needed}\nhint: {hint}"
            )))
        };
        match self {
            Self { every: 1.., tasks: 0, .. } => needed("every", "tasks", "set evaluation.tasks to 1 or more"),
            Self { every: 0, patience: 1.., .. } => needed("patience", "every", "set evaluation.every to 1 or more"),
            _ => Ok(()),
        }
    }

    /// Whether an evaluation is due after this number of training steps of a stage.
    #[must_use]
    pub fn is_due(&self, steps: u64) -> bool {
        self.every > 0 && steps > 0 && steps.is_multiple_of(self.every)
    }
}
