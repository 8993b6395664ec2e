//! `[sampler]`: which training tasks a step plays, in which order, how often and how long.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::check_range;
use crate::error::RunFileError;

/// Sampler of training tasks. `shuffled` is the default. Evaluations and demonstrations do not use it, except for the
/// order of `sequential` and `weighted`.
///
/// All kinds from `difficulty` on remember what earlier attempts at a task showed. What a step of training showed
/// counts from the next step that is started; checkpoints hold the memory, so that a resumed run chooses as an
/// uninterrupted one does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SamplerSection {
    /// The order of the split, again and again.
    Sequential {},
    /// The whole split in another order in each pass; an infinite split in its order.
    Shuffled {},
    /// Independent draws, each task with a probability in proportion to its weight.
    Weighted(WeightedTasks),
    /// The order of `shuffled` without tasks that are too easy or too hard at present (ARPO for GUI agents, RAPO).
    Difficulty(DifficultyTasks),
    /// The order of `shuffled` with fewer and shorter attempts at tasks that are mostly solved (DART).
    Adaptive(AdaptiveTasks),
    /// Tasks and numbers of attempts with the largest expected number of groups that hold both outcomes: the sum of
    /// `1 - p^n - (1-p)^n` over the groups of a step (the criterion of TRACE).
    MixedOutcome(MixedOutcomeTasks),
    /// Draws that prefer tasks whose success changes, or tasks that mostly fail.
    Prioritized(PrioritizedTasks),
    /// Phases one after another, each with its tasks and its turn limit (AgentGym-RL's ScalingInter-RL).
    Staged(StagedTasks),
}

impl Default for SamplerSection {
    fn default() -> Self {
        Self::Shuffled {}
    }
}

/// Weights of tasks from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedTasks {
    /// File with a record for each task, in the order of the split: JSON lines (`.jsonl`), or rows of `host data import`
    /// (`.rows`), of which the split of the training tasks is read.
    #[schemars(extend("x-range" = "a file"))]
    pub file: PathBuf,
    /// Column of the weights, which are finite and at least 0.
    #[serde(default = "weight")]
    pub column: String,
}

fn weight() -> String {
    "weight".to_owned()
}

/// Bounds of a task's success rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DifficultyTasks {
    /// Tasks that are considered: the first ones of the split. An infinite split requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("x-default" = "all tasks of the split"))]
    pub tasks: Option<u64>,
    /// Number of a task's last attempts that count. A task with fewer attempts is within the bounds.
    #[schemars(range(min = 1, max = 1024))]
    pub attempts: u32,
    /// Success rate below which a task rests.
    #[schemars(range(min = 0, max = 1))]
    pub min: f64,
    /// Success rate above which a task rests.
    #[schemars(range(min = 0, max = 1))]
    pub max: f64,
    /// Training steps after which a resting task is played again; 0 to let it rest for good. If too few other tasks are
    /// left, those that have rested longest return early.
    pub readmit: u64,
}

impl Default for DifficultyTasks {
    fn default() -> Self {
        Self { tasks: None, attempts: 8, min: 0.0, max: 0.95, readmit: 20 }
    }
}

/// Number and length of the attempts by success.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveTasks {
    /// Tasks that are considered: the first ones of the split. An infinite split requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("x-default" = "all tasks of the split"))]
    pub tasks: Option<u64>,
    /// Number of a task's last attempts that count. A task with fewer attempts is played `group_size` times.
    #[schemars(range(min = 1, max = 1024))]
    pub attempts: u32,
    /// Attempts at a task that is always solved. Between the success rates `from` and 1 the number falls along a line
    /// from `group_size`, rounded up.
    #[schemars(range(min = 2, max = 65_536), extend("x-range" = "2 to `group_size`"))]
    pub fewest: u32,
    /// Success rate up to which a task is played `group_size` times.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub from: f64,
    /// Turn limit of a task that has been solved, as a multiple of the turns of its longest solved attempt, rounded up;
    /// 0 for no limit of its own.
    #[schemars(range(min = 0, max = 100), extend("x-range" = "0, or 1 to 100"))]
    pub turns: f64,
}

impl Default for AdaptiveTasks {
    fn default() -> Self {
        Self { tasks: None, attempts: 8, fewest: 2, from: 0.5, turns: 1.5 }
    }
}

/// Budget of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MixedOutcomeTasks {
    /// Tasks that are considered: the first ones of the split. An infinite split requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("x-default" = "all tasks of the split"))]
    pub tasks: Option<u64>,
    /// Number of a task's last attempts that count. The predicted success rate is `(solved + 2 s) / (attempts + 2)`,
    /// where `s` is the success rate of all tasks, in the same way with 0.5 for `s`.
    #[schemars(range(min = 1, max = 1024))]
    pub attempts: u32,
    /// Tasks that are compared for each group of a step: the next ones in the order of `shuffled`.
    #[schemars(range(min = 1, max = 1000))]
    pub candidates: u32,
    /// Most attempts at a task, as a multiple of `group_size`. A step has `group_size` attempts per group on average,
    /// and at least 2 at each task.
    #[schemars(range(min = 1, max = 16))]
    pub most: u32,
}

impl Default for MixedOutcomeTasks {
    fn default() -> Self {
        Self { tasks: None, attempts: 16, candidates: 4, most: 2 }
    }
}

