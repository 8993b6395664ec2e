//! Parquet files, and Arrow streams as Hugging Face's library saves them.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::ArrowError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value as Json};

use super::value::{Unsupported, value};
use super::{Record, Records, messages, open, pages};
use crate::error::{DataError, Place};

pub(super) fn parquet(path: PathBuf, split: Option<String>) -> Result<Records, DataError> {
    let file = open(&path)?;
    let wrong = |why: String| DataError::Format { path: path.clone(), format: "Parquet", why };
    let pages = file.try_clone().map_err(DataError::read(&path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| wrong(error.to_string()))?;
    let rows = pages::check(&pages, reader.metadata()).map_err(wrong)?;
    let reader = reader.with_batch_size(rows).build().map_err(|error| wrong(error.to_string()))?;
    Ok(Box::new(Batches::new(path, "Parquet", split, reader)))
}

pub(super) fn stream(path: PathBuf, split: Option<String>) -> Result<Records, DataError> {
    let file = open(&path)?;
    let wrong = |why: String| DataError::Format { path: path.clone(), format: "an Arrow stream", why };
    messages::check(&file).map_err(wrong)?;
    let reader = StreamReader::try_new(BufReader::new(file), None).map_err(|error| wrong(error.to_string()))?;
    Ok(Box::new(Batches::new(path, "an Arrow stream", split, reader)))
}

/// Records of batches.
struct Batches<I> {
    path: PathBuf,
    format: &'static str,
    split: Option<String>,
    batches: I,
    batch: Option<RecordBatch>,
    /// Row of the batch.
    row: usize,
    /// Number of the last record.
    number: u64,
}

impl<I> Batches<I> {
    fn new(path: PathBuf, format: &'static str, split: Option<String>, batches: I) -> Self {
        Self { path, format, split, batches, batch: None, row: 0, number: 0 }
    }
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>>> Iterator for Batches<I> {
    type Item = Result<Record, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.batch.as_ref().is_none_or(|batch| self.row == batch.num_rows()) {
            match self.batches.next()? {
                Ok(batch) => (self.batch, self.row) = (Some(batch), 0),
                Err(error) => return Some(Err(wrong(&self.path, self.format, &error))),
            }
        }
        let (columns, left_out) = columns(self.batch.as_ref()?, self.row);
        (self.row, self.number) = (self.row + 1, self.number + 1);
        let place = Place { file: self.path.clone(), unit: "row", number: self.number };
        Some(Ok(Record { place, split: self.split.clone(), columns: super::within_row(columns), left_out }))
    }
}

fn wrong(path: &Path, format: &'static str, error: &ArrowError) -> DataError {
    DataError::Format { path: path.to_owned(), format, why: error.to_string() }
}

/// Columns of a row, and those that have no form in JSON, with their types.
fn columns(batch: &RecordBatch, row: usize) -> (Map<String, Json>, Vec<(String, String)>) {
    let (mut columns, mut left_out) = (Map::new(), Vec::new());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        match value(array, row) {
            Ok(value) => drop(columns.insert(field.name().clone(), value)),
            Err(Unsupported(kind)) => left_out.push((field.name().clone(), kind.to_string())),
        }
    }
    (columns, left_out)
}
