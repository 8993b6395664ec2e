//! Trainer of a model: libtorch in this process, or an engine outside of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_policy::{Policy, ServerFailure};
use gymkhana_record::StepMetrics;
use gymkhana_trainer::{ModelFiles, RlData, RlSettings, SftSettings, StageModels, Trainer, Weighted};

use crate::remote::RemoteTrainer;

/// Trainer of a model. Clones share it.
#[derive(Clone)]
pub(crate) enum ModelTrainer {
    /// In this process.
    Own(Trainer),
    /// By the engine of `[trainer]`.
    Remote(Arc<dyn RemoteTrainer>),
}

impl ModelTrainer {
    /// The trainer in this process, if it is one.
    pub fn own(&self) -> Option<&Trainer> {
        match self {
            Self::Own(trainer) => Some(trainer),
            Self::Remote(_) => None,
        }
    }

    /// The policy that the trainer plays.
    pub fn policy(&self) -> &dyn Policy {
        match self {
            Self::Own(trainer) => trainer,
            Self::Remote(remote) => remote.policy(),
        }
    }

    /// Tokenizer and chat template.
    pub fn files(&self) -> &ModelFiles {
        match self {
            Self::Own(trainer) => trainer.files(),
            Self::Remote(remote) => remote.files(),
        }
    }

    /// Number of the model's weights, without those of adapters.
    pub fn parameter_count(&self) -> u64 {
        match self {
            Self::Own(trainer) => trainer.parameter_count(),
            Self::Remote(remote) => remote.parameter_count(),
        }
    }

    /// Size of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        match self {
            Self::Own(trainer) => usize::try_from(trainer.config().vocab_size).unwrap_or(0),
            Self::Remote(remote) => remote.vocabulary(),
        }
    }

    /// Number of weight updates so far.
    pub fn weight_version(&self) -> u32 {
        match self {
            Self::Own(trainer) => trainer.weight_version(),
            Self::Remote(remote) => remote.weight_version(),
        }
    }

    /// Position of the checkpoint that was opened.
    pub fn position(&self) -> Option<&serde_json::Value> {
        match self {
            Self::Own(trainer) => trainer.position(),
            Self::Remote(remote) => remote.position(),
        }
    }

    /// Idle time of the thread of libtorch; zero without one.
    pub fn idle(&self) -> Duration {
        self.own().map_or(Duration::ZERO, Trainer::idle)
    }

    /// Failure of the last request to a server; `None` while it answers, or without one.
    pub fn gave_up(&self) -> Option<ServerFailure> {
        match self {
            Self::Own(_) => None,
            Self::Remote(remote) => remote.gave_up(),
        }
    }

    /// Starts a stage with the models that it needs in addition to the policy.
    pub async fn begin_stage(&self, models: StageModels) -> RunResult<()> {
        match self {
            Self::Own(trainer) => trainer.begin_stage(models).await.internal(),
            Self::Remote(remote) => remote.begin_stage(&models).await,
        }
    }

    /// One supervised optimiser step.
    pub async fn sft_step(&self, demonstrations: &[Weighted<'_>], settings: &SftSettings) -> RunResult<StepMetrics> {
        match self {
            Self::Own(trainer) => trainer.sft_step_on(demonstrations, settings).await.internal(),
            Self::Remote(remote) => remote.sft_step(demonstrations, settings).await,
        }
    }

    /// One step of reinforcement learning.
    pub async fn rl_step(&self, data: RlData<'_>, settings: &RlSettings) -> RunResult<StepMetrics> {
        match self {
            Self::Own(trainer) => trainer.rl_step_on(data, settings).await.internal(),
            Self::Remote(remote) => remote.rl_step(data, settings).await,
        }
    }

    /// Generates with the moving average of the weights, or with the weights. An engine of `[trainer]` has no average.
    pub async fn use_average(&self, average: bool) -> RunResult<()> {
        match self {
            Self::Own(trainer) => trainer.use_average(average).await.internal(),
            Self::Remote(_) if average => Err(RunError::internal("the engine of [trainer] has no average")),
            Self::Remote(_) => Ok(()),
        }
    }

    /// Generates with the weights of the last step from now on.
    pub async fn update_policy(&self) -> RunResult<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Remote(remote) => remote.update_policy().await,
        }
    }

    /// Writes a checkpoint to a new folder.
    pub async fn save(&self, folder: &Path, position: &serde_json::Value) -> RunResult<()> {
        match self {
            Self::Own(trainer) => {
                let full = format!(
                    "the checkpoint `{}` cannot be written\nhint: free space, then use --resume",
                    folder.display()
                );
                trainer.save(folder, position).await.user_context(full)
            }
            Self::Remote(remote) => remote.save(folder, position).await,
        }
    }

    /// Writes the model for an inference server to a new folder.
    pub async fn export(&self, folder: &Path) -> RunResult<()> {
        match self {
            Self::Own(trainer) => {
                let full = format!(
                    "the weights `{}` cannot be written\nhint: free space, then run again, with --resume if the run has \
                     begun",
                    folder.display()
                );
                trainer.export(folder).await.user_context(full)
            }
            Self::Remote(remote) => remote.export(folder).await,
        }
    }
}
