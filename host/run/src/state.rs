//! Position of a run, saved so that the run can be resumed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use gymkhana_record::Phase;
use gymkhana_registry::Digest;
use gymkhana_store::{
    EnvironmentSuccess, EnvironmentSummary, EpisodeStore, Metrics, MetricsExtent, StageSummary, StepEvaluation,
    best_evaluation,
};
use serde::{Deserialize, Serialize};

use crate::checkpoint_name::CheckpointName;
use crate::seats::checkpoint_of;
use crate::seats::frozen::Frozen;
use crate::stages::tally::{FailureTally, Failures};
use gymkhana_config::{CheckpointsSection, Stage};
use gymkhana_orchestration::sampler::SamplerState;
use gymkhana_orchestration::{Classify, RunResult};

/// Content of `state.json`, written last, after the checkpoint that it names is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainingState {
    /// Checkpoint with the current weights.
    pub checkpoint: SavedCheckpoint,
    /// Lines of `metrics.jsonl` of the steps taken.
    pub metrics: MetricsExtent,
    /// Digests of frozen models.
    #[serde(default, skip_serializing_if = "Frozen::is_empty")]
    pub frozen: Frozen,
    /// Position of the run.
    pub progress: TrainingProgress,
}

/// A complete checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedCheckpoint {
    /// Position of the run when it was written.
    pub name: CheckpointName,
    /// Digest of each model's list of checksums, by the model's folder below `checkpoints`.
    pub models: BTreeMap<String, Digest>,
}

/// Position of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainingProgress {
    /// Index of the current stage.
    pub stage: usize,
    /// Progress of the current stage, once it has started.
    pub current: Option<Current>,
    /// Results of finished stages.
    pub finished: Vec<StageSummary>,
    /// Failures of the current stage, without those of dropped environments.
    pub failures: Failures,
    /// Environments by name, in a run with several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, EnvironmentProgress>,
    /// Samplers of training tasks.
    #[serde(default, skip_serializing_if = "SamplerState::is_empty")]
    pub sampler: SamplerState,
    /// Failures of the whole run, including those of episodes that a resumption played again.
    #[serde(default, skip_serializing_if = "FailureTally::is_empty")]
    pub tally: FailureTally,
    /// Wall-clock time so far, in seconds.
    pub seconds: f64,
}

/// Progress of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnvironmentProgress {
    /// Failures of the current stage.
    pub failures: Failures,
    /// Point at which the environment was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DropPoint>,
}

/// Point from which on an environment is not played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DropPoint {
    /// Index of the stage.
    pub stage: usize,
    /// Position in the order of training tasks of the stage.
    pub position: u64,
}

/// Success rates on held-out tasks, 0 to 1; absent if not measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Success {
    /// Greedy decoding.
    pub greedy: Option<f64>,
    /// Sampled decoding at temperature 1.
    pub sampled: Option<f64>,
    /// Success rates of each environment, in a run with several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, EnvironmentSuccess>,
}

impl Success {
    /// The success rates after a stage.
    pub fn after(stage: &StageSummary) -> Self {
        let environments = stage.environments.iter().map(|(name, own)| (name.clone(), own.after)).collect();
        Self { greedy: stage.success_after, sampled: stage.success_after_sampled, environments }
    }

    /// The success rates before a stage.
    fn before(stage: &StageSummary) -> Self {
        let environments = stage.environments.iter().map(|(name, own)| (name.clone(), own.before)).collect();
        Self { greedy: stage.success_before, sampled: stage.success_before_sampled, environments }
    }
}

