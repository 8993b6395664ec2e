//! Conversations of a file, for training on them.

use std::path::Path;

use crate::error::{DataError, Place};
use crate::shape::Conversation;
use crate::source::records;

/// Settings of reading conversations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationOptions {
    /// Column with each row's weight.
    pub weight_column: Option<String>,
    /// Most rows that are skipped.
    pub skip_bad: u64,
}

/// Conversations of a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conversations {
    /// Conversations with their places, in the order of the file.
    pub rows: Vec<(Place, Conversation)>,
    /// Rows that were skipped, with the reason.
    pub skipped: Vec<(Place, String)>,
}

/// Reads the conversations of a file or a folder.
///
/// # Errors
/// If a file cannot be read, if more rows are bad than may be skipped, or if there are no conversations.
pub fn conversations(source: &Path, options: &ConversationOptions) -> Result<Conversations, DataError> {
    let mut found = Conversations::default();
    for record in records(source)? {
        let record = record?;
        let (place, weight) = (record.place, options.weight_column.as_deref());
        match record.columns.and_then(|columns| Conversation::of(columns, weight)) {
            Ok(conversation) => found.rows.push((place, conversation)),
            Err(why) if (found.skipped.len() as u64) < options.skip_bad => found.skipped.push((place, why)),
            Err(why) => return Err(DataError::BadConversation { place, why, skipped: options.skip_bad }),
        }
    }
    if found.rows.is_empty() { Err(DataError::NoRows(source.to_owned())) } else { Ok(found) }
}
