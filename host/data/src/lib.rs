//! Tasks from data files: JSON lines, CSV, Parquet, and data sets in folders as Hugging Face's library writes them.
//!
//! `source` reads records, `shape` turns the columns of a record into a row, and [`import()`] writes rows to a file
//! that the environment `dataset` reads one by one. [`inspect()`] describes a file before it is imported.
//! [`conversations()`] reads whole conversations, as demonstrations, [`preferences()`] answers of which some are better, and
//! [`ConversationWriter`] writes conversations as Parquet.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod duplicates;
mod error;
mod examples;
mod import;
mod inspect;
mod remarks;
mod shape;
mod source;
mod table;
mod temporary;

pub use error::{DataError, SourceLocation};
pub use examples::{ReadRows, Skips, conversations, preferences};
pub use gymkhana_rows::Function;
pub use import::{ImportOptions, Imported, import};
pub use inspect::{Lengths, SourceColumn, SourceInspection, inspect};
pub use remarks::Remarks;
pub use shape::{ChatCall, ChatConversation, ChatMessage, ColumnMapping, Preference, RecordShape};
pub use table::{ConversationTable, ConversationWriter};

/// Entry point of the fuzz target `data_rows`.
#[cfg(fuzzing)]
pub mod fuzzing {
    use crate::source::page_header_length;

    /// Length of the header of a page at the start of these bytes; `None` if it is refused.
    #[must_use]
    pub fn page_header(bytes: &[u8]) -> Option<usize> {
        page_header_length(bytes)
    }
}