/// Preference for some tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrioritizedTasks {
    /// Tasks that are considered: the first ones of the split. An infinite split requires it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("x-default" = "all tasks of the split"))]
    pub tasks: Option<u64>,
    /// What raises a task's priority.
    pub by: Priority,
    /// Number of a task's last attempts that count.
    #[serde(default = "prioritized_attempts")]
    #[schemars(range(min = 1, max = 1024))]
    pub attempts: u32,
    /// Share of draws that every task gets alike.
    #[serde(default = "even")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub even: f64,
}

fn prioritized_attempts() -> u32 {
    16
}

fn even() -> f64 {
    0.2
}

/// Measure of a task's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Difference between the success rates of the newer and the older half of the attempts.
    Progress,
    /// Share of failed attempts: what seldom succeeds is tried more often (the idea of SkillMimic-V2's adaptive
    /// sampling, for tasks).
    Failure,
}

/// Phases of a curriculum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StagedTasks {
    /// Phases, in order. Each but the last has `steps`, `success` or both; the last has neither.
    #[schemars(length(min = 2, max = 1000))]
    pub phases: Vec<SamplerPhase>,
}

/// Phase of a curriculum.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SamplerPhase {
    /// Split of the phase's tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a split", "x-default" = "`environment.train`"))]
    pub split: Option<String>,
    /// Tasks of the phase: the first ones of the split.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("x-default" = "all tasks of the split"))]
    pub tasks: Option<u64>,
    /// Turns per seat, at most `limits.turns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000), extend("x-default" = "`limits.turns`"))]
    pub turns: Option<u32>,
    /// Training steps with tasks of the environment after which the phase ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub steps: Option<u64>,
    /// Mean success over the last five such steps of the phase at which it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub success: Option<f64>,
}

impl SamplerSection {
    /// Name of the kind in run files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sequential {} => "sequential",
            Self::Shuffled {} => "shuffled",
            Self::Weighted(_) => "weighted",
            Self::Difficulty(_) => "difficulty",
            Self::Adaptive(_) => "adaptive",
            Self::MixedOutcome(_) => "mixed-outcome",
            Self::Prioritized(_) => "prioritized",
            Self::Staged(_) => "staged",
        }
    }

    /// Largest number of attempts at a task in groups of this size on average.
    #[must_use]
    pub fn most_attempts(&self, group_size: u32) -> u32 {
        match self {
            Self::MixedOutcome(own) => group_size.saturating_mul(own.most),
            _ => group_size,
        }
    }

    /// Whether tasks differ in their number of attempts.
    #[must_use]
    pub fn varies_attempts(&self) -> bool {
        matches!(self, Self::Adaptive(_) | Self::MixedOutcome(_))
    }

    /// Rejects values out of range; `section` is the section's name in the file.
    pub(crate) fn check(&self, section: &str) -> Result<(), RunFileError> {
        match self {
            Self::Difficulty(own) => {
                check_range(&format!("{section}.min"), own.min, 0.0..=own.max, "a number from 0 to `max`")
            }
            Self::Adaptive(own) => {
                let turns = if own.turns == 0.0 { 1.0 } else { own.turns };
                check_range(&format!("{section}.turns"), turns, 1.0..=100.0, "0, or a number from 1 to 100")
            }
            Self::Staged(own) => own.check(section),
            Self::Sequential {} | Self::Shuffled {} | Self::Weighted(_) => Ok(()),
            Self::MixedOutcome(_) | Self::Prioritized(_) => Ok(()),
        }
    }

    /// Rejects settings that contradict a stage with groups of this size; `plain` tells whether all attempts of its
    /// groups begin at the start.
    pub(crate) fn check_stage(
        &self,
        section: &str,
        stage: &str,
        group_size: u32,
        plain: bool,
    ) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        if self.varies_attempts() && !plain {
            return contradiction(format!(
                "stage `{stage}`: its plan excludes {section}.kind = \"{}\", which changes the number of attempts at a \
                 task\nhint: remove the plan, or choose another sampler",
                self.kind()
            ));
        }
        match self {
            Self::Adaptive(own) if own.fewest > group_size => contradiction(format!(
                "{section}.fewest is {}, above group_size = {group_size} of stage `{stage}`\nhint: lower it to \
                 {group_size}",
                own.fewest
            )),
            Self::MixedOutcome(_) if group_size < 2 => contradiction(format!(
                "{section}.kind = \"mixed-outcome\" needs groups, but group_size of stage `{stage}` is {group_size}\n\
                 hint: raise group_size to 2 or more"
            )),
            _ => Ok(()),
        }
    }
}

impl StagedTasks {
    fn check(&self, section: &str) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        let Some((last, before)) = self.phases.split_last().filter(|(_, before)| !before.is_empty()) else {
            return contradiction(format!("{section}.phases has fewer than two phases\nhint: add phases"));
        };
        let has_end = |phase: &SamplerPhase| phase.steps.is_some() || phase.success.is_some();
        if let Some(endless) = before.iter().position(|phase| !has_end(phase)) {
            return contradiction(format!(
                "{section}.phases.{endless} never ends, so that the phases after it are never played\nhint: set its \
                 `steps` or `success`"
            ));
        }
        if has_end(last) {
            return contradiction(format!(
                "{section}.phases.{} is the last phase and cannot end\nhint: remove its `steps` and `success`",
                before.len()
            ));
        }
        Ok(())
    }
}
