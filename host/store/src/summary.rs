//! `summary.json`: the results of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Schema number of the summary.
pub const SUMMARY_SCHEMA: u32 = 1;

/// Results of a run. Success is the share of solved evaluation tasks, from 0 to 1; `None` if the run does not measure
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSummary {
    /// [`SUMMARY_SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Stages in the order of the run file.
    pub stages: Vec<StageSummary>,
    /// Success with greedy decoding after the last stage.
    pub success: Option<f64>,
    /// Success with sampling after the last stage, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_sampled: Option<f64>,
    /// Wall time of the whole run in seconds, summed over all resumptions.
    pub seconds: f64,
}

/// Results of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSummary {
    /// Name of the stage in the run file.
    pub name: String,
    /// Success with greedy decoding before the stage.
    pub success_before: Option<f64>,
    /// Success with greedy decoding after the stage.
    pub success_after: Option<f64>,
    /// Success with sampling before the stage, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_before_sampled: Option<f64>,
    /// Success with sampling after the stage, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_after_sampled: Option<f64>,
    /// Success of each environment, in a run with several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, EnvironmentSummary>,
    /// Evaluations between training steps, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<StepEvaluation>,
    /// Number of training steps after which the stage stopped, if it stopped early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_after: Option<u64>,
    /// Number of training steps that changed no weights.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_steps: u64,
    /// Number of episodes trained on.
    pub episodes: u64,
    /// Number of tokens trained on.
    pub tokens: u64,
    /// Wall time in seconds, summed over all resumptions.
    pub seconds: f64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Success of one environment before and after a stage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentSummary {
    /// Success before the stage.
    pub before: EnvironmentSuccess,
    /// Success after the stage.
    pub after: EnvironmentSuccess,
}

/// Success of one environment on held-out tasks, from 0 to 1; `None` if not measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentSuccess {
    /// Success with greedy decoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greedy: Option<f64>,
    /// Success with sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<f64>,
}

/// Success on held-out tasks between two training steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepEvaluation {
    /// Number of training steps before it.
    pub step: u64,
    /// Success with greedy decoding.
    pub success: f64,
    /// Success with sampling, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_sampled: Option<f64>,
    /// Mean reward with greedy decoding; absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// Value of `evaluation.metric`, if that is not `success`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<f64>,
    /// Success of each environment, in a run with several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, EnvironmentSuccess>,
}

impl StepEvaluation {
    /// Value by which evaluations are compared; higher is better.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.metric.unwrap_or(self.success)
    }
}

/// The best of some evaluations by the run's metric, the first of equal ones; `None` of none.
#[must_use]
pub fn best_evaluation(evaluations: &[StepEvaluation]) -> Option<&StepEvaluation> {
    evaluations.iter().reduce(|best, next| if next.score() > best.score() { next } else { best })
}
