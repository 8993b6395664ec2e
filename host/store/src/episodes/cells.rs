//! Cells of a record batch by the name of their column.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, ListArray, RecordBatch};

/// Reason why a part cannot be written or read.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Text of a row.
pub(crate) fn text<'a>(batch: &'a RecordBatch, column: &str, row: usize) -> Result<&'a str, BoxError> {
    let texts = batch.column_by_name(column).and_then(|array| array.as_string_opt::<i32>());
    Ok(texts.ok_or_else(|| format!("text column `{column}` is missing"))?.value(row))
}

/// List of a row.
pub(crate) fn list(batch: &RecordBatch, column: &str, row: usize) -> Result<ArrayRef, BoxError> {
    let lists: Option<&ListArray> = batch.column_by_name(column).and_then(|array| array.as_list_opt());
    Ok(lists.ok_or_else(|| format!("list column `{column}` is missing"))?.value(row))
}

/// Numbers of a row's list.
pub(crate) fn values<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    column: &str,
    row: usize,
) -> Result<Vec<T::Native>, BoxError> {
    let array = list(batch, column, row)?;
    let values = array.as_primitive_opt::<T>().ok_or_else(|| format!("column `{column}` has another number type"))?;
    Ok(values.values().to_vec())
}
