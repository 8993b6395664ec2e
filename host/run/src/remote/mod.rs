//! Trainer on a Tinker server: this program plays and computes advantages, the server samples and computes gradients.

mod checkpoint;
mod measured;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gymkhana_config::{LossReduction, RunFile, TrainerSection};
use gymkhana_orchestration::grants::secret;
use gymkhana_orchestration::server::status_sink;
use gymkhana_orchestration::{Classify, OnHost, Reporter, RunError, RunResult};
use gymkhana_policy::{Policy, ServerFailure};
use gymkhana_record::step_metrics::{rl, sft};
use gymkhana_record::{Seed, StepMetrics};
use gymkhana_tinker::{
    Datum, LoraSettings, Loss, Reduction, TinkerClient, TinkerModel, TinkerPolicy, TinkerSettings, TrainedToken,
};
use gymkhana_trainer::{
    ModelDescription, ModelFiles, Optimizer, RemoteStageState, RlData, RlSettings, SftSettings, StageModels, Surrogate,
    TokenSequence, Weighted, demonstrated,
};
use tokio::sync::Mutex;

use crate::remote::checkpoint::{RemoteCheckpoint, RemoteProgress};
use crate::remote::measured::PassSums;

/// Sequences of one request.
const SEQUENCES: usize = 64;

/// The run's policy on a server that samples from it and trains it.
pub(crate) struct RemoteTrainer {
    description: ModelDescription,
    model: TinkerModel,
    policy: OnHost<TinkerPolicy>,
    seed: Seed,
    /// Position of the checkpoint that was opened.
    position: Option<serde_json::Value>,
    /// Number of weight updates so far.
    weight_version: AtomicU32,
    progress: Mutex<RemoteProgress>,
}

impl RemoteTrainer {
    /// Connects to the server and creates a model, or opens the one of a checkpoint in `left_off`. `first` is the folder of
    /// the run's model.
    pub(crate) async fn start(
        section: &TrainerSection,
        file: &RunFile,
        first: &Path,
        left_off: Option<&Path>,
        reporter: &Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let damaged = |path: &Path| {
            format!("`{}` cannot be used\nhint: restore it, or start a new run in another --out", path.display())
        };
        let saved = left_off.map(|path| RemoteCheckpoint::read(path).user_context(damaged(path))).transpose()?;
        let description = match left_off {
            Some(path) => ModelDescription::read(path).user_context(damaged(path))?,
            None => ModelDescription::read(first).user_context(format!(
                "policy.checkpoint: `{}` cannot be used\nhint: name the folder of the model that the server trains",
                first.display()
            ))?,
        };
        let key = section.key_env.as_ref().map(|env| secret(env, "trainer.key_env")).transpose()?;
        let (url, requests) = (section.url.clone(), section.request_policy());
        let settings = TinkerSettings { url, model: section.model.clone(), key, timeout: section.timeout(), requests };
        let client = Arc::new(TinkerClient::connect(settings, status_sink(reporter)).await.user_error()?);
        let seed = Seed(file.seed).child("trainer");
        let lora = LoraSettings { rank: section.rank, seed: (seed.child("adapter").0 >> 33) as u32 };
        let reduction = match section.reduction {
            LossReduction::Sum => Reduction::Sum,
            LossReduction::SequenceMean => Reduction::SequenceMean,
        };
        let model = match &saved {
            Some(saved) => TinkerModel::open(Arc::clone(&client), lora, reduction, &saved.path).await,
            None => TinkerModel::create(Arc::clone(&client), lora, reduction).await,
        };
        let positions = usize::try_from(description.config.positions()).unwrap_or(usize::MAX);
        let context = file.context_tokens().map_or(positions, |tokens| tokens.min(positions));
        let vocabulary = usize::try_from(description.config.vocab_size).unwrap_or(0);
        let policy = TinkerPolicy::new(client, section.requests, vocabulary, context);
        let (weight_version, progress, position) = saved.map_or_else(Default::default, RemoteCheckpoint::into_parts);
        Ok(Self {
            description,
            model: model.user_error()?,
            policy: OnHost::new(Arc::new(policy)),
            seed,
            position,
            weight_version: AtomicU32::new(weight_version),
            progress: Mutex::new(progress),
        })
    }

    /// Tokenizer and chat template.
    pub(crate) fn files(&self) -> &ModelFiles {
        &self.description.files
    }

    /// Number of the base model's weights.
    pub(crate) fn parameter_count(&self) -> u64 {
        self.description.config.parameter_count()
    }

    /// Position of the checkpoint that was opened.
    pub(crate) fn position(&self) -> Option<&serde_json::Value> {
        self.position.as_ref()
    }

    /// The policy.
    pub(crate) fn policy(&self) -> &dyn Policy {
        &self.policy
    }

    /// Failure of the last request for tokens; `None` while the server answers.
    pub(crate) fn gave_up(&self) -> Option<ServerFailure> {
        self.policy.client().gave_up()
    }

    /// Number of weight updates so far.
    pub(crate) fn weight_version(&self) -> u32 {
        self.weight_version.load(Ordering::Acquire)
    }

    /// Starts a stage. The server keeps its optimiser's state.
    pub(crate) async fn begin_stage(&self, models: &StageModels) -> RunResult<()> {
        if *models != StageModels::default() {
            return Err(RunError::internal("the server of [trainer] has no model besides the policy"));
        }
        let mut progress = self.progress.lock().await;
        (progress.optimizer_steps, progress.state) = (0, RemoteStageState::default());
        Ok(())
    }