/// A started stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Current {
    /// Name of the stage.
    pub name: String,
    /// Number of training steps taken.
    pub step: u64,
    /// Success rates before the stage.
    pub before: Success,
    /// Evaluations between training steps, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<StepEvaluation>,
    /// Whether the stage takes no further training step, because its evaluations have stopped to improve.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped_early: bool,
    /// Number of training steps that changed no weights.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_steps: u64,
    /// Number of episodes trained on.
    pub episodes: u64,
    /// Number of tokens trained on.
    pub tokens: u64,
    /// Wall-clock time of the run when the stage started, in seconds.
    pub begun: f64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TrainingState {
    /// Checks that the position fits these stages; the error describes the mismatch.
    pub fn check(&self, stages: &[Stage]) -> Result<(), String> {
        let TrainingProgress { stage, current, finished, seconds, .. } = &self.progress;
        let Some((before, rest)) = stages.split_at_checked(*stage) else {
            return Err(format!("it is at stage {stage} of {}", stages.len()));
        };
        if !finished.iter().map(|summary| summary.name.as_str()).eq(before.iter().map(Stage::name)) {
            return Err(format!("its finished stages differ from those before stage {stage}"));
        }
        if let Some(current) = current {
            let Some(stage) = rest.first().filter(|stage| stage.name() == current.name) else {
                return Err(format!("stage {stage} is not called `{}`", current.name));
            };
            if current.step > stage.steps() {
                return Err(format!("it is at step {} of {}", current.step, stage.steps()));
            }
            let ascending = current.evaluations.is_sorted_by(|one, next| one.step < next.step);
            if !ascending || current.evaluations.last().is_some_and(|last| last.step > current.step) {
                return Err(format!("its evaluations do not fit step {}", current.step));
            }
        }
        let Some(position) = self.progress.position(stages) else {
            return Err("it is before the first checkpoint".to_owned());
        };
        if self.checkpoint.name != position {
            return Err(format!("its checkpoint is `{}`, but its position is `{position}`", self.checkpoint.name));
        }
        let times = [Some(*seconds), current.as_ref().map(|current| current.begun)];
        match times.into_iter().flatten().find(|time| Duration::try_from_secs_f64(*time).is_err()) {
            Some(time) => Err(format!("{time} is not a time in seconds")),
            None => Ok(()),
        }
    }
}

impl Current {
    /// Whether the stage's training is over.
    pub fn is_over(&self, stage: &Stage) -> bool {
        self.stopped_early || self.step >= stage.steps()
    }

    /// Whether this many evaluations in a row were not better than all before; never for a `patience` of 0.
    fn has_stopped_improving(&self, patience: u64) -> bool {
        let Some(best) = best_evaluation(&self.evaluations) else { return false };
        let since = self.evaluations.iter().filter(|evaluation| evaluation.step > best.step).count() as u64;
        patience > 0 && since >= patience
    }
}

impl TrainingProgress {
    /// Number of training steps that the current stage has taken.
    pub fn steps_done(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.step)
    }

    /// Position of the last checkpoint of a run that is here; `None` before the first.
    fn position(&self, stages: &[Stage]) -> Option<CheckpointName> {
        match &self.current {
            Some(current) => Some(CheckpointName { stage: self.stage, step: current.step }),
            None => {
                let stage = self.stage.checked_sub(1)?;
                Some(CheckpointName { stage, step: self.steps_taken(stage, stages)? })
            }
        }
    }

    /// Number of training steps that a finished stage has taken.
    pub fn steps_taken(&self, stage: usize, stages: &[Stage]) -> Option<u64> {
        let stopped = self.finished.get(stage).and_then(|summary| summary.stopped_after);
        stopped.or_else(|| stages.get(stage).map(Stage::steps))
    }

    /// Adds an evaluation between training steps. Returns whether it is the best of the stage.
    pub fn evaluated(&mut self, evaluation: StepEvaluation, patience: u64) -> bool {
        let Some(current) = &mut self.current else { return false };
        let step = evaluation.step;
        current.evaluations.push(evaluation);
        current.stopped_early = current.has_stopped_improving(patience);
        best_evaluation(&current.evaluations).is_some_and(|best| best.step == step)
    }

    /// Earlier checkpoints of the current stage that stay.
    pub fn kept(&self, section: &CheckpointsSection) -> KeptCheckpoints {
        let evaluations = self.current.as_ref().map_or(&[][..], |current| &current.evaluations);
        let best = best_evaluation(evaluations).filter(|_| section.best).map(|best| best.step);
        KeptCheckpoints { last: section.last, best }
    }

    /// Discards records after this position; they will be played again. `lines` are the metrics before it.
    pub fn rewind(&self, episodes: &mut EpisodeStore, metrics: &mut Metrics, lines: &MetricsExtent) -> RunResult<()> {
        let stage = self.stage as u32;
        let current = self.current.as_ref();
        episodes.discard(|id| {
            let again = match (id.phase, current) {
                (_, None) => true,
                (Phase::Before | Phase::BeforeSampled | Phase::Served, Some(_)) => false,
                (Phase::Demonstration | Phase::Train, Some(current)) => id.step >= current.step,
                (Phase::During | Phase::DuringSampled, Some(current)) => {
                    current.evaluations.iter().all(|evaluation| evaluation.step != id.step)
                }
                (Phase::After | Phase::AfterSampled, Some(_)) => true,
            };
            id.stage > stage || (id.stage == stage && again)
        })?;
        Ok(metrics.rewind(stage, lines)?)
    }

    /// Start time of the run, as if it had never been interrupted.
    pub fn begun_before(&self, now: Instant) -> Instant {
        Duration::try_from_secs_f64(self.seconds).ok().and_then(|since| now.checked_sub(since)).unwrap_or(now)
    }

    /// Starts a stage.
    pub fn begin(&mut self, name: &str, before: Success) {
        // A stage that stopped early has left steps that it had begun.
        self.sampler.drawn.clear();
        let begun = self.finished.iter().map(|stage| stage.seconds).sum();
        self.current = Some(Current {
            name: name.to_owned(),
            step: 0,
            before,
            evaluations: vec![],
            stopped_early: false,
            idle_steps: 0,
            episodes: 0,
            tokens: 0,
            begun,
        });
    }

    /// Whether a stage is finished and a later one has begun.
    pub fn has_passed(&self, stage: usize) -> bool {
        stage + 1 < self.stage || (stage + 1 == self.stage && self.current.is_some())
    }

    /// Continues the last finished stage, which has taken `step` steps, or fewer if it stopped early.
    pub fn reopen(&mut self, step: u64) {
        let Some(last) = self.finished.pop() else { return };
        self.stage -= 1;
        let step = last.stopped_after.unwrap_or(step);
        self.begin(&last.name, Success::before(&last));
        if let Some(current) = &mut self.current {
            (current.step, current.episodes, current.tokens) = (step, last.episodes, last.tokens);
            (current.evaluations, current.idle_steps) = (last.evaluations, last.idle_steps);
        }
    }

    /// Ends the stage and advances to the next.
    pub fn finish(&mut self, after: &Success, elapsed: Duration) -> StageSummary {
        let current = self.current.take();
        let measured = current.as_ref().map(|current| (current.before.clone(), current.begun));
        let (before, begun) = measured.unwrap_or_else(|| (after.clone(), 0.0));
        let summary = StageSummary {
            name: current.as_ref().map(|current| current.name.clone()).unwrap_or_default(),
            success_before: before.greedy,
            success_after: after.greedy,
            success_before_sampled: before.sampled,
            success_after_sampled: after.sampled,
            environments: by_environment(&before, after),
            evaluations: current.as_ref().map(|current| current.evaluations.clone()).unwrap_or_default(),
            stopped_after: current.as_ref().filter(|current| current.stopped_early).map(|current| current.step),
            idle_steps: current.as_ref().map_or(0, |current| current.idle_steps),
            episodes: current.as_ref().map_or(0, |current| current.episodes),
            tokens: current.as_ref().map_or(0, |current| current.tokens),
            seconds: elapsed.as_secs_f64() - begun,
        };
        self.failures = Failures::default();
        self.environments.values_mut().for_each(|environment| environment.failures = Failures::default());
        self.finished.push(summary.clone());
        self.stage += 1;
        summary
    }
}

