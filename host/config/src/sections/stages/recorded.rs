//! `recorded`: preference pairs from recorded episodes, in place of sampled groups.

use std::path::{Path, PathBuf};

use gymkhana_algorithm::{Algorithm, Surrogate};
use gymkhana_filter::Filter;
use gymkhana_rollout::SamplingPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RlStage;
use crate::error::RunFileError;
use crate::range::check_range;

/// Preference pairs from recorded episodes: the best and the worst episode of the same task in a run. The stage then plays
/// no episodes, and `groups` is the number of pairs per step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedPairs {
    /// Folders of runs, relative to the run file.
    #[schemars(length(min = 1), extend("x-range" = "folders"))]
    pub runs: Vec<PathBuf>,
    /// Filter of the episodes that may be in a pair.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Option<String>",
        extend("x-default" = "all episodes", "x-range" = "a filter expression")
    )]
    pub filter: Option<Filter>,
    /// Least difference of the rewards of a pair; pairs of equal rewards are never formed.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub margin: f64,
    /// Pairs only episodes that branched from the same episode, and so share their first turns.
    #[serde(default)]
    pub branches: bool,
}

impl RecordedPairs {
    /// Makes the paths absolute; relative ones are relative to this folder.
    pub(super) fn resolve(&mut self, folder: &Path) {
        super::source::resolve(&mut self.runs, folder);
    }

    /// Rejects pairs without runs, algorithms without a loss over preferences, and keys that sample episodes.
    pub(super) fn check(&self, stage: &RlStage, algorithm: &Algorithm) -> Result<(), RunFileError> {
        let name = &stage.name;
        let contradiction = |why: String| Err(RunFileError::Contradiction(format!("stage `{name}`: {why}")));
        if self.runs.is_empty() {
            return contradiction("recorded.runs is empty\nhint: name the folder of a run".to_owned());
        }
        check_range(
            &format!("stage `{name}`: recorded.margin"),
            self.margin,
            0.0..=f64::MAX,
            "a number of at least 0",
        )?;
        if !matches!(algorithm.surrogate, Surrogate::Preference { .. }) {
            return contradiction(format!(
                "`recorded` needs a loss over preference pairs, which algorithm `{}` does not have\nhint: set kind = \
                 \"dpo\", or remove `recorded`",
                stage.algorithm
            ));
        }
        let sampled = [
            (stage.plan.kind() != SamplingPlan::default().kind(), "plan"),
            (stage.dynamic_sampling.max_rounds > 0, "dynamic_sampling"),
            (stage.oversample_groups > 0, "oversample_groups"),
            (stage.max_staleness > 0, "max_staleness"),
            (stage.turns.is_some(), "turns"),
            (stage.demonstrations.is_some(), "demonstrations"),
            (stage.alternate_every > 0, "alternate_every"),
            (stage.shuffle_rewards, "shuffle_rewards"),
        ];
        match sampled.into_iter().find(|(is_set, _)| *is_set) {
            Some((_, key)) => {
                contradiction(format!("`{key}` has no effect on recorded episodes\nhint: remove it, or `recorded`"))
            }
            None => Ok(()),
        }
    }
}
