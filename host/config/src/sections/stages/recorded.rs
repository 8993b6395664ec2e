//! `recorded`: preferences from recorded episodes or from files, in place of sampled groups.

use std::path::{Path, PathBuf};

use gymkhana_algorithm::Algorithm;
use gymkhana_filter::Filter;
use gymkhana_rules::SamplingPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RlStage;
use crate::checks::is_default;
use crate::error::RunFileError;

/// Preferences from recorded episodes (`runs`) or from answers in files (`files`). The stage then plays no episodes. With
/// the surrogate `preference` it learns from pairs: the best and the worst episode of the same task in a run, or the
/// `chosen` and `rejected` answers of a row; `groups` is the number of pairs per step. With `unpaired-preference` it learns
/// from single episodes: those of a run that met `success` are desirable (with several seats, those of each seat with a
/// reward above 0), as are answers with a true `label`; `groups` is the number of episodes per step. Answers of files are
/// those of the first seat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedPreferences {
    /// Folders of runs, relative to the run file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-range" = "folders"))]
    pub runs: Vec<PathBuf>,
    /// Files of rows with `prompt`, `chosen` and `rejected`, or with `prompt`, `completion` and `label`, as texts or
    /// messages. Relative to the run file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-range" = "files"))]
    pub files: Vec<PathBuf>,
    /// Maximum number of bad rows that are skipped, in all `files` together.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if, range(max = 1_000_000_000))]
    pub skip_bad: u64,
    /// Filter of the episodes of `runs` that are used.
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

impl RecordedPreferences {
    /// Makes the paths absolute; relative ones are relative to this folder.
    pub(super) fn resolve(&mut self, folder: &Path) {
        super::source::resolve(&mut self.runs, folder);
        super::source::resolve(&mut self.files, folder);
    }

    /// Rejects preferences without an origin, keys of another origin, algorithms without a loss over preferences, and keys
    /// that sample episodes.
    pub(super) fn check(&self, stage: &RlStage, algorithm: &Algorithm) -> Result<(), RunFileError> {
        let name = &stage.name;
        let contradiction = |why: String| Err(RunFileError::Contradiction(format!("stage `{name}`: {why}")));
        if self.runs.is_empty() == self.files.is_empty() {
            let why = "recorded must have exactly one of the keys `runs` and `files`\nhint: name folders of runs, or files \
                       of preferences";
            return contradiction(why.to_owned());
        }
        if !algorithm.prefers() {
            return contradiction(format!(
                "`recorded` needs a loss over preferences, which algorithm `{}` does not have\nhint: set kind = \"dpo\" \
                 or \"kto\", or remove `recorded`",
                stage.algorithm
            ));
        }
        let of_runs = self.files.is_empty();
        let single = "a loss over single episodes";
        let without_effect = [
            (self.filter.is_some() && !of_runs, "where", "`files`"),
            (self.skip_bad > 0 && of_runs, "skip_bad", "`runs`"),
            (self.margin > 0.0 && !of_runs, "margin", "`files`"),
            (self.margin > 0.0 && !algorithm.pairs(), "margin", single),
            (self.branches && !of_runs, "branches", "`files`"),
            (self.branches && !algorithm.pairs(), "branches", single),
        ];
        if let Some((_, key, of)) = without_effect.into_iter().find(|(is_set, ..)| *is_set) {
            return contradiction(format!("recorded.{key} has no effect with {of}\nhint: remove it"));
        }
        if !of_runs {
            let of_sampling = [
                (algorithm.off_policy.is_some(), "off_policy"),
                (algorithm.entropy_quantile.is_some(), "entropy_quantile"),
                (algorithm.entropy_band.is_some(), "entropy_band"),
            ];
            if let Some((_, key)) = of_sampling.into_iter().find(|(is_set, _)| *is_set) {
                return contradiction(format!(
                    "settings.{key} needs the probabilities with which tokens were sampled, which `files` do not \
                     have\nhint: remove it"
                ));
            }
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
            (stage.sampling().cuts(), "a cut by top_k, top_p or min_p"),
        ];
        match sampled.into_iter().find(|(is_set, _)| *is_set) {
            Some((_, key)) => {
                contradiction(format!("{key} has no effect with `recorded`\nhint: remove it, or `recorded`"))
            }
            None => Ok(()),
        }
    }
}
