//! Supervised stages: their length, batch and sources.

use gymkhana_algorithm::{Optimizer, SftSettings};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::add_kind;
use super::source::{SourceKind, SourceSection};
use crate::checks::check_schedule;
use crate::checks::is_default;
use crate::error::RunFileError;

fn sft_kind(schema: &mut Schema) {
    add_kind(schema, &["sft"], super::KIND);
}

/// Supervised fine-tuning on demonstrations: episodes of the environment's oracle, recorded episodes, or conversations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = sft_kind)]
pub struct SftStage {
    /// Name of the stage in metrics and in `--set stages.NAME.KEY=VALUE`.
    #[schemars(extend("x-range" = "unique in the run"))]
    pub name: String,
    /// Training steps.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub steps: u64,
    /// Demonstrations per step, each of another task.
    #[schemars(range(min = 1, max = 65_536))]
    pub batch: u32,
    /// Steps between checkpoints; the last step always writes one.
    #[schemars(range(min = 1))]
    pub checkpoint_every: u64,
    /// Optimiser and learning rate.
    pub optimizer: Optimizer,
    /// Total loss weight of tokens that the demonstrator did not write, relative to 1 for those that it wrote. With
    /// `policy.checkpoint` or `source` the default is 0.
    #[schemars(range(min = 0))]
    pub other_tokens: f64,
    /// Sources of the demonstrations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-default" = "the environment's oracle"))]
    pub source: Vec<SourceSection>,
    /// Trains on the texts of users and tools in demonstrations of `runs` and `chat` as on those of the demonstrator.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if)]
    pub train_observations: bool,
}

impl Default for SftStage {
    fn default() -> Self {
        let settings = SftSettings::default();
        Self {
            name: "sft".to_owned(),
            steps: 100,
            batch: 48,
            checkpoint_every: 50,
            optimizer: settings.optimizer,
            other_tokens: settings.other_tokens,
            source: vec![],
            train_observations: false,
        }
    }
}

impl SftStage {
    /// Settings of the trainer for this stage.
    #[must_use]
    pub fn settings(&self) -> SftSettings {
        SftSettings { optimizer: self.optimizer.clone(), other_tokens: self.other_tokens, ..SftSettings::default() }
    }

    /// Whether the environment's oracle plays.
    #[must_use]
    pub fn asks_oracle(&self) -> bool {
        self.source.is_empty() || self.source.iter().any(|source| source.kind() == Some(SourceKind::Oracle))
    }

    /// Rejects values out of range, and sources that contradict themselves.
    pub(super) fn check(&self) -> Result<(), RunFileError> {
        let settings = self.settings().check();
        settings.map_err(|error| RunFileError::Contradiction(format!("stage `{}`: {error}", self.name)))?;
        self.check_sources()?;
        check_schedule(&self.name, &self.optimizer, self.steps)
    }

    fn check_sources(&self) -> Result<(), RunFileError> {
        for (index, source) in self.source.iter().enumerate() {
            source.check(&format!("stage `{}`: source.{index}", self.name))?;
        }
        let of_files = self.source.iter().any(|source| source.kind() != Some(SourceKind::Oracle));
        if self.train_observations && !of_files {
            return Err(RunFileError::Contradiction(format!(
                "stage `{}`: train_observations applies to sources with `runs` or `chat` only\nhint: remove it, or add \
                 such a source",
                self.name
            )));
        }
        Ok(())
    }
}
