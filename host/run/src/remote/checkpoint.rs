//! A checkpoint of a trainer outside of this process: its own file beside the model's description.

use std::path::Path;

use anyhow::Context as _;
use gymkhana_learner::advantage::AdvantageState;
use gymkhana_learner::{Buffer, Learner};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Version of the format. Since schema 2, what an engine needs is in a table of its own.
const SCHEMA: u32 = 2;

/// A checkpoint with the state of an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoteCheckpoint<S> {
    schema: u32,
    /// State of the engine.
    pub engine: S,
    pub weight_version: u32,
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

impl<S: Serialize + DeserializeOwned> RemoteCheckpoint<S> {
    pub fn of(engine: S, learner: &Learner, weight_version: u32, position: &serde_json::Value) -> Self {
        let Learner { steps, kl_beta, memory, buffer } = learner.clone();
        let state = LearnerState { steps, memory, kl_beta, buffer };
        Self { schema: SCHEMA, engine, weight_version, state, position: position.clone() }
    }

    /// Reads the file of a checkpoint's folder.
    pub fn read(folder: &Path, file: &str) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(folder.join(file))
            .with_context(|| format!("`{file}` cannot be read: the checkpoint is not one of this [trainer]"))?;
        let saved: Self = serde_json::from_str(&text).with_context(|| format!("`{file}` is malformed"))?;
        anyhow::ensure!(
            saved.schema == SCHEMA,
            "`{file}` has schema {}, and this version reads {SCHEMA}",
            saved.schema
        );
        Ok(saved)
    }

    /// What the learner needs of earlier steps.
    pub fn learner(&self) -> Learner {
        let LearnerState { steps, memory, kl_beta, buffer } = self.state.clone();
        Learner { steps, kl_beta, memory, buffer }
    }
}
