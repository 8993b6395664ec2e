//! `tinker.json` of a checkpoint: the path of the weights on the server, and the counters of the trainer.

use std::path::Path;

use anyhow::Context as _;
use gymkhana_learner::advantage::AdvantageState;
use gymkhana_learner::{Buffer, Learner};
use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_tinker::{Counters, TinkerEngine};
use serde::{Deserialize, Serialize};

/// Name of the file.
pub(super) const FILE: &str = "tinker.json";

/// Version of the format.
const SCHEMA: u32 = 1;

/// A checkpoint whose weights are on the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoteCheckpoint {
    schema: u32,
    /// Path of the weights and of the optimiser's state.
    pub path: String,
    /// Path of the reference policy's weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    pub weight_version: u32,
    optimizer_steps: u64,
    state: LearnerState,
    pub position: serde_json::Value,
}

/// State of the learner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LearnerState {
    steps: u64,
    memory: AdvantageState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kl_beta: Option<f64>,
    #[serde(default)]
    buffer: Buffer,
}

impl RemoteCheckpoint {
    pub(super) fn of(
        engine: &TinkerEngine,
        learner: &Learner,
        weight_version: u32,
        path: String,
        position: &serde_json::Value,
    ) -> Self {
        let Learner { steps, kl_beta, memory, buffer } = learner.clone();
        Self {
            schema: SCHEMA,
            path,
            reference: engine.reference().map(str::to_owned),
            weight_version,
            optimizer_steps: engine.counters.optimizer_steps,
            state: LearnerState { steps, memory, kl_beta, buffer },
            position: position.clone(),
        }
    }

    pub(super) fn text(&self) -> RunResult<String> {
        serde_json::to_string_pretty(self).internal()
    }

    /// Reads the file of a checkpoint's folder.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(folder.join(FILE))
            .with_context(|| format!("`{FILE}` cannot be read: the checkpoint is not one of [trainer]"))?;
        let saved: Self = serde_json::from_str(&text).with_context(|| format!("`{FILE}` is malformed"))?;
        anyhow::ensure!(
            saved.schema == SCHEMA,
            "`{FILE}` has schema {}, and this version reads {SCHEMA}",
            saved.schema
        );
        Ok(saved)
    }

    /// What the learner needs of earlier steps.
    pub(super) fn learner(&self) -> Learner {
        let LearnerState { steps, memory, kl_beta, buffer } = self.state.clone();
        Learner { steps, kl_beta, memory, buffer }
    }

    /// Counters of the engine.
    pub(super) fn counters(&self) -> Counters {
        Counters { optimizer_steps: self.optimizer_steps, saved: 0 }
    }
}
