//! Parquet files, and Arrow streams as Hugging Face's library saves them.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::ArrowError;
use gymkhana_rows::MAX_ROW_BYTES;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value as Json};

use super::unfolding::Unfolding;
use super::value::{RowBudget, UnreadValue, value};
use super::{Record, RecordIterator, messages, open, pages};
use crate::error::{DataError, SourceLocation};

pub(super) fn parquet(path: PathBuf, split: Option<String>) -> Result<RecordIterator, DataError> {
    let file = open(&path)?;
    let wrong = |why: String| DataError::Format { path: path.clone(), format: "Parquet", why };
    let pages = file.try_clone().map_err(DataError::read(&path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| wrong(error.to_string()))?;
    let unfolding = Unfolding::of(&pages).map_err(DataError::read(&path))?;
    let rows = pages::check(&pages, reader.metadata()).map_err(wrong)?;
    let reader = reader.with_batch_size(rows).build().map_err(|error| wrong(error.to_string()))?;
    Ok(Box::new(Batches::new(path, "Parquet", split, (reader, unfolding))))
}

pub(super) fn stream(path: PathBuf, split: Option<String>) -> Result<RecordIterator, DataError> {
    let file = open(&path)?;
    let wrong = |why: String| DataError::Format { path: path.clone(), format: "an Arrow stream", why };
    messages::check(&file).map_err(wrong)?;
    let unfolding = Unfolding::of(&file).map_err(DataError::read(&path))?;
    let reader = StreamReader::try_new(BufReader::new(file), None).map_err(|error| wrong(error.to_string()))?;
    Ok(Box::new(Batches::new(path, "an Arrow stream", split, (reader, unfolding))))
}

/// Records of batches.
struct Batches<I> {
    path: PathBuf,
    format: &'static str,
    split: Option<String>,
    batches: I,
    unfolding: Unfolding,
    batch: Option<RecordBatch>,
    /// Row of the batch.
    row: usize,
    /// Number of the last record.
    number: u64,
}

impl<I> Batches<I> {
    fn new(path: PathBuf, format: &'static str, split: Option<String>, (batches, unfolding): (I, Unfolding)) -> Self {
        Self { path, format, split, batches, unfolding, batch: None, row: 0, number: 0 }
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
        let ((columns, bytes), left_out) = match columns(self.batch.as_ref()?, self.row) {
            Some((columns, left_out)) => (super::within_row(columns), left_out),
            None => ((Err(super::too_large()), MAX_ROW_BYTES.into()), vec![]),
        };
        if let Err(why) = self.unfolding.take(bytes) {
            return Some(Err(DataError::Format { path: self.path.clone(), format: self.format, why }));
        }
        (self.row, self.number) = (self.row + 1, self.number + 1);
        let place = SourceLocation { file: self.path.clone(), unit: "row", number: self.number };
        Some(Ok(Record { place, split: self.split.clone(), columns, left_out }))
    }
}

fn wrong(path: &Path, format: &'static str, error: &ArrowError) -> DataError {
    let why = error.to_string();
    if why.contains("IPC decompression requires") {
        return DataError::Compressed(path.to_owned());
    }
    DataError::Format { path: path.to_owned(), format, why }
}

/// Columns of a row.
type Columns = Map<String, Json>;

/// Columns of a row, and those that have no form in JSON, with their types; `None` for a row that is too large.
fn columns(batch: &RecordBatch, row: usize) -> Option<(Columns, Vec<(String, String)>)> {
    let (mut columns, mut left_out, mut room) = (Map::new(), Vec::new(), RowBudget::of_row());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        match value(array, row, &mut room) {
            Ok(value) => drop(columns.insert(field.name().clone(), value)),
            Err(UnreadValue::Type(kind)) => left_out.push((field.name().clone(), kind.to_string())),
            Err(UnreadValue::TooLarge) => return None,
        }
    }
    Some((columns, left_out))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{
        Array, ArrayRef, DictionaryArray, FixedSizeListArray, Int32Array, ListArray, NullArray, StringArray,
    };
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::{DataType, Field};

    use super::*;

    fn read(array: ArrayRef) -> Option<Columns> {
        let batch = RecordBatch::try_from_iter([("prompt", array)]).expect("a batch");
        columns(&batch, 0).map(|(columns, _)| columns)
    }

    /// A list of values that take no bytes in the file.
    fn nothing(count: i32) -> ArrayRef {
        let field = Arc::new(Field::new("item", DataType::Null, true));
        Arc::new(FixedSizeListArray::new(field, count, Arc::new(NullArray::new(count as usize)), None))
    }

    /// A list whose values are one text.
    fn repeated(count: i32, bytes: usize) -> ArrayRef {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(bytes)]));
        let keys = Int32Array::from(vec![0; count as usize]);
        let values = DictionaryArray::<Int32Type>::new(keys, texts);
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([count as usize]), Arc::new(values), None))
    }

    #[test]
    fn a_row_is_measured_before_it_is_made() {
        assert_eq!(read(nothing(2_000_000_000)), None);
        assert_eq!(read(repeated(20_000, 1 << 20)), None);
        assert_eq!(read(nothing(3)).expect("a row")["prompt"], serde_json::json!([null, null, null]));
        assert_eq!(read(repeated(2, 1)).expect("a row")["prompt"], serde_json::json!(["x", "x"]));
    }
}
