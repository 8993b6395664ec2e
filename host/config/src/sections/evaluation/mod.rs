//! `[evaluation]` and `[checkpoints]`: evaluation on held-out tasks, and the checkpoints that stay.

mod metric;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;
use crate::sections::stages::Stage;

pub use metric::{EvaluatedFigure, EvaluationMetric};

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
    /// Evaluations in a row without a higher `metric` than before, after which a stage stops; 0 for no limit. Requires
    /// `every`.
    #[schemars(range(max = 1_000_000))]
    pub patience: u64,
    /// Figure that tells which weights of a stage are best, by its name in `metrics.jsonl`; higher is better.
    #[schemars(with = "String", extend(
        "x-range" = "`eval_success`, `eval_success_sampled` or `eval_reward`, of one environment as in `NAME/eval_success`",
        "x-default" = "`\"eval_success\"`"
    ))]
    pub metric: EvaluationMetric,
    /// Weights that are evaluated. Stages without `optimizer.ema` have no average.
    pub weights: EvaluatedWeights,
}

/// Weights that evaluations use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluatedWeights {
    /// The weights in training.
    #[default]
    Current,
    /// Their moving average, where the stage has one. Excludes `policy.server`, and `every` with `max_staleness` above 0:
    /// episodes in flight would use the average, too.
    Average,
}

impl Default for EvaluationSection {
    fn default() -> Self {
        Self {
            tasks: 200,
            sampled: true,
            every: 0,
            patience: 0,
            metric: EvaluationMetric::default(),
            weights: EvaluatedWeights::Current,
        }
    }
}

impl EvaluationSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        let needed = |key: &str, needed: &str, hint: &str| {
            Err(RunFileError::Contradiction(format!(
                "evaluation.{key} has no effect without evaluation.{needed}\nhint: {hint}"
            )))
        };
        match self {
            Self { every: 1.., tasks: 0, .. } => needed("every", "tasks", "set evaluation.tasks to 1 or more"),
            Self { every: 0, patience: 1.., .. } => needed("patience", "every", "set evaluation.every to 1 or more"),
            Self {
                sampled: false, metric: EvaluationMetric { figure: EvaluatedFigure::SuccessSampled, .. }, ..
            } => needed("metric", "sampled", "set evaluation.sampled = true, or choose another metric"),
            _ => Ok(()),
        }
    }

    /// Rejects the average of weights where no stage has one, or where others would generate with it.
    pub(crate) fn check_weights(&self, stages: &[Stage], has_server: bool) -> Result<(), RunFileError> {
        if self.weights == EvaluatedWeights::Current {
            return Ok(());
        }
        let contradiction = |problem: String, hint: &str| {
            let message = format!("evaluation.weights is \"average\", but {problem}\nhint: {hint}");
            Err(RunFileError::Contradiction(message))
        };
        if stages.iter().all(|stage| stage.optimizer().ema.is_none()) {
            return contradiction("no stage has an average".to_owned(), "set optimizer.ema in a stage");
        }
        if has_server {
            let problem = "policy.server generates with the weights in training".to_owned();
            return contradiction(
                problem,
                "evaluate the model in the folder `average` of a checkpoint with `host eval`",
            );
        }
        let overlaps = |stage: &&Stage| matches!(stage, Stage::Rl(stage) if stage.max_staleness > 0);
        match stages.iter().find(overlaps).filter(|_| self.every > 0) {
            Some(stage) => {
                let problem = format!("episodes of stage `{}` are in flight during evaluations", stage.name());
                contradiction(problem, "set max_staleness = 0 in the stage, or evaluation.every = 0")
            }
            None => Ok(()),
        }
    }

    /// Whether an evaluation is due after this number of training steps of a stage.
    #[must_use]
    pub fn is_due(&self, steps: u64) -> bool {
        self.every > 0 && steps > 0 && steps.is_multiple_of(self.every)
    }
}

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
