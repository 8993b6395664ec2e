//! Handle of the thread that owns the model, the caches and the optimiser.
//!
//! libtorch's tensors may move between threads but not be shared, and on a few cores generation and training take the
//! same time in sequence as in parallel. One thread therefore does both: it handles messages, and between them
//! generates the next token of every running conversation. A training step runs between two such tokens.

mod thread;
mod worker;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gymkhana_learner::{Batch, RlData, Weighted, check_segment, demonstration_sequences, imitated_sequences, sft_step};
use gymkhana_policy::{Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest};
use gymkhana_record::step_metrics::{rl, sft};
use gymkhana_record::{EpisodeRecord, Sampled, Segment, StepMetrics};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::engine::WaitingRequest;
use crate::model::Model;
use crate::stage::{Embedded, Stage};
use crate::storage::checkpoint::{self, OpenedCheckpoint, Snapshot};

use crate::{
    Footprint, ModelConfig, ModelFiles, RlSettings, SettingError, SftSettings, StageModels, TinyModel, TrainerError,
    TrainerSettings, device, tiny,
};
use thread::OwnerThread;
use worker::{HandleView, ModelThread, TrainerMessage};

/// A model in training: generates as a [`Policy`], and learns. Clones of the handle share the model. Dropping the last
/// handle waits until the thread has ended.
#[derive(Clone)]
pub struct Trainer {
    thread: OwnerThread<TrainerMessage>,
    shared: HandleView,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("config", &self.shared.config)
            .field("context", &self.shared.context)
            .finish_non_exhaustive()
    }
}

impl Trainer {
    /// Creates a tiny model with random weights, drawn from the settings' seed.
    ///
    /// # Errors
    /// If a size or a setting is out of range, or the model does not fit into memory.
    pub fn create(tiny: &TinyModel, settings: &TrainerSettings) -> Result<Self, TrainerError> {
        settings.check()?;
        let config = tiny::config(tiny)?;
        let files = tiny::files(tiny);
        Self::start(settings, |settings| {
            let model = Model::of(config, settings, device::open(settings.device)?)?;
            model.randomise(settings.seed.child("weights"))?;
            let stage = Stage::new(&model, StageModels::default(), None)?;
            Ok(OpenedCheckpoint { model, stage, files, weight_version: 0, position: None })
        })
    }

    /// Opens a checkpoint with its training state, or a plain Hugging Face folder with a model of a supported
    /// [family](crate::Family).
    ///
    /// # Errors
    /// If the folder is incomplete or was written by another version, the model is not supported, or a setting is out
    /// of range.
    pub fn open(folder: &Path, settings: &TrainerSettings) -> Result<Self, TrainerError> {
        settings.check()?;
        let folder = folder.to_owned();
        Self::start(settings, move |settings| checkpoint::open(&folder, settings, device::open(settings.device)?))
    }

    /// Starts the thread and waits until it has opened the model.
    fn start(
        settings: &TrainerSettings,
        open: impl FnOnce(&TrainerSettings) -> Result<OpenedCheckpoint, TrainerError> + Send + 'static,
    ) -> Result<Self, TrainerError> {
        let (opened, answer) = std::sync::mpsc::sync_channel(1);
        let (queue, settings) = (settings.queue, settings.clone());
        let body = move |receiver, gone: &_| worker::run(open, settings, &opened, receiver, gone);
        let thread = OwnerThread::start("torch", queue, body)
            .map_err(|error| TrainerError::Gone(format!("it could not be started: {error}")))?;
        let panicked = |_| TrainerError::Gone("it panicked while it opened the model".to_owned());
        let shared = answer.recv().map_err(panicked)??;
        Ok(Self { thread, shared })
    }

    /// Position passed to [`Trainer::save`]; `None` unless opened from a checkpoint.
    #[must_use]
    pub fn position(&self) -> Option<&serde_json::Value> {
        self.shared.position.as_ref().as_ref()
    }

    /// Tokenizer and chat template.
    #[must_use]
    pub fn files(&self) -> &ModelFiles {
        &self.shared.files
    }

