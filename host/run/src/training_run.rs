//! A run in progress: its models, files and position, and what it saves so that it can be resumed and replayed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gymkhana_config::RunFile;
use gymkhana_health::{Health, HealthSettings};
use gymkhana_record::Seed;
use gymkhana_registry::Digest;
use gymkhana_rollout::RolloutMetrics;
use gymkhana_sandbox::{GuestThreads, Sandbox};
use gymkhana_store::{EpisodeStore, Metrics, MetricsExtent, RunFolder};
use gymkhana_trainer::CHECKSUMS_FILE;
use tokio::task::JoinSet;

use crate::agreement;
use crate::checkpoint_name::CheckpointName;
use crate::metrics::{MetricsListener, ReadState, RunState};
use crate::resume::{begun_as, growth};
use crate::schedule::{Durations, StagePart};
use crate::seats::SeatPolicies;
use crate::sources::Sources;
use crate::stages::watch::{CallWatch, CutWatch, HealthWatch};
use crate::state::{SavedCheckpoint, TrainingProgress, TrainingState, remove_checkpoints};
use crate::stop::{Halt, StopRequest, Stopped};
use gymkhana_orchestration::environments::Environments;
use gymkhana_orchestration::remote::RemotePlayers;
use gymkhana_orchestration::{Classify, Later, Reporter, RunError, RunResult};

/// State of a run in progress.
pub(crate) struct TrainingRun {
    pub(crate) file: RunFile,
    pub(crate) reporter: Arc<dyn Reporter>,
    pub(crate) folder: RunFolder,
    pub(crate) environments: Environments,
    pub(crate) seats: SeatPolicies,
    pub(crate) episodes: EpisodeStore,
    pub(crate) metrics: Metrics,
    pub(crate) seed: Seed,
    pub(crate) progress: TrainingProgress,
    /// The last checkpoint; absent before the first.
    pub(crate) checkpoint: Option<SavedCheckpoint>,
    /// Threads on which episodes run.
    pub(crate) guests: GuestThreads,
    /// Capacity for live plugin instances.
    pub(crate) places: u32,
    /// Durations of the last measurements.
    pub(crate) durations: Durations,
    /// Number of held-out tasks of the last measurement.
    pub(crate) held_out: u64,
    /// Watch over cut replies.
    pub(crate) cuts: CutWatch,
    pub(crate) call_watch: CallWatch,
    /// Watch over the figures of `host show --health`.
    pub(crate) health: HealthWatch,
    /// Start time of this process, less the time of earlier ones.
    pub(crate) begun: Instant,
    /// Request to stop early.
    pub(crate) stop: StopRequest,
    /// Demonstrations that were read for stages to come.
    pub(crate) sources: Sources,
    /// Processes that play the episodes instead of this one.
    pub(crate) remote: Option<Arc<dyn RemotePlayers>>,
}

