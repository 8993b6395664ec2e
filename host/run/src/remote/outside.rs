//! A trainer around an engine outside of this process: versions, steps on threads that wait, checkpoints.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gymkhana_engine::Engine;
use gymkhana_learner::{Batch, Learner, demonstration_sequences, imitated_sequences, sft_step};
use gymkhana_orchestration::{Classify, OnHost, RunError, RunResult};
use gymkhana_policy::{Policy, ServerFailure};
use gymkhana_record::step_metrics::rl;
use gymkhana_record::{Seed, StepMetrics};
use gymkhana_trainer::{
    ModelDescription, ModelFiles, RlData, RlSettings, SftSettings, StageModels, TrainerError, Weighted,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::checkpoint::RemoteCheckpoint;
use super::{RemoteTrainer, Running};

/// An engine outside of this process, and what a run asks of it besides its steps.
pub(super) trait OutsideEngine:
    Engine<Error: std::error::Error + Send + Sync + 'static> + Send + Sync + 'static
{
    /// Name of its file in checkpoints.
    const FILE: &'static str;
    /// What a checkpoint holds of it.
    type State: Serialize + DeserializeOwned + Send;
    /// Samples with its weights.
    type Policy: Policy + 'static;

    /// Begins a stage, with the current weights as the reference policy if it has one.
    fn begin(&mut self, reference: bool) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Samples with the current weights from now on, as this version.
    fn publish(&mut self, policy: &Self::Policy, version: u32) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Failure of the policy's last request.
    fn gave_up(policy: &Self::Policy) -> Option<ServerFailure>;

    /// Writes what belongs into the folder of a checkpoint of this name. Blocks the thread.
    fn save(&mut self, folder: &Path, name: &str) -> Result<Self::State, Self::Error>;

    /// Writes the weights for an inference server. Blocks the thread.
    fn export(&mut self, folder: &Path) -> Result<(), Self::Error>;
}

/// What the trainer knows of the model at its start.
pub(super) struct Known {
    pub description: ModelDescription,
    pub parameter_count: u64,
    pub vocabulary: usize,
    pub seed: Seed,
}

/// The run's policy, sampled from and trained by an engine outside of this process.
pub(super) struct Outside<E: OutsideEngine> {
    known: Known,
    policy: OnHost<E::Policy>,
    /// Position of the checkpoint that was opened.
    position: Option<serde_json::Value>,
    /// Number of weight updates so far.
    weight_version: AtomicU32,
    stage: Arc<Mutex<OutsideStage<E>>>,
}

/// The engine, and what the stage needs of earlier steps.
struct OutsideStage<E> {
    engine: E,
    learner: Learner,
}

/// Opens the description and the own file of a checkpoint, or the description of the run's first model.
pub(super) fn opened<E: OutsideEngine>(
    first: &Path,
    left_off: Option<&Path>,
) -> RunResult<(ModelDescription, Option<RemoteCheckpoint<E::State>>)> {
    let Some(path) = left_off else {
        let unfit = format!(
            "policy.checkpoint: `{}` cannot be used\nhint: name the folder of the model that is trained",
            first.display()
        );
        return Ok((ModelDescription::read(first).user_context(unfit)?, None));
    };
    let damaged =
        || format!("`{}` cannot be used\nhint: restore it, or start a new run in another --out", path.display());
    let saved = RemoteCheckpoint::read(path, E::FILE).user_context(damaged())?;
    Ok((ModelDescription::read(path).user_context(damaged())?, Some(saved)))
}

impl<E: OutsideEngine> Outside<E> {
    /// A trainer that goes on from a checkpoint, if there is one.
    pub fn new(known: Known, engine: E, policy: E::Policy, saved: Option<RemoteCheckpoint<E::State>>) -> Self {
        let (mut learner, mut version, mut position) = (Learner::default(), 0, None);
        if let Some(saved) = saved {
            (learner, version, position) = (saved.learner(), saved.weight_version, Some(saved.position));
        }
        Self {
            known,
            policy: OnHost::new(Arc::new(policy)),
            position,
            weight_version: AtomicU32::new(version),
            stage: Arc::new(Mutex::new(OutsideStage { engine, learner })),
        }
    }

    /// Runs a function on a thread that may wait for the engine.
    async fn compute<T: Send + 'static, F: std::error::Error + Send + Sync + 'static>(
        &self,
        step: impl FnOnce(&mut OutsideStage<E>) -> Result<T, F> + Send + 'static,
    ) -> RunResult<T> {
        let mut stage = Arc::clone(&self.stage).lock_owned().await;
        let found = tokio::task::spawn_blocking(move || step(&mut stage)).await.internal()?;
        found.user_error()
    }

    fn version(&self) -> u32 {
        self.weight_version.load(Ordering::Acquire)
    }
}

/// Failure of a checkpoint: the folder, or the engine.
#[derive(Debug, thiserror::Error)]
enum SaveError<E: std::error::Error + 'static> {
    #[error(transparent)]
    Folder(#[from] TrainerError),
    #[error(transparent)]
    Engine(E),
}

impl<E: OutsideEngine> RemoteTrainer for Outside<E> {
    fn files(&self) -> &ModelFiles {
        &self.known.description.files
    }

    fn parameter_count(&self) -> u64 {
        self.known.parameter_count
    }

    fn vocabulary(&self) -> usize {
        self.known.vocabulary
    }

    fn position(&self) -> Option<&serde_json::Value> {
        self.position.as_ref()
    }

    fn policy(&self) -> &dyn Policy {
        &self.policy
    }

    fn gave_up(&self) -> Option<ServerFailure> {
        E::gave_up(self.policy.client())
    }

    fn weight_version(&self) -> u32 {
        self.version()
    }

    fn begin_stage<'a>(&'a self, models: &'a StageModels) -> Running<'a, ()> {
        Box::pin(async move {
            if models.critic || models.teacher.is_some() {
                return Err(RunError::internal("the engine of [trainer] has no critic and no teacher"));
            }
            let mut stage = self.stage.lock().await;
            stage.learner = Learner::default();
            stage.engine.begin(models.reference).await.user_error()
        })
    }

    fn update_policy(&self) -> Running<'_, ()> {
        Box::pin(async move {
            let mut stage = self.stage.lock().await;
            stage.engine.publish(self.policy.client(), self.version()).await.user_error()
        })
    }

    fn sft_step<'a>(
        &'a self,
        demonstrations: &'a [Weighted<'a>],
        settings: &'a SftSettings,
    ) -> Running<'a, StepMetrics> {
        Box::pin(async move {
            let sequences = demonstration_sequences(demonstrations, settings).internal()?;
            let settings = settings.clone();
            let step = move |stage: &mut OutsideStage<E>| sft_step(&mut stage.engine, &sequences, &settings);
            let metrics = self.compute(step).await?;
            self.weight_version.fetch_add(1, Ordering::AcqRel);
            Ok(metrics)
        })
    }

    fn rl_step<'a>(&'a self, data: RlData<'a>, settings: &'a RlSettings) -> Running<'a, StepMetrics> {
        Box::pin(async move {
            let demonstrations = match data.demonstrations {
                [] => vec![],
                all => imitated_sequences(all).internal()?,
            };
            let batch = (Batch::of(&data, settings), demonstrations);
            let (settings, seed, version) = (settings.clone(), self.known.seed, self.version());
            let step = move |stage: &mut OutsideStage<E>| {
                stage.learner.rl_step(&mut stage.engine, batch, &settings, seed, version)
            };
            let metrics = self.compute(step).await?;
            let updates = metrics.get(rl::UPDATES.name()).map_or(0, |updates| updates as u32);
            self.weight_version.fetch_add(updates, Ordering::AcqRel);
            Ok(metrics)
        })
    }

    fn save<'a>(&'a self, folder: &'a Path, position: &'a serde_json::Value) -> Running<'a, ()> {
        Box::pin(async move {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (version, position) = (self.version(), position.clone());
            let (description, owned) = (self.known.description.clone(), folder.to_owned());
            let saved = self.compute(move |stage| {
                description.write::<SaveError<E::Error>>(&owned, |partial| {
                    let own = stage.engine.save(partial, &name).map_err(SaveError::Engine)?;
                    let checkpoint = RemoteCheckpoint::of(own, &stage.learner, version, &position);
                    let path = partial.join(E::FILE);
                    let failed = TrainerError::file("write", &path);
                    let text = serde_json::to_vec_pretty(&checkpoint).map_err(std::io::Error::other);
                    Ok(text.and_then(|text| std::fs::write(&path, text)).map_err(failed)?)
                })
            });
            saved.await.map_err(|error| {
                let error = error.prefixed(format!("the checkpoint `{}` cannot be written", folder.display()));
                if error.hint().is_some() { error } else { error.with_hint("free space, then use --resume") }
            })
        })
    }

    fn export<'a>(&'a self, folder: &'a Path) -> Running<'a, ()> {
        let (description, owned) = (self.known.description.untied(), folder.to_owned());
        Box::pin(self.compute(move |stage| {
            description.write(&owned, |partial| stage.engine.export(partial).map_err(SaveError::Engine))
        }))
    }
}
