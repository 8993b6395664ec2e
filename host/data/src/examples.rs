//! Rows of a file to train on: conversations and preferences.

use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::error::{DataError, Place};
use crate::shape::{Conversation, Preference};
use crate::source::records;

/// Rows of a file that were read, and those that were skipped.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples<T> {
    /// Rows with their places, in the order of the file.
    pub rows: Vec<(Place, T)>,
    /// Rows that were skipped, with the reason.
    pub skipped: Vec<(Place, String)>,
}

/// Reads the conversations of a file or a folder. `weight_column` names the column with each row's weight; at most
/// `skip_bad` rows are skipped.
///
/// # Errors
/// If a file cannot be read, if more rows are bad than may be skipped, or if there are no conversations.
pub fn conversations(
    source: &Path,
    weight_column: Option<&str>,
    skip_bad: u64,
) -> Result<Examples<Conversation>, DataError> {
    examples(source, skip_bad, |columns| Conversation::of(columns, weight_column))
}

/// Reads the preferences of a file or a folder. At most `skip_bad` rows are skipped.
///
/// # Errors
/// As [`conversations`].
pub fn preferences(source: &Path, skip_bad: u64) -> Result<Examples<Preference>, DataError> {
    examples(source, skip_bad, |columns| Preference::of(&columns))
}

fn examples<T>(
    source: &Path,
    skip_bad: u64,
    of: impl Fn(Map<String, Json>) -> Result<T, String>,
) -> Result<Examples<T>, DataError> {
    let mut found = Examples { rows: vec![], skipped: vec![] };
    for record in records(source)? {
        let record = record?;
        let place = record.place;
        match record.columns.and_then(&of) {
            Ok(example) => found.rows.push((place, example)),
            Err(why) if (found.skipped.len() as u64) < skip_bad => found.skipped.push((place, why)),
            Err(why) => return Err(DataError::BadExample { place, why, skipped: skip_bad }),
        }
    }
    if found.rows.is_empty() { Err(DataError::NoRows(source.to_owned())) } else { Ok(found) }
}
