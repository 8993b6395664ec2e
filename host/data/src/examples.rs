//! Rows of a file to train on: conversations and preferences.

use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::error::{DataError, SourceLocation};
use crate::remarks::Remarks;
use crate::shape::{ChatConversation, Preference, conversation_of};
use crate::source::records;

/// Number of bad rows that may be skipped, in all files together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skips {
    most: u64,
    skipped: u64,
}

impl Skips {
    /// At most this number of rows.
    #[must_use]
    pub fn at_most(most: u64) -> Self {
        Self { most, skipped: 0 }
    }

    /// Whether one more row may be skipped; it then counts.
    fn take(&mut self) -> bool {
        let may = self.skipped < self.most;
        self.skipped += u64::from(may);
        may
    }
}

/// Rows of a file that were read, and those that were skipped.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadRows<T> {
    /// Rows with their places, in the order of the file.
    pub rows: Vec<(SourceLocation, T)>,
    /// Rows that were skipped, with the reason.
    pub skipped: Vec<(SourceLocation, String)>,
    /// Remarks on the source.
    pub remarks: Remarks,
}

/// Reads the conversations of a file or a folder. `weight_column` names the column with each row's weight.
///
/// # Errors
/// If a file cannot be read, if more rows are bad than may be skipped, or if there are no conversations.
pub fn conversations(
    source: &Path,
    weight_column: Option<&str>,
    skips: &mut Skips,
) -> Result<ReadRows<ChatConversation>, DataError> {
    examples(source, skips, |columns| conversation_of(columns, weight_column))
}

/// Reads the preferences of a file or a folder.
///
/// # Errors
/// As [`conversations`].
pub fn preferences(source: &Path, skips: &mut Skips) -> Result<ReadRows<Preference>, DataError> {
    examples(source, skips, |columns| Preference::of(&columns))
}

fn examples<T>(
    source: &Path,
    skips: &mut Skips,
    of: impl Fn(Map<String, Json>) -> Result<T, String>,
) -> Result<ReadRows<T>, DataError> {
    let source_records = records(source)?;
    let mut found = ReadRows { rows: vec![], skipped: vec![], remarks: Remarks::on(&source_records) };
    for record in source_records.records {
        let record = record?;
        found.remarks.note(&record);
        let place = record.place;
        match record.columns.and_then(&of) {
            Ok(example) => found.rows.push((place, example)),
            Err(why) if skips.take() => found.skipped.push((place, why)),
            Err(why) => return Err(DataError::BadExample { place, why, skipped: skips.skipped }),
        }
    }
    if found.rows.is_empty() { Err(DataError::NoRows(source.to_owned())) } else { Ok(found) }
}