    /// The model's config.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.shared.config
    }

    /// Number of the model's weights, without those of adapters.
    #[must_use]
    pub fn parameter_count(&self) -> u64 {
        self.shared.config.parameter_count()
    }

    /// What a user should know of the model's `config.json`.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.shared.config.warnings()
    }

    /// Memory of the model without training state and activations.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.shared.footprint
    }

    /// Number of weight updates so far.
    #[must_use]
    pub fn weight_version(&self) -> u32 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// Total idle time of the thread, up to the last message.
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_nanos(self.shared.idle.load(Ordering::Relaxed))
    }

    /// Starts a stage: resets the optimiser and prepares the models that the stage needs in addition to the policy.
    ///
    /// # Errors
    /// If there is not enough memory, or the thread is gone.
    pub async fn begin_stage(&self, models: StageModels) -> Result<(), TrainerError> {
        self.run(move |worker| {
            worker.use_average(false)?;
            let teacher = checkpoint::open_teacher(&models, &worker.settings, worker.model.device())?;
            worker.stage = Stage::new(&worker.model, models, teacher)?;
            Ok(())
        })
        .await
    }

    /// One supervised optimiser step on the sampled tokens of demonstrations.
    ///
    /// Reports the values of [`gymkhana_record::step_metrics::sft::TRAINER`].
    ///
    /// # Errors
    /// If a setting or a demonstration cannot be used, or too many steps in a row had a gradient that is not finite.
    pub async fn sft_step(
        &self,
        demonstrations: &[Segment],
        settings: &SftSettings,
    ) -> Result<StepMetrics, TrainerError> {
        self.sft_step_on(&Weighted::equally(demonstrations), settings).await
    }

    /// As [`Trainer::sft_step`], with a weight for each demonstration.
    ///
    /// # Errors
    /// As [`Trainer::sft_step`].
    pub async fn sft_step_on(
        &self,
        demonstrations: &[Weighted<'_>],
        settings: &SftSettings,
    ) -> Result<StepMetrics, TrainerError> {
        settings.check()?;
        for (index, demonstration) in demonstrations.iter().enumerate() {
            self.check_segment(demonstration.segment, || format!("demonstration {index}"))?;
        }
        let sequences = demonstration_sequences(demonstrations, settings)?;
        let settings = settings.clone();
        self.run(move |worker| {
            worker.use_average(false)?;
            let mut engine = Embedded { model: &mut worker.model, models: &mut worker.stage.models };
            let metrics = sft_step(&mut engine, &sequences, &settings)?;
            if metrics.get(sft::SKIPPED_UPDATES.name()) == Some(0.0) {
                worker.publish_weights();
            }
            Ok(metrics)
        })
        .await
    }

    /// Trains on groups of episodes with the algorithm's flags. Dropped episodes and seats outside the settings are
    /// excluded.
    ///
    /// Reports the values of [`rl::TRAINER`]. If all advantages are 0, `updates` is 0 and the weights do not change.
    ///
    /// # Errors
    /// If a setting or an episode cannot be used, or too many optimiser steps in a row had a gradient that is not finite.
    pub async fn rl_step(
        &self,
        groups: &[Vec<EpisodeRecord>],
        settings: &RlSettings,
    ) -> Result<StepMetrics, TrainerError> {
        self.rl_step_on(groups.into(), settings).await
    }

    /// As [`Trainer::rl_step`], with demonstrations and the replies that a limit cut.
    ///
    /// # Errors
    /// As [`Trainer::rl_step`].
    pub async fn rl_step_on(&self, data: RlData<'_>, settings: &RlSettings) -> Result<StepMetrics, TrainerError> {
        settings.check()?;
        for episode in data.groups.iter().flatten() {
            for segment in episode.segments.iter().filter(|segment| settings.learns(segment.seat())) {
                self.check_segment(segment, || format!("episode {}", episode.id))?;
            }
        }
        for (index, segment) in data.demonstrations.iter().enumerate() {
            self.check_segment(segment, || format!("demonstration {index}"))?;
        }
        let demonstrations = match data.demonstrations {
            [] => Vec::new(),
            all => imitated_sequences(all)?,
        };
        let batch = Batch::of(&data, settings);
        let settings = settings.clone();
        self.run(move |worker| {
            worker.use_average(false)?;
            let (needs, models) = (settings.algorithm.stage_models(), worker.stage.models.kinds());
            let taught = !settings.algorithm.wants_teacher() || models.teacher.is_some();
            let referred = (models.reference || !needs.reference) && (models.follows || !needs.follows);
            if !referred || (needs.critic && !models.critic) || !taught {
                return Err(SettingError::Range {
                    key: "algorithm",
                    value: "one with a reference, a critic or a teacher".to_owned(),
                    expected: "one for which the stage began",
                }
                .into());
            }
            let (seed, version) = (worker.settings.seed, worker.shared.version.load(Ordering::Acquire));
            let Stage { learner, models } = &mut worker.stage;
            let mut engine = Embedded { model: &mut worker.model, models };
            let metrics = learner.rl_step(&mut engine, (batch, demonstrations), &settings, seed, version)?;
            if metrics.get(rl::UPDATES.name()).is_some_and(|updates| updates > 0.0) {
                worker.publish_weights();
            }
            Ok(metrics)
        })
        .await
    }

    /// Generates and scores with the moving average of the weights from now on if `average`, and with the weights
    /// themselves otherwise. Without an average, nothing changes. Training steps and checkpoints use the weights.
    ///
    /// # Errors
    /// If the thread is gone.
    pub async fn use_average(&self, average: bool) -> Result<(), TrainerError> {
        self.run(move |worker| worker.use_average(average)).await
    }

    /// Writes a checkpoint to a new folder, atomically. [`Trainer::position`] returns `position` after opening it.
    ///
    /// # Errors
    /// If the folder exists or cannot be written.
    pub async fn save(&self, folder: &Path, position: &serde_json::Value) -> Result<(), TrainerError> {
        let (folder, position) = (folder.to_owned(), position.clone());
        self.run(move |worker| {
            worker.use_average(false)?;
            let snapshot = Snapshot {
                model: &worker.model,
                stage: &worker.stage,
                files: &worker.shared.files,
                weight_version: worker.shared.version.load(Ordering::Acquire),
                position: &position,
            };
            checkpoint::save(&folder, &snapshot)
        })
        .await
    }

    /// Writes only the model to a new Hugging Face folder, for an inference server. The output layer is written as a
    /// layer of its own (`lm_head.weight`), also if the model shares it with the embedding.
    ///
    /// # Errors
    /// If the folder exists or cannot be written.
    pub async fn export(&self, folder: &Path) -> Result<(), TrainerError> {
        let folder = folder.to_owned();
        self.run(move |worker| checkpoint::export(&folder, &worker.model, &worker.shared.files)).await
    }

    fn check_segment(&self, segment: &Segment, what: impl FnOnce() -> String) -> Result<(), TrainerError> {
        Ok(check_segment(segment, self.shared.config.vocab_size, self.shared.context, what)?)
    }

    /// Runs a job on the thread, between two tokens.
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut ModelThread) -> Result<T, TrainerError> + Send + 'static,
    ) -> Result<T, TrainerError> {
        let message = |reply: oneshot::Sender<_>| {
            TrainerMessage::Run(Box::new(move |worker| {
                // The requester may have disconnected; this is not an error.
                let _ = reply.send(job(worker));
            }))
        };
        self.thread.ask(message).await.ok_or_else(|| self.gone())?
    }

    fn gone(&self) -> TrainerError {
        TrainerError::Gone(self.thread.reason())
    }

    fn check_tokens(&self, tokens: &[u32], most: usize) -> Result<(), PolicyError> {
        let vocabulary = self.shared.config.vocab_size as usize;
        if tokens.is_empty() || tokens.len() > most {
            return Err(PolicyError::ContextFull { tokens: tokens.len(), context: self.shared.context });
        }
        match tokens.iter().find(|token| **token as usize >= vocabulary) {
            Some(token) => Err(PolicyError::UnknownToken { token: *token, vocabulary }),
            None => Ok(()),
        }
    }

    /// Waits for a permit of the queue, sends a message and waits for its answer.
    async fn ask<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, PolicyError>>, OwnedSemaphorePermit) -> TrainerMessage,
    ) -> Result<T, PolicyError> {
        self.thread.ask_in_turn(message).await.ok_or_else(|| PolicyError::from(self.gone()))?
    }
}

impl Policy for Trainer {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        Box::pin(async move {
            // At least one token must be left for the reply.
            self.check_tokens(&request.tokens, self.shared.context - 1)?;
            self.ask(|reply, permit| TrainerMessage::Generate(WaitingRequest { request, reply, _permit: permit })).await
        })
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async move {
            if request.prefix.is_empty() || request.continuation.is_empty() {
                return Err(PolicyError::CannotScore);
            }
            let tokens = [&request.prefix[..], &request.continuation[..]].concat();
            self.check_tokens(&tokens, self.shared.context)?;
            self.ask(|reply, permit| TrainerMessage::Score { request, reply, permit }).await
        })
    }

    fn can_score(&self) -> bool {
        true
    }

    fn release(&self, conversation: Conversation) {
        self.thread.tell(TrainerMessage::Release(conversation));
    }

    fn context(&self) -> usize {
        self.shared.context
    }
}
