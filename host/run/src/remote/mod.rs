//! Trainers outside of this process: this program plays and computes losses, another one samples and computes gradients.

#[cfg(feature = "engines")]
mod checkpoint;
#[cfg(feature = "engines")]
mod outside;
#[cfg(feature = "engines")]
mod tinker;
#[cfg(feature = "engines")]
mod torch;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use gymkhana_config::{RunFile, TrainerSection};
use gymkhana_orchestration::{Reporter, RunResult};
use gymkhana_policy::{Policy, ServerFailure};
use gymkhana_record::StepMetrics;
use gymkhana_trainer::{ModelFiles, RlData, RlSettings, SftSettings, StageModels, Weighted};

/// A boxed future of a run's step.
pub(crate) type Running<'a, T> = Pin<Box<dyn Future<Output = RunResult<T>> + Send + 'a>>;

/// The run's policy where it is sampled from and trained.
pub(crate) trait RemoteTrainer: Send + Sync {
    /// Tokenizer and chat template.
    fn files(&self) -> &ModelFiles;

    /// Number of the base model's weights.
    fn parameter_count(&self) -> u64;

    /// Size of the vocabulary.
    fn vocabulary(&self) -> usize;

    /// Position of the checkpoint that was opened.
    fn position(&self) -> Option<&serde_json::Value>;

    /// The policy.
    fn policy(&self) -> &dyn Policy;

    /// Failure of the last request; `None` while the other side answers.
    fn gave_up(&self) -> Option<ServerFailure>;

    /// Number of weight updates so far.
    fn weight_version(&self) -> u32;

    /// Starts a stage.
    fn begin_stage<'a>(&'a self, models: &'a StageModels) -> Running<'a, ()>;

    /// Samples with the current weights from now on.
    fn update_policy(&self) -> Running<'_, ()>;

    /// One supervised optimiser step on the sampled tokens of demonstrations.
    fn sft_step<'a>(
        &'a self,
        demonstrations: &'a [Weighted<'a>],
        settings: &'a SftSettings,
    ) -> Running<'a, StepMetrics>;

    /// Trains on groups of episodes, one optimiser step for each minibatch with a gradient.
    fn rl_step<'a>(&'a self, data: RlData<'a>, settings: &'a RlSettings) -> Running<'a, StepMetrics>;

    /// Writes a checkpoint to a new folder.
    fn save<'a>(&'a self, folder: &'a Path, position: &'a serde_json::Value) -> Running<'a, ()>;

    /// Writes the model for an inference server to a new folder.
    fn export<'a>(&'a self, folder: &'a Path) -> Running<'a, ()>;
}

/// Starts the engine of `[trainer]`, or opens the checkpoint in `left_off`. `first` is the folder of the run's model.
#[cfg(feature = "engines")]
pub(crate) async fn start(
    section: &TrainerSection,
    file: &RunFile,
    first: &Path,
    left_off: Option<&Path>,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Arc<dyn RemoteTrainer>> {
    Ok(match section {
        TrainerSection::Tinker(section) => Arc::new(tinker::start(section, file, first, left_off, reporter).await?),
        TrainerSection::Torch(section) => Arc::new(torch::start(section, file, first, left_off, reporter).await?),
    })
}

/// Refuses the engine: this build leaves it out.
#[cfg(not(feature = "engines"))]
#[allow(clippy::unused_async)]
pub(crate) async fn start(
    section: &TrainerSection,
    _file: &RunFile,
    _first: &Path,
    _left_off: Option<&Path>,
    _reporter: &Arc<dyn Reporter>,
) -> RunResult<Arc<dyn RemoteTrainer>> {
    let what = match section {
        TrainerSection::Tinker(section) => format!("[trainer] names the Tinker server {}", section.url),
        TrainerSection::Torch(_) => "[trainer] asks for PyTorch".to_owned(),
    };
    Err(gymkhana_orchestration::RunError::left_out(what, "engines outside of this process"))
}
