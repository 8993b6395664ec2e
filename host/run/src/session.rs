//! A run in progress: runs its stages and records them, so that the run can be resumed and replayed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use gymkhana_config::{RunFile, Stage};
use gymkhana_record::Seed;
use gymkhana_rollout::Rollout;
use gymkhana_sandbox::{GuestThreads, Sandbox};
use gymkhana_store::{EpisodeStore, Metrics, MetricsExtent, RunFolder, Summary};
use gymkhana_trainer::StageModels;
use tokio::task::JoinSet;

use crate::agreement;
use crate::evaluate::points;
use crate::metrics::{Listener, ReadState, RunState};
use crate::resume::{begun_as, growth};
use crate::schedule::Durations;
use crate::seats::SeatPolicies;
use crate::stages::tally::FailureTally;
use crate::state::{self, Progress, SavedCheckpoint, State};
use crate::stop::{Halt, StopRequest, Stopped};
use gymkhana_orchestration::Reporter;
use gymkhana_orchestration::{Classify, RunResult};

/// The end of a run without an error.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// All stages are complete.
    Finished(Box<Finished>),
    /// A stop was requested; the run can be resumed.
    Stopped(Stopped),
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Success and cost of each stage.
    pub summary: Summary,
    /// Number of recorded episodes.
    pub episodes: usize,
    /// The run's folder.
    pub folder: PathBuf,
    /// Folder of the newest checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// Failures of the whole run, including those of episodes that a resumption played again.
    pub failures: FailureTally,
}

/// State of a run in progress.
pub(crate) struct Session {
    pub(crate) file: RunFile,
    pub(crate) reporter: Arc<dyn Reporter>,
    pub(crate) folder: RunFolder,
    pub(crate) rollout: Arc<Rollout>,
    pub(crate) seats: SeatPolicies,
    pub(crate) episodes: EpisodeStore,
    pub(crate) metrics: Metrics,
    pub(crate) seed: Seed,
    pub(crate) progress: Progress,
    /// The last checkpoint; absent before the first.
    pub(crate) checkpoint: Option<SavedCheckpoint>,
    /// Threads on which episodes run.
    pub(crate) guests: GuestThreads,
    /// Capacity for live plugin instances.
    pub(crate) places: u32,
    /// Durations of the last measurements.
    pub(crate) durations: Durations,
    /// Start time of this process, less the time of earlier ones.
    pub(crate) begun: Instant,
    /// Request to stop early.
    pub(crate) stop: StopRequest,
}

impl Session {
    pub(crate) fn new(
        file: RunFile,
        reporter: Arc<dyn Reporter>,
        folder: RunFolder,
        rollout: Rollout,
        seats: SeatPolicies,
        state: Option<State>,
        places: u32,
    ) -> RunResult<Self> {
        let mut episodes = folder.episodes()?;
        let mut metrics = folder.metrics()?;
        let state = match state {
            Some(state) => {
                let begun = begun_as(&folder).map_or_else(|| file.stages.clone(), |begun| begun.stages);
                agreement::episodes(&folder, &state, &begun, episodes.stored())?;
                Some(growth::continued(&folder, state, &file.stages)?)
            }
            None => None,
        };
        let (checkpoint, lines, progress) = match state {
            Some(state) => (Some(state.checkpoint), state.metrics, state.progress),
            None => (None, MetricsExtent::default(), Progress::default()),
        };
        // A run that died while writing or removing a checkpoint has left parts of it.
        let checkpoints = folder.reader().checkpoints_path();
        let newest = checkpoint.as_ref().map(|saved| saved.name);
        state::remove_checkpoints(&checkpoints, progress.stage, newest, &progress.kept(&file.checkpoints))?;
        progress.rewind(&mut episodes, &mut metrics, &lines)?;
        growth::store(&folder, &file)?;
        let begun = progress.begun_before(Instant::now());
        let seed = Seed(file.seed);
        let rollout = Arc::new(rollout);
        let moved_away = checkpoint.is_some() && metrics.extent() != lines;
        let mut session = Self {
            file,
            reporter,
            folder,
            rollout,
            seats,
            episodes,
            metrics,
            seed,
            progress,
            checkpoint,
            guests: GuestThreads::start().internal()?,
            places,
            durations: Durations::default(),
            begun,
            stop: StopRequest::default(),
        };
        if moved_away {
            // The user moved the metrics away, so that the state must not expect their lines.
            session.write_state()?;
        }
        Ok(session)
    }

