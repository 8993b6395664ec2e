//! Tasks from files of others: JSON lines, CSV, Parquet, and data sets in folders as Hugging Face's library writes them.
//!
//! `source` reads records, `shape` turns the columns of a record into a row, and [`import()`] writes rows to a file
//! that the environment `dataset` reads one by one. [`inspect()`] describes a file before it is imported.

mod duplicates;
mod error;
mod import;
mod inspect;
mod shape;
mod source;

pub use error::{DataError, Place};
pub use import::{ImportOptions, Imported, import};
pub use inspect::{Column, Inspection, Lengths, inspect};
pub use shape::{Mapping, Shape};