    /// Samples with the current weights from now on.
    pub(crate) async fn update_policy(&self) -> RunResult<()> {
        let mut progress = self.progress.lock().await;
        let (version, policy) = (self.weight_version(), self.policy.client());
        // A new adapter changes nothing, so that the base model samples like it.
        if version == 0 || policy.has_weights(version).await {
            return Ok(());
        }
        progress.saved += 1;
        let name = format!("v{version:06}-{}", progress.saved);
        let path = self.model.save_for_sampling(&name).await.user_error()?;
        policy.load(path, version).await;
        Ok(())
    }

    /// One supervised optimiser step on the sampled tokens of demonstrations.
    pub(crate) async fn sft_step(
        &self,
        demonstrations: &[Weighted<'_>],
        settings: &SftSettings,
    ) -> RunResult<StepMetrics> {
        let sequences = demonstrated(demonstrations, settings).internal()?;
        let mut progress = self.progress.lock().await;
        let learning_rate = settings.optimizer.learning_rate_at(progress.optimizer_steps);
        let measured = self.step(&sequences, Loss::Supervised, 0, &settings.optimizer, &mut progress).await?;
        Ok(StepMetrics::from([
            (sft::LOSS, measured.loss),
            (sft::LOSS_SAMPLED, measured.loss_by_expert),
            (sft::SKIPPED_UPDATES, 0.0),
            (sft::LEARNING_RATE, learning_rate),
            (sft::TOKENS, measured.tokens),
        ]))
    }

    /// Trains on groups of episodes, one optimiser step for each minibatch with a gradient.
    pub(crate) async fn rl_step(&self, data: &RlData<'_>, settings: &RlSettings) -> RunResult<StepMetrics> {
        let loss = loss_of(settings)?;
        let mut progress = self.progress.lock().await;
        let version = self.weight_version();
        let made = progress.state.minibatches(data, settings, self.seed, version);
        let mut all = PassSums::default();
        for sequences in &made.minibatches {
            // Only the first pass has the weights that sampled.
            let compared = if all.updates == 0.0 { version } else { u32::MAX };
            all += self.step(sequences, loss, compared, &settings.optimizer, &mut progress).await?;
        }
        let learning_rate = settings.optimizer.learning_rate_at(progress.optimizer_steps.saturating_sub(1));
        let mut metrics = all.metrics();
        metrics.push(rl::LEARNING_RATE, learning_rate);
        metrics.append(made.metrics);
        Ok(metrics)
    }

    /// One optimiser step on sequences. Tokens of the version `compared` are compared with those that the policy sampled.
    async fn step(
        &self,
        sequences: &[TokenSequence],
        loss: Loss,
        compared: u32,
        optimizer: &Optimizer,
        progress: &mut RemoteProgress,
    ) -> RunResult<PassSums> {
        let mut measured = PassSums::default();
        for part in sequences.chunks(SEQUENCES) {
            let data: Vec<Datum> = part.iter().map(datum).collect();
            let passed = self.model.forward_backward(&data, loss).await.user_error()?;
            for (sequence, log_probs) in part.iter().zip(&passed.log_probs) {
                measured.add(sequence, log_probs, loss, compared);
            }
        }
        let learning_rate = optimizer.learning_rate_at(progress.optimizer_steps);
        self.model.optim_step(optimizer, learning_rate).await.user_error()?;
        progress.optimizer_steps += 1;
        self.weight_version.fetch_add(1, Ordering::AcqRel);
        measured.updates = 1.0;
        Ok(measured)
    }

    /// Saves the weights on the server, and the path of them in a new folder.
    pub(crate) async fn save(&self, folder: &Path, position: &serde_json::Value) -> RunResult<()> {
        let mut progress = self.progress.lock().await;
        progress.saved += 1;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = self.model.save(&format!("{name}-{}", progress.saved)).await.user_error()?;
        let text = RemoteCheckpoint::of(&progress, self.weight_version(), path, position).text()?;
        let full =
            format!("the checkpoint `{}` cannot be written\nhint: free space, then use --resume", folder.display());
        self.description.write(folder, (checkpoint::FILE, &text)).user_context(full)
    }
}

fn datum(sequence: &TokenSequence) -> Datum {
    let token = |target: &gymkhana_trainer::TokenTarget| TrainedToken {
        at: target.at,
        share: target.weight,
        advantage: target.advantage,
        log_prob: target.log_prob,
    };
    Datum { tokens: sequence.tokens.clone(), trained: sequence.targets.iter().map(token).collect() }
}

/// The loss of an algorithm. The run file's check refuses others.
fn loss_of(settings: &RlSettings) -> RunResult<Loss> {
    match settings.algorithm.surrogate {
        Surrogate::Clip { low, high, .. } => Ok(Loss::Clip { low, high }),
        Surrogate::Cispo { low, high } => Ok(Loss::Cispo { low, high }),
        Surrogate::Importance {} => Ok(Loss::Importance),
        Surrogate::Plain {}
        | Surrogate::Regression { .. }
        | Surrogate::Preference { .. }
        | Surrogate::UnpairedPreference { .. }
        | Surrogate::Distillation { .. } => Err(RunError::internal("the server of [trainer] has no such surrogate")),
    }
}
