//! Trainer on a Tinker server: this program plays and computes losses, the server samples and computes gradients.

mod checkpoint;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gymkhana_config::{LossReduction, RunFile, TrainerSection};
use gymkhana_learner::{Batch, Learner, demonstration_sequences, imitated_sequences, sft_step};
use gymkhana_orchestration::grants::secret;
use gymkhana_orchestration::server::status_sink;
use gymkhana_orchestration::{Classify, OnHost, Reporter, RunError, RunResult};
use gymkhana_policy::{Policy, ServerFailure};
use gymkhana_record::step_metrics::rl;
use gymkhana_record::{Seed, StepMetrics};
use gymkhana_tinker::{
    Counters, LoraSettings, Reduction, TinkerClient, TinkerEngine, TinkerError, TinkerModel, TinkerPolicy,
    TinkerSettings,
};
use gymkhana_trainer::{ModelDescription, ModelFiles, RlData, RlSettings, SftSettings, StageModels, Weighted};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::remote::checkpoint::RemoteCheckpoint;

/// The run's policy on a server that samples from it and trains it.
pub(crate) struct RemoteTrainer {
    description: ModelDescription,
    policy: OnHost<TinkerPolicy>,
    seed: Seed,
    /// Position of the checkpoint that was opened.
    position: Option<serde_json::Value>,
    /// Number of weight updates so far.
    weight_version: AtomicU32,
    stage: Arc<Mutex<RemoteStage>>,
}

/// The model on the server, and what the stage needs of earlier steps.
struct RemoteStage {
    engine: TinkerEngine,
    learner: Learner,
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
        let (mut learner, mut counters) = (Learner::default(), Counters::default());
        let (mut weight_version, mut reference, mut position) = (0, None, None);
        if let Some(saved) = saved {
            (learner, counters) = (saved.learner(), saved.counters());
            (weight_version, reference, position) = (saved.weight_version, saved.reference, Some(saved.position));
        }
        let mut engine = TinkerEngine::new(model.user_error()?, counters, Handle::current());
        engine.set_reference(reference).await.user_error()?;
        Ok(Self {
            description,
            policy: OnHost::new(Arc::new(policy)),
            seed,
            position,
            weight_version: AtomicU32::new(weight_version),
            stage: Arc::new(Mutex::new(RemoteStage { engine, learner })),
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
        if models.critic || models.teacher.is_some() {
            return Err(RunError::internal("the server of [trainer] has no critic and no teacher"));
        }
        let mut stage = self.stage.lock().await;
        stage.learner = Learner::default();
        stage.engine.counters.optimizer_steps = 0;
        match models.reference {
            true => stage.engine.refer_to_current().await.user_error(),
            false => stage.engine.set_reference(None).await.user_error(),
        }
    }

    /// Samples with the current weights from now on.
    pub(crate) async fn update_policy(&self) -> RunResult<()> {
        let mut stage = self.stage.lock().await;
        let (version, policy) = (self.weight_version(), self.policy.client());
        // A new adapter changes nothing, so that the base model samples like it.
        if version == 0 || policy.has_weights(version).await {
            return Ok(());
        }
        let path = stage.engine.save_for_sampling(version).await.user_error()?;
        policy.load(path, version).await;
        Ok(())
    }

    /// One supervised optimiser step on the sampled tokens of demonstrations.
    pub(crate) async fn sft_step(
        &self,
        demonstrations: &[Weighted<'_>],
        settings: &SftSettings,
    ) -> RunResult<StepMetrics> {
        let sequences = demonstration_sequences(demonstrations, settings).internal()?;
        let settings = settings.clone();
        let metrics = self.compute(move |stage| sft_step(&mut stage.engine, &sequences, &settings)).await?;
        self.weight_version.fetch_add(1, Ordering::AcqRel);
        Ok(metrics)
    }

    /// Trains on groups of episodes, one optimiser step for each minibatch with a gradient.
    pub(crate) async fn rl_step(&self, data: &RlData<'_>, settings: &RlSettings) -> RunResult<StepMetrics> {
        let demonstrations = match data.demonstrations {
            [] => vec![],
            all => imitated_sequences(all).internal()?,
        };
        let batch = (Batch::of(data, settings), demonstrations);
        let (settings, seed, version) = (settings.clone(), self.seed, self.weight_version());
        let step =
            move |stage: &mut RemoteStage| stage.learner.rl_step(&mut stage.engine, batch, &settings, seed, version);
        let metrics = self.compute(step).await?;
        let updates = metrics.get(rl::UPDATES.name()).map_or(0, |updates| updates as u32);
        self.weight_version.fetch_add(updates, Ordering::AcqRel);
        Ok(metrics)
    }

    /// Runs a step on a thread that waits for the server.
    async fn compute(
        &self,
        step: impl FnOnce(&mut RemoteStage) -> Result<StepMetrics, TinkerError> + Send + 'static,
    ) -> RunResult<StepMetrics> {
        let mut stage = Arc::clone(&self.stage).lock_owned().await;
        let found = tokio::task::spawn_blocking(move || step(&mut stage)).await.internal()?;
        found.user_error()
    }

    /// Saves the weights on the server, and the path of them in a new folder.
    pub(crate) async fn save(&self, folder: &Path, position: &serde_json::Value) -> RunResult<()> {
        let mut stage = self.stage.lock().await;
        let RemoteStage { engine, learner } = &mut *stage;
        engine.counters.saved += 1;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = engine.model.save(&format!("{name}-{}", engine.counters.saved)).await.user_error()?;
        let text = RemoteCheckpoint::of(engine, learner, self.weight_version(), path, position).text()?;
        let full =
            format!("the checkpoint `{}` cannot be written\nhint: free space, then use --resume", folder.display());
        self.description.write(folder, (checkpoint::FILE, &text)).user_context(full)
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_trainer::Preset;

    use super::*;

    const FILE: &str = "success = \"environment.success\"\n[policy]\ncheckpoint = \"model\"\n[trainer]\nkind = \"tinker\"\nurl = \
                        \"http://127.0.0.1:1\"\n[[stages]]\nkind = \"rl\"\n";

    /// The page's table of presets.
    #[test]
    fn the_page_says_how_many_passes_each_preset_takes() {
        let page = include_str!("../../../../docs/how-to/train-on-a-tinker-server.md");
        let row = |passes: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(&format!("| {passes} | ")[..])).expect("a row");
            line.trim_end_matches(" |").split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<Vec<_>>()
        };
        let mut found = ["one", "two", "refused"].map(|passes| (passes, Vec::new()));
        for name in Preset::names() {
            let flags = Preset::named(name).and_then(|preset| preset.algorithm()).expect("a preset");
            let is_run = RunFile::parse(FILE, "run.toml", &[format!("stages.rl.algorithm=\"{name}\"")]).is_ok();
            let place = if is_run { gymkhana_tinker::passes(&flags) as usize - 1 } else { 2 };
            found[place].1.push(name.to_owned());
        }
        for (passes, names) in found {
            assert_eq!(row(passes), names, "{passes}");
        }
    }
}
