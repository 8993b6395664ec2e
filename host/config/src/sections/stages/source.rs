//! `[[stages.source]]`: where the demonstrations of a supervised stage come from.

use std::path::{Path, PathBuf};

use gymkhana_filter::Filter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::checks::is_default;
use crate::error::RunFileError;

/// Demonstrations of a supervised stage: episodes of the environment's oracle (`oracle`), recorded episodes (`runs`), or
/// conversations in files (`chat`). A source has exactly one of these keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SourceSection {
    /// Plays the environment's oracle, as a stage without sources does.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if)]
    pub oracle: bool,
    /// Folders of runs whose recorded episodes are demonstrations, with the tokens of their records. Relative to the run
    /// file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-range" = "folders"))]
    pub runs: Vec<PathBuf>,
    /// Filter of the episodes of `runs`.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-default" = "`\"success\"`", "x-range" = "a filter expression"))]
    pub filter: Option<Filter>,
    /// Files of conversations with tool calls: rows of OpenAI's `messages`, of ShareGPT's `conversations`, or of `prompt` and
    /// `completion`, of which the completion alone is imitated. Relative to the run file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-range" = "files"))]
    pub chat: Vec<PathBuf>,
    /// Column of the files of `chat` with each row's weight in the loss, at least 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "weight 1"))]
    pub weight_column: Option<String>,
    /// Maximum number of bad rows that are skipped, in all files of `chat` together.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(!skip_serializing_if, range(max = 1_000_000_000))]
    pub skip_bad: u64,
    /// Share of the stage's demonstrations, relative to the weights of its other sources.
    #[schemars(range(max = 1_000_000), extend("exclusiveMinimum" = 0))]
    pub weight: f64,
}

impl Default for SourceSection {
    fn default() -> Self {
        Self { oracle: false, runs: vec![], filter: None, chat: vec![], weight_column: None, skip_bad: 0, weight: 1.0 }
    }
}

/// Kind of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SourceKind<'a> {
    /// The environment's oracle.
    Oracle,
    /// Recorded episodes of runs.
    Runs(&'a [PathBuf]),
    /// Conversations in files.
    Chat(&'a [PathBuf]),
}

impl SourceSection {
    /// The kind; `None` if the keys name none or several, which the check refuses.
    #[must_use]
    pub fn kind(&self) -> Option<SourceKind<'_>> {
        match (self.oracle, &self.runs[..], &self.chat[..]) {
            (true, [], []) => Some(SourceKind::Oracle),
            (false, [_, ..], []) => Some(SourceKind::Runs(&self.runs)),
            (false, [], [_, ..]) => Some(SourceKind::Chat(&self.chat)),
            _ => None,
        }
    }

    /// The filter of recorded episodes.
    #[must_use]
    pub fn filter(&self) -> Filter {
        self.filter.clone().unwrap_or_else(Filter::success)
    }

    /// Makes the paths absolute; relative ones are relative to this folder.
    pub(super) fn resolve(&mut self, folder: &Path) {
        resolve(&mut self.runs, folder);
        resolve(&mut self.chat, folder);
    }

    /// Rejects sources without or with several origins, and keys of another origin; `of` names the source.
    pub(super) fn check(&self, of: &str) -> Result<(), RunFileError> {
        let contradiction = |why: &str| Err(RunFileError::Contradiction(format!("{of}{why}")));
        let Some(kind) = self.kind() else {
            return contradiction(
                " must have exactly one of the keys `oracle`, `runs` and `chat`\nhint: write a source for each, or \
                 remove [[stages.source]] to learn from the oracle alone",
            );
        };
        if self.filter.is_some() && !matches!(kind, SourceKind::Runs(_)) {
            return contradiction(".where applies to `runs` only\nhint: remove it");
        }
        if (self.weight_column.is_some() || self.skip_bad > 0) && !matches!(kind, SourceKind::Chat(_)) {
            return contradiction(": `weight_column` and `skip_bad` apply to `chat` only\nhint: remove them");
        }
        Ok(())
    }
}

/// Makes paths absolute; relative ones are relative to this folder.
pub(super) fn resolve(paths: &mut [PathBuf], folder: &Path) {
    for path in paths {
        let joined = folder.join(&*path);
        *path = std::path::absolute(&joined).unwrap_or(joined);
    }
}

/// Sets the weight of other tokens to 0 in supervised stages with sources: no token of a template is trained on, unless the
/// run file says so. A table of another type than a run file needs stays as it is, for the parser to refuse.
pub(crate) fn write_out(file: &mut Table) {
    let stages = file.get_mut("stages").and_then(Value::as_array_mut).into_iter().flatten();
    for stage in stages.filter_map(Value::as_table_mut).filter(|stage| stage.contains_key("source")) {
        if stage.get("kind").and_then(Value::as_str) == Some("sft") {
            stage.entry("other_tokens").or_insert(Value::Float(0.0));
        }
    }
}
