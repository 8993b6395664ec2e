//! Writes the tasks of a source to one file of rows.

use std::io::{BufWriter, Write};
use std::path::Path;

use gymkhana_rows::{Row, WriteError, Writer, split_of};
use serde_json::Value as Json;

use crate::duplicates::{Duplicates, TaskOccurrence};
use crate::error::{DataError, SourceLocation};
use crate::remarks::Remarks;
use crate::shape::{ColumnMapping, row};
use crate::source::{Record, records};
use crate::temporary::Temporary;

/// Settings of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Columns that the user named.
    pub mapping: ColumnMapping,
    /// Percentage of the rows without a split that form the split `test`.
    pub test_percent: u8,
    /// Most bad rows that are skipped.
    pub skip_bad: u64,
}

/// What an import wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Splits with their numbers of rows, in the order of their first rows.
    pub splits: Vec<(String, u64)>,
    /// Rows that are equal to an earlier one of their split.
    pub repeated: u64,
    /// Rows without `answer`, which rewards compare.
    pub unanswered: u64,
    /// Rows that were skipped, with the reason.
    pub skipped: Vec<(SourceLocation, String)>,
    /// Remarks on the source.
    pub remarks: Remarks,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Imports a file or a folder to the file `out`, which is complete or does not exist. `progress` gets the number of rows.
///
/// # Errors
/// If a file cannot be read or written, if more rows are bad than may be skipped, or if there are none.
pub fn import(
    source: &Path,
    out: &Path,
    options: &ImportOptions,
    mut progress: impl FnMut(u64),
) -> Result<Imported, DataError> {
    let temporary = Temporary::create(out)?;
    let write_error = |source: WriteError| DataError::Write { path: out.to_owned(), source };
    let mut writer = Writer::new(BufWriter::new(&temporary.file)).map_err(write_error)?;
    let (mut splits, mut duplicates) = (Vec::<(String, u64)>::new(), Duplicates::default());
    let (mut repeated, mut unanswered, mut skipped, mut number) = (0, 0, Vec::new(), 0);
    let source_records = records(source)?;
    let mut remarks = Remarks::on(&source_records);
    for record in source_records.records {
        let record = record?;
        remarks.note(&record);
        if number == 0 {
            check_columns(&record, &options.mapping)?;
        }
        number += 1;
        progress(number);
        let place = record.place.clone();
        let task = task(record, options).and_then(|(split, row)| match duplicates.note(&row, &split, place.number) {
            TaskOccurrence::Elsewhere(first, other) => {
                Err(format!("split `{split}` repeats the task of {} {first}, split `{other}`", place.unit))
            }
            seen => {
                repeated += u64::from(seen == TaskOccurrence::Again);
                Ok((split, row))
            }
        });
        match task {
            Ok((split, row)) => {
                unanswered += u64::from(!row.facts.contains_key("answer"));
                remarks.note_answer(&row);
                writer.add(&split, Json::Object(row.columns()).to_string().as_bytes()).map_err(write_error)?;
                match splits.iter_mut().find(|(name, _)| *name == split) {
                    Some((_, rows)) => *rows += 1,
                    None => splits.push((split, 1)),
                }
            }
            Err(why) if (skipped.len() as u64) < options.skip_bad => skipped.push((place, why)),
            Err(why) if options.skip_bad == 0 => return Err(DataError::BadRow { place, why }),
            Err(why) => return Err(DataError::TooManyBad { place, why, skipped: options.skip_bad }),
        }
    }
    if splits.is_empty() {
        return Err(DataError::NoRows(source.to_owned()));
    }
    let mut buffer = writer.finish().map_err(write_error)?;
    buffer.flush().map_err(|error| write_error(error.into()))?;
    drop(buffer);
    let bytes = temporary.keep(out)?;
    Ok(Imported { splits, repeated, unanswered, skipped, remarks, bytes })
}

/// Split and row of a record.
pub(crate) fn task(record: Record, options: &ImportOptions) -> Result<(String, Row), String> {
    let mut row = row(record.columns?, &options.mapping)?;
    let last = row.messages.last().map_or("", |message| &message.content);
    let split = row.split.take().or(record.split);
    let split = split.unwrap_or_else(|| split_of(last, options.test_percent.into()).to_owned());
    row.split = Some(split.clone());
    Ok((split, row))
}

/// Refuses a mistyped column before every row is called bad.
pub(crate) fn check_columns(first: &Record, mapping: &ColumnMapping) -> Result<(), DataError> {
    let Ok(columns) = &first.columns else { return Ok(()) };
    match mapping.sources().find(|column| !columns.contains_key(*column)) {
        None => Ok(()),
        Some(column) => {
            let known = columns.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            Err(DataError::NoColumn { column: column.to_owned(), known })
        }
    }
}
