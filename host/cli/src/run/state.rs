//! Where a run is, so that it can be taken up where it was.

use std::path::Path;
use std::time::{Duration, Instant};

use gymkhana_episode::Phase;
use gymkhana_store::{EpisodeStore, Metrics, StageSummary};
use serde::{Deserialize, Serialize};

use super::Session;
use super::batch::Failures;
use super::evaluate::Success;
use crate::error::{Blame, CliResult};

/// What `state.json` holds. It is written last, when the checkpoint that it names is whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The folder of the weights below `checkpoints`; none while they are those that the run began with.
    pub checkpoint: Option<String>,
    /// How far the run is.
    pub progress: Progress,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// The stage at which it is.
    pub stage: usize,
    /// That stage's steps so far, once it has begun.
    pub current: Option<Current>,
    /// What came of the stages before.
    pub finished: Vec<StageSummary>,
    /// Wall time so far, in seconds.
    /// Failures of this stage so far.
    pub failures: Failures,
    pub seconds: f64,
}

/// A stage that has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Current {
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
    /// It has reached what it was to reach, before its last step.
    pub reached: bool,
}

impl Progress {
    /// Forgets what was recorded after this point: it will be played again.
    pub fn rewind(&self, episodes: &mut EpisodeStore, metrics: &mut Metrics) -> CliResult<()> {
        let stage = self.stage as u32;
        let step = self.current.as_ref().map(|current| current.step);
        episodes.discard(|id| {
            let again = match (id.phase, step) {
                (_, None) => true,
                (Phase::Before | Phase::BeforeSampled, Some(_)) => false,
                (Phase::Demonstration | Phase::Probe | Phase::Train, Some(step)) => id.step >= step,
                (Phase::After | Phase::AfterSampled, Some(_)) => true,
            };
            id.stage > stage || (id.stage == stage && again)
        })?;
        Ok(metrics.rewind_before(stage, step.unwrap_or(0))?)
    }

    /// When the run would have begun, had it never been stopped.
    pub fn begun_before(&self, now: Instant) -> Instant {
        now.checked_sub(Duration::from_secs_f64(self.seconds)).unwrap_or(now)
    }

    /// Begins the stage.
    pub fn begin(&mut self, name: &str, before: Success) {
        let begun = self.finished.iter().map(|stage| stage.seconds).sum();
        self.current =
            Some(Current { name: name.to_owned(), step: 0, before, episodes: 0, tokens: 0, begun, reached: false });
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
        self.finished.push(summary.clone());
        self.stage += 1;
        summary
    }
}

impl Session<'_> {
    /// Counts what a training step was trained on.
    pub(super) fn count_step(&mut self, episodes: usize, tokens: usize) {
        if let Some(current) = &mut self.progress.current {
            current.step += 1;
            current.episodes += episodes as u64;
            current.tokens += tokens as u64;
        }
    }

    /// Saves the weights, then says so, then forgets the stage's older checkpoints.
    pub(super) async fn checkpoint(&mut self) -> CliResult<()> {
        let step = self.steps_done();
        let stage = self.progress.stage;
        let name = format!("{stage}-{step:06}");
        let folder = self.folder.reader().checkpoints_path();
        let path = folder.join(&name);
        if path.exists() {
            // A run that died between the checkpoint and its mention comes here again.
            std::fs::remove_dir_all(&path).ours()?;
        }
        self.failures = Failures::default();
        let position = serde_json::json!({ "stage": stage, "step": step });
        let full = format!("cannot write the checkpoint `{}`; free space and run again with --resume", path.display());
        self.trainer.save(&path, &position).await.users_as(full)?;
        self.episodes.commit()?;
        self.checkpoint = Some(name.clone());
        self.write_state()?;
        forget_checkpoints(&folder, stage, Some(&name))
    }

    /// Writes where the run is; its weights are those of the last checkpoint.
    pub(super) fn write_state(&mut self) -> CliResult<()> {
        self.progress.seconds = self.begun.elapsed().as_secs_f64();
        Ok(self.folder.write_state(&State { checkpoint: self.checkpoint.clone(), progress: self.progress.clone() })?)
    }
}

/// Removes what the stage has in the folder of checkpoints but for the one to keep, and what was never finished.
pub(super) fn forget_checkpoints(folder: &Path, stage: usize, keep: Option<&str>) -> CliResult<()> {
    for entry in std::fs::read_dir(folder).ours()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // A checkpoint that is being written has a dot before its name.
        let of_stage = name.trim_start_matches('.').starts_with(&format!("{stage}-"));
        if of_stage && Some(name.as_str()) != keep {
            std::fs::remove_dir_all(entry.path()).ours()?;
        }
    }
    Ok(())
}
