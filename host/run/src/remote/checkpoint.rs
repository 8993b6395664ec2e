//! `tinker.json` of a checkpoint: the path of the weights on the server, and the counters of the trainer.

use std::path::Path;

use anyhow::Context as _;
use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_trainer::RemoteStageState;
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
    weight_version: u32,
    optimizer_steps: u64,
    state: RemoteStageState,
    position: serde_json::Value,
}

impl RemoteCheckpoint {
    pub(super) fn of(
        progress: &RemoteProgress,
        weight_version: u32,
        path: String,
        position: &serde_json::Value,
    ) -> Self {
        let RemoteProgress { optimizer_steps, state, .. } = progress.clone();
        Self { schema: SCHEMA, path, weight_version, optimizer_steps, state, position: position.clone() }
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

    /// Weight version, counters, and the position of the run.
    pub(super) fn into_parts(self) -> (u32, RemoteProgress, Option<serde_json::Value>) {
        let Self { weight_version, optimizer_steps, state, position, .. } = self;
        (weight_version, RemoteProgress { optimizer_steps, state, saved: 0 }, Some(position))
    }
}

/// What changes with training steps.
#[derive(Debug, Clone, Default)]
pub(super) struct RemoteProgress {
    /// Optimiser steps of the stage.
    pub optimizer_steps: u64,
    pub state: RemoteStageState,
    /// Number of saved weights, so that their names differ.
    pub saved: u32,
}
