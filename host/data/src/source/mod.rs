//! Records of files: columns by name, in the order of the files.

mod arrow;
mod calendar;
mod csv_file;
mod folder;
mod json_lines;
mod messages;
mod pages;
mod rows_file;
mod thrift;
mod unfolding;
mod value;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gymkhana_record::{json_values_at_most, stored_bytes};
use gymkhana_registry::open_regular_file;
use gymkhana_rows::MAX_ROW_BYTES;
use serde_json::{Map, Value as Json};

use crate::error::{DataError, SourceLocation};

/// One record of a source.
#[derive(Debug)]
pub(crate) struct Record {
    /// Where it stands.
    pub place: SourceLocation,
    /// Split that the file or its folder names.
    pub split: Option<String>,
    /// Columns, or why the record has none.
    pub columns: Result<Map<String, Json>, String>,
    /// Columns without a form in JSON, with their types.
    pub left_out: Vec<(String, String)>,
}

/// Records of a file or a folder.
pub(crate) struct RecordSource<I> {
    /// The records.
    pub records: I,
    /// Folders of which each has splits of its own, if there are several.
    pub configurations: Vec<String>,
}

/// Records of one file.
type RecordIterator = Box<dyn Iterator<Item = Result<Record, DataError>>>;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    JsonLines,
    Csv,
    Parquet,
    Arrow,
    Rows,
}

impl Format {
    /// Format by the ending of a name.
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            "arrow" => Some(Self::Arrow),
            "rows" => Some(Self::Rows),
            _ => None,
        }
    }
}

/// A file with its split.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DataFile {
    path: PathBuf,
    format: Format,
    split: Option<String>,
}

impl DataFile {
    fn records(self) -> Result<RecordIterator, DataError> {
        let Self { path, format, split } = self;
        match format {
            Format::JsonLines => json_lines::records(path, split),
            Format::Csv => csv_file::records(path, split),
            Format::Parquet => arrow::parquet(path, split),
            Format::Arrow => arrow::stream(path, split),
            Format::Rows => rows_file::records(path),
        }
    }
}

/// Length of the header of a page at the start of these bytes.
#[cfg(fuzzing)]
pub(crate) fn page_header_length(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    thrift::StructFields::read(&mut rest)?;
    Some(bytes.len() - rest.len())
}

/// Opens a file of data; pipes and devices are refused.
fn open(path: &Path) -> Result<File, DataError> {
    open_regular_file(path).map_err(DataError::read(path))
}

/// Opens a file of text, unless its first bytes are those of UTF-16.
fn open_text(path: &Path) -> Result<File, DataError> {
    let file = open(path)?;
    let mut first = [b' '; 2];
    file.read_at(&mut first, 0).map_err(DataError::read(path))?;
    match first {
        [0xff, 0xfe] | [0xfe, 0xff] | [0, _] | [_, 0] => Err(DataError::Utf16(path.to_owned())),
        _ => Ok(file),
    }
}

/// Most values of a row. A value of a line takes up to some hundred bytes of memory.
const MAX_ROW_VALUES: usize = 1 << 19;

/// Columns of a row with their bytes, unless they are larger than a row may be.
fn within_row(columns: Map<String, Json>) -> (Result<Map<String, Json>, String>, u64) {
    let bytes = stored_bytes(&columns);
    if bytes > u64::from(MAX_ROW_BYTES) { (Err(too_large()), bytes) } else { (Ok(columns), bytes) }
}

/// Columns of a line of JSON, whose values are counted before they are made.
fn json_columns(line: &[u8]) -> Result<Map<String, Json>, String> {
    if json_values_at_most(line) > MAX_ROW_VALUES {
        return Err(format!("the row has more than {MAX_ROW_VALUES} values"));
    }
    serde_json::from_slice(line).map_err(|error| {
        let why = error.to_string();
        // An object whose number no float holds, such as one of 309 digits.
        if why.starts_with("number out of range") {
            format!("a number cannot be read: {why}")
        } else {
            format!("no JSON object: {why}")
        }
    })
}

fn too_large() -> String {
    format!("the row has more than {MAX_ROW_BYTES} bytes or {MAX_ROW_VALUES} values")
}

/// The error about a file of an unknown format.
fn unknown(path: &Path) -> DataError {
    let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    if is_json { DataError::Json(path.to_owned()) } else { DataError::UnknownFormat(path.to_owned()) }
}

/// Records of a file, or of a folder with a data set.
pub(crate) fn records(path: &Path) -> Result<RecordSource<impl Iterator<Item = Result<Record, DataError>>>, DataError> {
    let files = if path.is_dir() {
        folder::files(path)?
    } else {
        let format = Format::of(path).ok_or_else(|| unknown(path))?;
        vec![DataFile { path: path.to_owned(), format, split: None }]
    };
    let configurations = folder::configurations(&files, path);
    let mut files = files.into_iter();
    let mut current: RecordIterator = Box::new(std::iter::empty());
    let records = std::iter::from_fn(move || {
        loop {
            if let Some(record) = current.next() {
                return Some(record);
            }
            match files.next()?.records() {
                Ok(records) => current = records,
                Err(error) => return Some(Err(error)),
            }
        }
    });
    Ok(RecordSource { records, configurations })
}
