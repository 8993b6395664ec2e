//! Errors, and places in files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gymkhana_rows::WriteError;

/// Place of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// File.
    pub file: PathBuf,
    /// What is counted: `line` or `row`.
    pub unit: &'static str,
    /// Number, from 1.
    pub number: u64,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} {}", self.file.display(), self.unit, self.number)
    }
}

/// Data cannot be read or imported.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file or a folder cannot be read.
    #[error("`{path}` cannot be read\nhint: check the path")]
    Read {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file is damaged or of another format than its name says.
    #[error("`{path}` cannot be read as {format}: {why}\nhint: check the file, and that its name ends in its format")]
    Format {
        /// Path.
        path: PathBuf,
        /// Format.
        format: &'static str,
        /// Cause.
        why: String,
    },
    /// An Arrow stream with compressed messages.
    #[error("`{0}` cannot be read: its messages are compressed\nhint: save it without compression, or as .parquet")]
    Compressed(PathBuf),
    /// A file of text in another encoding.
    #[error("`{0}` cannot be read: its text is UTF-16\nhint: save it as UTF-8")]
    Utf16(PathBuf),
    /// A file of JSON that may be one array.
    #[error(
        "`{0}` has an unknown format\nhint: write one object per line into a .jsonl file: `jq -c '.[]' {0}` does that with an \
         array"
    )]
    Json(PathBuf),
    /// A file of an unknown format.
    #[error(
        "`{0}` has an unknown format\nhint: name it .jsonl, .csv or .parquet after its content, or give the folder of a \
         data set"
    )]
    UnknownFormat(PathBuf),
    /// A folder without data.
    #[error("`{0}` has no .jsonl, .csv, .parquet or .arrow file\nhint: check the path")]
    EmptyFolder(PathBuf),
    /// A source without records.
    #[error("`{0}` has no rows\nhint: check the file")]
    NoRows(PathBuf),
    /// A row that is not a task.
    #[error(
        "{place}: {why}\nhint: correct the row, name the column that it means with --column, or skip up to N such rows with \
         --skip-bad N"
    )]
    BadRow {
        /// Place of the row.
        place: SourceLocation,
        /// What is wrong.
        why: String,
    },
    /// More bad rows than may be skipped.
    #[error("{place}: {why}; rows skipped before: {skipped}\nhint: correct the rows, or allow more with --skip-bad")]
    TooManyBad {
        /// Place of the last row.
        place: SourceLocation,
        /// What is wrong.
        why: String,
        /// Rows that were skipped.
        skipped: u64,
    },
    /// A row that cannot be trained on, beyond those that may be skipped.
    #[error("{place}: {why}{}\nhint: correct the row, or set a larger `skip_bad`", skipped_before(*skipped))]
    BadExample {
        /// Place of the row.
        place: SourceLocation,
        /// What is wrong.
        why: String,
        /// Rows that were skipped before.
        skipped: u64,
    },
    /// A column of `--column` that no row has.
    #[error("no row has the column `{column}` of --column\nhint: the columns are {known}")]
    NoColumn {
        /// Column.
        column: String,
        /// Columns of the first row.
        known: String,
    },
    /// The output cannot be written.
    #[error("`{path}` cannot be written\nhint: free space, or choose another folder")]
    Write {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: WriteError,
    },
}

/// A clause about skipped rows.
fn skipped_before(skipped: u64) -> String {
    if skipped == 0 { String::new() } else { format!("; rows skipped before: {skipped}") }
}

impl DataError {
    /// An error of writing a file.
    pub(crate) fn written(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source: source.into() }
    }

    /// Maker of errors about a file.
    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::Read { path, source }
    }
}
