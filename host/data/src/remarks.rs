//! What a reader notes about a source without refusing it.

use std::collections::BTreeMap;

use gymkhana_rows::Row;

use crate::source::{Record, Source};

/// Remarks on a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Folders of which each has splits of its own, if there are several.
    pub configurations: Vec<String>,
    /// Columns that were left out, with their types.
    pub left_out: BTreeMap<String, String>,
    /// Rows whose `answer` is a list or an object of another form than a list of texts.
    pub structured_answers: u64,
}

impl Remarks {
    /// Remarks on a source before its rows are read.
    pub(crate) fn on<I>(source: &Source<I>) -> Self {
        Self { configurations: source.configurations.clone(), ..Self::default() }
    }

    /// Notes the columns that a record lacks.
    pub(crate) fn note(&mut self, record: &Record) {
        self.left_out.extend(record.left_out.iter().cloned());
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
