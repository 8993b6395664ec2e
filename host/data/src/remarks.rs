//! What a reader notes about a source without refusing it.

use std::collections::BTreeMap;

use gymkhana_rows::Row;
use serde_json::Value as Json;

use crate::shape::THOUGHTS;
use crate::source::{Record, RecordSource};

/// Keys of messages that a warning names.
const MAX_KEYS: usize = 20;

/// Whether a reader of messages knows a key.
fn is_read(key: &str) -> bool {
    ["role", "content", "tool_calls", "tool_call_id", "name"].contains(&key) || THOUGHTS.contains(&key)
}

/// Remarks on a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Folders of which each has splits of its own, if there are several.
    pub configurations: Vec<String>,
    /// Columns that were left out, with their types.
    pub left_out: BTreeMap<String, String>,
    /// Keys of messages that no reader knows, with their numbers of messages.
    pub unread_keys: BTreeMap<String, u64>,
    /// Rows whose `answer` is a list or an object of another form than a list of texts.
    pub structured_answers: u64,
}

impl Remarks {
    /// Remarks on a source before its rows are read.
    pub(crate) fn on<I>(source: &RecordSource<I>) -> Self {
        Self { configurations: source.configurations.clone(), ..Self::default() }
    }

    /// Notes the columns that a record lacks.
    pub(crate) fn note(&mut self, record: &Record) {
        self.left_out.extend(record.left_out.iter().cloned());
        let messages = record.columns.as_ref().ok().and_then(|columns| columns.get("messages")?.as_array());
        for message in messages.into_iter().flatten().filter_map(Json::as_object) {
            let unread = message.iter().filter(|(key, value)| !value.is_null() && !is_read(key));
            unread.for_each(|(key, _)| *self.unread_keys.entry(key.clone()).or_default() += 1);
        }
    }

    /// Notes the answer of a row.
    pub(crate) fn note_answer(&mut self, row: &Row) {
        let answer = row.facts.get("answer");
        let is_structured = answer.is_some_and(|answer| answer.is_object() || answer.is_array());
        self.structured_answers += u64::from(is_structured && row.accepted_answers().is_none());
    }

    /// The remarks as warnings.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.configurations.is_empty() {
            let names = self.configurations.join("`, `");
            warnings.push(format!(
                "the folder has several configurations, and their rows are mixed: `{names}`\nhint: give the folder of one of \
                 them"
            ));
        }
        for (column, kind) in &self.left_out {
            warnings.push(format!("the column `{column}` is left out: its type {kind} has no form in JSON"));
        }
        for (key, messages) in self.unread_keys.iter().take(MAX_KEYS) {
            warnings.push(format!("the key `{key}` of messages is left out: {messages} messages have it"));
        }
        if self.structured_answers > 0 {
            let count = self.structured_answers;
            warnings.push(format!(
                "rows whose `answer` is a list or an object, which rewards compare as JSON text: {count}\nhint: give accepted \
                 answers as a list of texts"
            ));
        }
        warnings
    }
}
