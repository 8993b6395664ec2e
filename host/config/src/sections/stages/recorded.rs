//! `recorded`: preferences from recorded episodes or from files, in place of sampled groups.

use std::path::{Path, PathBuf};

use gymkhana_filter::Filter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::is_default;

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
}
