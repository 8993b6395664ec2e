//! Where a run is, so that it can be taken up where it was.

use std::path::Path;
use std::time::{Duration, Instant};

use gymkhana_record::Phase;
use gymkhana_store::{EpisodeStore, Metrics, StageSummary};
use serde::{Deserialize, Serialize};

use crate::error::{Classify, RunResult};
use crate::evaluate::held_out::Success;
use crate::seats::frozen::Frozen;
use crate::seats::is_part_of;
use crate::session::Session;
use crate::stages::batch::Failures;
use gymkhana_config::Stage;

/// What `state.json` holds. It is written last, when the checkpoint that it names is whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The folder of the weights below `checkpoints`; none while they are those that the run began with.
    pub checkpoint: Option<String>,
    /// What frozen seats play with.
    #[serde(default, skip_serializing_if = "Frozen::is_empty")]
    pub frozen: Frozen,
    /// How far the run is.
    pub progress: Progress,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The stage at which it is.
    pub stage: usize,
    /// That stage's steps so far, once it has begun.
    pub current: Option<Current>,
    /// What came of the stages before.
    pub finished: Vec<StageSummary>,
    /// Failures of this stage so far.
    pub failures: Failures,
    /// Wall time so far, in seconds.
    pub seconds: f64,
}

/// A stage that has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Current {
    /// Its name.
    pub name: String,
    /// How many training steps it has taken.
    pub step: u64,
    /// Success before it.
    pub before: Success,
    /// What it trained on so far.
    pub episodes: u64,
    /// Tokens that it trained on so far.
    pub tokens: u64,
    /// The run's seconds when it began.
    pub begun: f64,
}

impl State {
    /// Whether this is a place in a run of these stages; else, what is wrong with it.
    pub fn check(&self, stages: &[Stage]) -> Result<(), String> {
        let Progress { stage, current, finished, seconds, .. } = &self.progress;
        let Some((before, rest)) = stages.split_at_checked(*stage) else {
            return Err(format!("it is at stage {stage}, and the run has {}", stages.len()));
        };
        if !finished.iter().map(|summary| summary.name.as_str()).eq(before.iter().map(Stage::name)) {
            return Err(format!("it is at stage {stage}, but the stages that it has finished are others"));
        }
        if let Some(current) = current {
            let Some(stage) = rest.first().filter(|stage| stage.name() == current.name) else {
                return Err(format!("stage {stage} is not called `{}`", current.name));
            };
            if current.step > stage.steps() {
                return Err(format!("it is at step {} of {}", current.step, stage.steps()));
            }
        }
        let times = [Some(*seconds), current.as_ref().map(|current| current.begun)];
        match times.into_iter().flatten().find(|time| Duration::try_from_secs_f64(*time).is_err()) {
            Some(time) => Err(format!("{time} is no time in seconds")),
            None => Ok(()),
        }
    }
}

impl Progress {
    /// Forgets what was recorded after this point: it will be played again.
    pub fn rewind(&self, episodes: &mut EpisodeStore, metrics: &mut Metrics) -> RunResult<()> {
        let stage = self.stage as u32;
        let step = self.current.as_ref().map(|current| current.step);
        episodes.discard(|id| {
            let again = match (id.phase, step) {
                (_, None) => true,
                (Phase::Before | Phase::BeforeSampled, Some(_)) => false,
                (Phase::Demonstration | Phase::Train, Some(step)) => id.step >= step,
                (Phase::After | Phase::AfterSampled, Some(_)) => true,
            };
            id.stage > stage || (id.stage == stage && again)
        })?;
        Ok(metrics.rewind_before(stage, step.unwrap_or(0))?)
    }

    /// When the run would have begun, had it never been stopped.
    pub fn begun_before(&self, now: Instant) -> Instant {
        Duration::try_from_secs_f64(self.seconds).ok().and_then(|since| now.checked_sub(since)).unwrap_or(now)
    }

    /// Begins the stage.
    pub fn begin(&mut self, name: &str, before: Success) {
        let begun = self.finished.iter().map(|stage| stage.seconds).sum();
        self.current = Some(Current { name: name.to_owned(), step: 0, before, episodes: 0, tokens: 0, begun });
    }

    /// Ends the stage and goes to the next.
    pub fn finish(&mut self, after: Success, elapsed: Duration) -> StageSummary {
        let current = self.current.take();
        let (before, begun) = current.as_ref().map_or((after, 0.0), |current| (current.before, current.begun));
        let summary = StageSummary {
            name: current.as_ref().map(|current| current.name.clone()).unwrap_or_default(),
            success_before: before.greedy,
            success_after: after.greedy,
            success_before_sampled: before.sampled,
            success_after_sampled: after.sampled,
            episodes: current.as_ref().map_or(0, |current| current.episodes),
            tokens: current.as_ref().map_or(0, |current| current.tokens),
            seconds: elapsed.as_secs_f64() - begun,
        };
        self.failures = Failures::default();
        self.finished.push(summary.clone());
        self.stage += 1;
        summary
    }
}

impl Session {
    /// Counts what a training step was trained on.
    pub(crate) fn count_step(&mut self, episodes: usize, tokens: usize) {
        if let Some(current) = &mut self.progress.current {
            current.step += 1;
            current.episodes += episodes as u64;
            current.tokens += tokens as u64;
        }
    }

    /// Saves the weights, then says so, then forgets the stage's older checkpoints.
    pub(crate) async fn checkpoint(&mut self) -> RunResult<()> {
        let step = self.steps_done();
        let stage = self.progress.stage;
        let name = name(stage, step);
        let folder = self.folder.reader().checkpoints_path();
        let position = serde_json::json!({ "stage": stage, "step": step });
        for model in self.seats.trained() {
            let path = folder.join(model.checkpoint(&name));
            if path.exists() {
                // A run that died between the checkpoint and its mention comes here again.
                std::fs::remove_dir_all(&path).internal()?;
            }
            let full =
                format!("cannot write the checkpoint `{}`; free space and run again with --resume", path.display());
            model.trainer.save(&path, &position).await.user_context(full)?;
        }
        self.episodes.commit()?;
        self.checkpoint = Some(name.clone());
        self.write_state()?;
        forget_checkpoints(&folder, stage, Some(&name))
    }

    /// Writes where the run is; its weights are those of the last checkpoint.
    pub(crate) fn write_state(&mut self) -> RunResult<()> {
        self.progress.seconds = self.begun.elapsed().as_secs_f64();
        let (checkpoint, frozen) = (self.checkpoint.clone(), self.seats.frozen.clone());
        Ok(self.folder.write_state(&State { checkpoint, frozen, progress: self.progress.clone() })?)
    }
}

/// The name of a checkpoint's folder.
pub(crate) fn name(stage: usize, step: u64) -> String {
    format!("{stage}-{step:06}")
}

/// The names in the folder of checkpoints. One that is being written has a dot before its name.
pub(crate) fn checkpoints(folder: &Path) -> RunResult<Vec<String>> {
    let entries = std::fs::read_dir(folder).internal()?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// Removes what the stage has in the folder of checkpoints but for the one to keep, and what was never finished.
pub(crate) fn forget_checkpoints(folder: &Path, stage: usize, keep: Option<&str>) -> RunResult<()> {
    for name in checkpoints(folder)? {
        let of_stage = name.trim_start_matches('.').starts_with(&format!("{stage}-"));
        if of_stage && !keep.is_some_and(|keep| is_part_of(&name, keep)) {
            std::fs::remove_dir_all(folder.join(name)).internal()?;
        }
    }
    Ok(())
}
