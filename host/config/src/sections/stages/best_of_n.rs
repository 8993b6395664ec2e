//! Stages of expert iteration: the policy samples, a filter keeps the best attempts, and the policy imitates them.

use gymkhana_algorithm::{Optimizer, SftSettings};
use gymkhana_filter::Filter;
use gymkhana_policy::Sampling;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::add_kind;
use crate::checks::check_schedule;
use crate::error::RunFileError;

fn best_of_n_kind(schema: &mut Schema) {
    add_kind(schema, &["best-of-n"], super::KIND);
}

/// Expert iteration, also called rejection sampling. A round samples several attempts at each task with the current
/// policy, keeps the best of those that pass a filter, and fine-tunes the policy on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = best_of_n_kind)]
pub struct BestOfNStage {
    /// Name of the stage in metrics and in `--set stages.NAME.KEY=VALUE`.
    #[schemars(extend("x-range" = "unique in the run"))]
    pub name: String,
    /// Rounds of sampling and fine-tuning.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub steps: u64,
    /// Tasks per round.
    #[schemars(range(min = 1, max = 65_536))]
    pub tasks: u32,
    /// Attempts at each task.
    #[schemars(range(min = 1, max = 65_536))]
    pub attempts: u32,
    /// Filter of the attempts that may be kept.
    #[serde(rename = "where")]
    #[schemars(with = "String", extend("x-range" = "a filter expression"))]
    pub filter: Filter,
    /// Attempts that are kept of each task at most, those with the highest rewards. Attempts with the same tokens count
    /// once.
    #[schemars(range(min = 1, max = 65_536))]
    pub keep: u32,
    /// Kept attempts per optimiser step.
    #[schemars(range(min = 1, max = 65_536))]
    pub batch: u32,
    /// Passes over the kept attempts of a round.
    #[schemars(range(min = 1, max = 1000))]
    pub epochs: u32,
    /// Sampling temperature.
    #[schemars(range(min = 0.01, max = 100))]
    pub temperature: f32,
    /// Sampling among the `top_k` most probable tokens; 0 and -1 disable the cut.
    #[serde(deserialize_with = "gymkhana_policy::deserialize_top_k")]
    #[schemars(range(min = -1))]
    pub top_k: u32,
    /// Nucleus sampling: share of probability of the kept tokens; 1 disables the cut.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub top_p: f32,
    /// Minimum probability of a sampled token relative to the most probable one; 0 disables the cut.
    #[schemars(range(min = 0, max = 1))]
    pub min_p: f32,
    /// Rounds between checkpoints; the last round always writes one.
    #[schemars(range(min = 1))]
    pub checkpoint_every: u64,
    /// Optimiser and learning rate.
    pub optimizer: Optimizer,
}

impl Default for BestOfNStage {
    fn default() -> Self {
        Self {
            name: "best-of-n".to_owned(),
            steps: 10,
            tasks: 32,
            attempts: 8,
            filter: Filter::success(),
            keep: 1,
            batch: 32,
            epochs: 1,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            checkpoint_every: 1,
            optimizer: SftSettings::default().optimizer,
        }
    }
}

impl BestOfNStage {
    /// Settings of the trainer for this stage: no token of a template is trained on.
    #[must_use]
    pub fn settings(&self) -> SftSettings {
        SftSettings { optimizer: self.optimizer.clone(), other_tokens: 0.0, ..SftSettings::default() }
    }

    /// Sampling of the attempts' tokens.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        let Self { temperature, top_k, top_p, min_p, .. } = *self;
        Sampling { temperature, top_k, top_p, min_p }
    }

    /// Upper bound on the optimiser steps of the stage.
    #[must_use]
    pub fn optimizer_steps(&self) -> u64 {
        let kept = u64::from(self.tasks) * u64::from(self.keep.min(self.attempts));
        kept.div_ceil(u64::from(self.batch)).saturating_mul(u64::from(self.epochs)).saturating_mul(self.steps)
    }

    /// Rejects values out of range, and more kept attempts than there are.
    pub(super) fn check(&self) -> Result<(), RunFileError> {
        let contradiction = |message: String| RunFileError::Contradiction(format!("stage `{}`: {message}", self.name));
        self.sampling().check().map_err(|error| contradiction(error.to_string()))?;
        self.settings().check().map_err(|error| contradiction(error.to_string()))?;
        check_schedule(&self.name, &self.optimizer, self.optimizer_steps())
    }
}
