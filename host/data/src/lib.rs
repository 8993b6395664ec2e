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
#[cfg(fuzzing)]
pub mod fuzzing;
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