impl TrainingRun {
    pub(crate) fn new(
        file: RunFile,
        reporter: Arc<dyn Reporter>,
        folder: RunFolder,
        environments: Environments,
        seats: SeatPolicies,
        state: Option<TrainingState>,
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
            None => (None, MetricsExtent::default(), TrainingProgress::default()),
        };
        // A run that died while writing or removing a checkpoint has left parts of it.
        let checkpoints = folder.reader().checkpoints_path();
        let newest = checkpoint.as_ref().map(|saved| saved.name);
        remove_checkpoints(&checkpoints, progress.stage, newest, &progress.kept(&file.checkpoints))?;
        progress.rewind(&mut episodes, &mut metrics, &lines)?;
        growth::store(&folder, &file)?;
        let begun = progress.begun_before(Instant::now());
        let health = Health::new(HealthSettings::parse(&folder.reader().run_text()?).internal()?);
        let seed = Seed(file.seed);
        let moved_away = checkpoint.is_some() && metrics.extent() != lines;
        let mut session = Self {
            file,
            reporter,
            folder,
            environments,
            seats,
            episodes,
            metrics,
            seed,
            progress,
            checkpoint,
            guests: GuestThreads::start().internal()?,
            places,
            durations: Durations::default(),
            held_out: 0,
            cuts: CutWatch::default(),
            call_watch: CallWatch::default(),
            health: HealthWatch::new(health),
            begun,
            stop: StopRequest::default(),
            sources: Sources::default(),
            remote: None,
        };
        if moved_away {
            // The user moved the metrics away, so that the state must not expect their lines.
            session.write_state()?;
        }
        Ok(session)
    }

    /// Serves the metrics until the returned set is dropped.
    pub(crate) fn serve_metrics(&self, listener: MetricsListener, sandbox: Sandbox) -> JoinSet<()> {
        self.reporter.status(&format!("serving metrics at {}", listener.url()));
        let (rollout, seats) = (Arc::clone(self.metrics_of_rollouts()), self.seats.clone());
        let state: ReadState = Arc::new(move || RunState {
            rollout: Arc::clone(&rollout),
            sandbox: sandbox.counters(),
            idle: seats.idle(),
        });
        let mut served = JoinSet::new();
        served.spawn(listener.serve(state));
        served
    }

    /// Metrics of the episodes of all environments.
    pub(crate) fn metrics_of_rollouts(&self) -> &Arc<RolloutMetrics> {
        self.environments.first().rollout.metrics()
    }

    /// Parent of all episode seeds, which depend on the episode's name alone.
    pub(crate) fn episode_seeds(&self) -> Seed {
        self.seed.child("episode")
    }

    /// Number of training steps that the stage has taken.
    pub(crate) fn steps_done(&self) -> u64 {
        self.progress.steps_done()
    }

    /// Expected time of the run after this part of the current stage.
    pub(crate) fn later(&self, part: StagePart) -> Later {
        self.durations.after(part, &self.file, &self.progress)
    }

    /// Adds a training step to the counters.
    pub(crate) fn count_step(&mut self, episodes: usize, tokens: usize) {
        if let Some(current) = &mut self.progress.current {
            current.step += 1;
            current.episodes += episodes as u64;
            current.tokens += tokens as u64;
        }
    }

    /// Saves the weights, writes the state, then removes those older checkpoints of the stage that the run file does not
    /// keep.
    pub(crate) async fn checkpoint(&mut self) -> RunResult<()> {
        let name = CheckpointName { stage: self.progress.stage, step: self.steps_done() };
        let folder = self.folder.reader().checkpoints_path();
        let mut models = BTreeMap::new();
        for model in self.seats.trained() {
            let part = model.checkpoint(&name.to_string());
            let path = folder.join(&part);
            if path.exists() {
                // A run that died between the checkpoint and its state gets here again.
                std::fs::remove_dir_all(&path).internal()?;
            }
            model.trainer.save(&path, &name.position()).await?;
            models.insert(part, Digest::of(&std::fs::read(path.join(CHECKSUMS_FILE)).internal()?));
        }
        self.episodes.commit()?;
        self.checkpoint = Some(SavedCheckpoint { name, models });
        self.write_state()?;
        remove_checkpoints(&folder, name.stage, Some(name), &self.progress.kept(&self.file.checkpoints))
    }

    /// Saves the position, with a checkpoint if the last one is that of another position.
    pub(crate) async fn save(&mut self) -> RunResult<()> {
        let here = CheckpointName { stage: self.progress.stage, step: self.steps_done() };
        if self.checkpoint.as_ref().is_none_or(|saved| saved.name != here) {
            return self.checkpoint().await;
        }
        self.episodes.commit()?;
        self.write_state()
    }

    /// Writes the position; its weights are those of the last checkpoint.
    pub(crate) fn write_state(&mut self) -> RunResult<()> {
        self.progress.seconds = self.begun.elapsed().as_secs_f64();
        let checkpoint = self.checkpoint.clone().ok_or_else(|| RunError::internal("no checkpoint was written yet"))?;
        let (metrics, frozen) = (self.metrics.extent(), self.seats.frozen.clone());
        Ok(self.folder.write_state(&TrainingState { checkpoint, metrics, frozen, progress: self.progress.clone() })?)
    }

    /// Halts if a stop was requested.
    pub(crate) fn check_stop(&self) -> Result<(), Halt> {
        if self.stop.is_requested() { Err(Halt::Stopped) } else { Ok(()) }
    }

    /// Stores what a resumed run continues from. Before the first checkpoint this is nothing: the first evaluation is
    /// repeated.
    pub(crate) async fn save_stopped(&mut self) -> RunResult<Stopped> {
        self.episodes.commit()?;
        let (stage, step) = (self.progress.stage, self.steps_done());
        if self.progress.current.is_some() {
            self.save().await?;
        } else if self.checkpoint.is_some() {
            self.write_state()?;
        }
        let at = self.file.stages.get(stage).ok_or_else(|| RunError::internal("a run stopped after its last stage"))?;
        let folder = self.folder.reader().path().to_owned();
        Ok(Stopped { stage: at.name().to_owned(), step, steps: at.steps(), folder })
    }
}
