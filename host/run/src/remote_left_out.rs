//! A build without Tinker refuses run files with `[trainer]`.

use std::path::Path;
use std::sync::Arc;

use gymkhana_config::{RunFile, TrainerSection};
use gymkhana_orchestration::{Reporter, RunError, RunResult};
use gymkhana_policy::{Policy, ServerFailure};
use gymkhana_record::StepMetrics;
use gymkhana_trainer::{ModelFiles, RlData, RlSettings, SftSettings, StageModels, Weighted};

/// No trainer: a value of this type does not exist.
pub(crate) enum RemoteTrainer {}

impl RemoteTrainer {
    /// Refuses the server.
    #[allow(clippy::unused_async)]
    pub(crate) async fn start(
        section: &TrainerSection,
        _file: &RunFile,
        _first: &Path,
        _left_off: Option<&Path>,
        _reporter: &Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let what = format!("[trainer] names the Tinker server {}", section.url);
        Err(RunError::left_out(what, "training on servers"))
    }

    pub(crate) fn files(&self) -> &ModelFiles {
        match *self {}
    }

    pub(crate) fn parameter_count(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn position(&self) -> Option<&serde_json::Value> {
        match *self {}
    }

    pub(crate) fn policy(&self) -> &dyn Policy {
        match *self {}
    }

    pub(crate) fn gave_up(&self) -> Option<ServerFailure> {
        match *self {}
    }

    pub(crate) fn weight_version(&self) -> u32 {
        match *self {}
    }

    #[allow(clippy::unused_async)]
    pub(crate) async fn begin_stage(&self, _models: &StageModels) -> RunResult<()> {
        match *self {}
    }

    #[allow(clippy::unused_async)]
    pub(crate) async fn update_policy(&self) -> RunResult<()> {
        match *self {}
    }

    #[allow(clippy::unused_async)]
    pub(crate) async fn sft_step(&self, _of: &[Weighted<'_>], _settings: &SftSettings) -> RunResult<StepMetrics> {
        match *self {}
    }

    #[allow(clippy::unused_async)]
    pub(crate) async fn rl_step(&self, _data: &RlData<'_>, _settings: &RlSettings) -> RunResult<StepMetrics> {
        match *self {}
    }

    #[allow(clippy::unused_async)]
    pub(crate) async fn save(&self, _folder: &Path, _position: &serde_json::Value) -> RunResult<()> {
        match *self {}
    }
}