/// Success of each environment before and after a stage.
fn by_environment(before: &Success, after: &Success) -> BTreeMap<String, EnvironmentSummary> {
    let names = before.environments.keys().chain(after.environments.keys());
    let of = |measured: &Success, name: &String| measured.environments.get(name).copied().unwrap_or_default();
    names.map(|name| (name.clone(), EnvironmentSummary { before: of(before, name), after: of(after, name) })).collect()
}

/// Names in the checkpoint folder. An incomplete checkpoint starts with a dot.
pub(crate) fn checkpoints(folder: &Path) -> RunResult<Vec<String>> {
    let entries = std::fs::read_dir(folder).internal()?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// Checkpoints of a stage that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptCheckpoints {
    /// Number of the newest ones.
    pub last: usize,
    /// Number of training steps before the one with the best evaluation.
    pub best: Option<u64>,
}

/// Removes checkpoints of the stage: incomplete ones, those after `newest`, and older ones that are not `kept`.
pub(crate) fn remove_checkpoints(
    folder: &Path,
    stage: usize,
    newest: Option<CheckpointName>,
    kept: &KeptCheckpoints,
) -> RunResult<()> {
    let of_stage = |name: &String| name.trim_start_matches('.').starts_with(&format!("{stage}-"));
    let names: Vec<String> = checkpoints(folder)?.into_iter().filter(of_stage).collect();
    let position = |name: &String| checkpoint_of(name).map(|name| name.step);
    let reached = newest.filter(|newest| newest.stage == stage).map(|newest| newest.step);
    let mut steps: Vec<u64> = names.iter().filter_map(position).filter(|step| Some(*step) <= reached).collect();
    steps.sort_unstable();
    steps.dedup();
    let staying: Vec<u64> =
        steps.iter().rev().take(kept.last).copied().chain(kept.best.filter(|_| reached.is_some())).collect();
    for name in &names {
        if !position(name).is_some_and(|step| staying.contains(&step)) {
            std::fs::remove_dir_all(folder.join(name)).internal()?;
        }
    }
    Ok(())
}