    /// Runs the remaining stages, or until a stop is requested.
    pub(crate) async fn run(&mut self) -> RunResult<Outcome> {
        if let Some(last) = self.file.stages.last().filter(|_| self.progress.stage == self.file.stages.len()) {
            let (out, name) = (self.folder.reader().path().display(), last.name());
            self.reporter.status(&format!(
                "the run in `{out}` is finished\nhint: continue it with more steps, such as `host run --resume {out} \
                 --set stages.{name}.steps={}`",
                last.steps().saturating_mul(2)
            ));
        }
        match self.stages().await {
            Ok(()) => self.finish().map(|finished| Outcome::Finished(Box::new(finished))),
            Err(Halt::Stopped) => self.save_stopped().await.map(Outcome::Stopped),
            Err(Halt::Failed(error)) => Err(error),
        }
    }

    async fn stages(&mut self) -> Result<(), Halt> {
        let stages = self.file.stages.clone();
        self.progress.finished.iter().for_each(|stage| self.reporter.stage_finished(stage));
        while let Some(stage) = stages.get(self.progress.stage) {
            self.check_stop()?;
            self.stage(stage).await?;
        }
        Ok(())
    }

    /// Serves the metrics until the returned set is dropped.
    pub(crate) fn serve_metrics(&self, listener: Listener, sandbox: Sandbox) -> JoinSet<()> {
        self.reporter.status(&format!("serving metrics at {}", listener.url()));
        let (rollout, seats) = (Arc::clone(self.rollout.metrics()), self.seats.clone());
        let state: ReadState = Arc::new(move || RunState {
            rollout: Arc::clone(&rollout),
            sandbox: sandbox.counters(),
            idle: seats.idle(),
        });
        let mut served = JoinSet::new();
        served.spawn(listener.serve(state));
        served
    }

    async fn stage(&mut self, stage: &Stage) -> Result<(), Halt> {
        if self.progress.current.is_none() {
            // The stage before has evaluated the same weights on the same tasks.
            let before = match self.progress.finished.last() {
                Some(last) => points::Success { greedy: last.success_after, sampled: last.success_after_sampled },
                None => self.evaluate(points::EvalPoint::Before).await?,
            };
            let keeps = match stage {
                Stage::Sft(_) => StageModels::default(),
                Stage::Rl(stage) => StageModels {
                    teacher: stage.teacher.clone(),
                    ..stage.settings().user_error()?.algorithm.stage_models()
                },
            };
            for model in self.seats.trained() {
                model.trainer.begin_stage(keeps.clone()).await.internal()?;
            }
            self.progress.begin(stage.name(), before);
            self.checkpoint().await?;
        }
        match stage {
            Stage::Sft(stage) => self.sft(stage).await?,
            Stage::Rl(stage) => self.rl(stage).await?,
        }
        let after = self.evaluate(points::EvalPoint::After).await?;
        let summary = self.progress.finish(after, self.begun.elapsed());
        self.reporter.stage_finished(&summary);
        self.episodes.commit()?;
        Ok(self.write_state()?)
    }

    fn finish(&mut self) -> RunResult<Finished> {
        let last = self.progress.finished.last();
        let summary = Summary {
            schema: gymkhana_store::SUMMARY_SCHEMA,
            success: last.and_then(|stage| stage.success_after),
            success_sampled: last.and_then(|stage| stage.success_after_sampled),
            stages: self.progress.finished.clone(),
            seconds: self.begun.elapsed().as_secs_f64(),
        };
        self.folder.write_summary(&summary)?;
        let (episodes, folder) = (self.episodes.stored().len(), self.folder.reader().path().to_owned());
        let checkpoints = self.folder.reader().checkpoints_path();
        let checkpoint = self.checkpoint.as_ref().map(|saved| checkpoints.join(saved.name.to_string()));
        let failures = self.progress.tally.clone();
        Ok(Finished { summary, episodes, folder, checkpoint, failures })
    }

    /// Parent of all episode seeds, which depend on the episode's name alone.
    pub(crate) fn episode_seeds(&self) -> Seed {
        self.seed.child("episode")
    }
}
