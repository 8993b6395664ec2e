//! Sizes of a Parquet file's pages, checked by their headers before a value is decoded.
//!
//! A page of some bytes can unfold to gigabytes: by compression, by a dictionary whose long entry many rows name, by
//! values that share prefixes, and by runs of equal levels. Limits grow with the bytes that the file spends, so that large
//! honest pages are read. Source of the headers: parquet-format, `parquet.thrift`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use gymkhana_rows::MAX_ROW_BYTES;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::thrift::{StructFields, ThriftValue};

/// Rows that are read at once.
const BATCH: u64 = 1024;
/// Bytes of values that a batch may have.
const BATCH_BYTES: u64 = 256 << 20;
/// Size of a page that any file may have, in bytes.
const PAGE_BYTES: u64 = 64 << 20;
/// Bytes of a page for each byte in the file, beyond that size.
const PAGE_RATIO: u64 = 16;
/// Bytes for levels and lengths in a page.
const LEVEL_BYTES: u64 = 64 << 10;
/// Values of a column with lists that any row group may have.
const LIST_VALUES: u64 = 16 << 20;
/// Values of such a column for each byte in the file, beyond that number.
const LIST_RATIO: u64 = 64;
/// Largest header of a page in bytes.
const MAX_HEADER: usize = 1 << 20;
/// Bytes that are read for a header at first.
const USUAL_HEADER: usize = 4 << 10;
/// Code of the encoding in which values share prefixes.
const DELTA_BYTE_ARRAY: i64 = 7;

/// Checks all pages. Returns the number of rows that can be decoded at once.
pub(super) fn check(file: &File, metadata: &ParquetMetaData) -> Result<usize, String> {
    let mut rows = BATCH;
    for group in metadata.row_groups() {
        let mut longest = 0_u64;
        for column in group.columns() {
            let name = column.column_path().string();
            longest += check_column(file, column).map_err(|why| format!("column `{name}` {why}"))?;
        }
        rows = rows.min((BATCH_BYTES / longest.max(1)).max(1));
    }
    Ok(usize::try_from(rows).unwrap_or(1))
}

/// Checks the pages of a column. Returns how long a value can be that other values are made from, in bytes.
fn check_column(file: &File, column: &ColumnChunkMetaData) -> Result<u64, String> {
    let (begin, length) = column.byte_range();
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let end = begin.checked_add(length).filter(|end| *end <= size).ok_or("lies outside of the file")?;
    let is_list = column.column_descr().max_rep_level() > 0;
    let values = u64::try_from(column.num_values()).unwrap_or(u64::MAX);
    if is_list && values > LIST_VALUES.saturating_add(LIST_RATIO.saturating_mul(length)) {
        return Err(format!("has {values} values in {length} bytes"));
    }
    let (mut at, mut longest) = (begin, 0);
    while at < end {
        let (header, bytes) = header(file, at, end)?;
        let page = PageHeader::of(&header).ok_or("has a page with a damaged header")?;
        page.check()?;
        if page.is_source {
            longest = longest.max(page.bytes);
        }
        at = at.saturating_add(bytes).saturating_add(page.stored);
    }
    Ok(longest)
}

/// What the header of a page says.
struct PageHeader {
    /// Size in bytes after decompression.
    bytes: u64,
    /// Size in the file.
    stored: u64,
    /// Number of values.
    values: u64,
    /// Whether other values are made from its values: of a dictionary, or of prefixes.
    is_source: bool,
}

impl PageHeader {
    fn of(header: &StructFields) -> Option<Self> {
        let size = |id| header.integer(id).and_then(|size| u64::try_from(size).ok());
        let of_values = |fields: &StructFields, id| fields.integer(id);
        let (values, is_source) = match (header.fields(5), header.fields(7), header.fields(8)) {
            (Some(data), _, _) => (data.integer(1)?, of_values(data, 2) == Some(DELTA_BYTE_ARRAY)),
            (_, Some(dictionary), _) => (dictionary.integer(1)?, true),
            (_, _, Some(data)) => (data.integer(1)?, of_values(data, 4) == Some(DELTA_BYTE_ARRAY)),
            // An index, which is not read.
            _ => (0, false),
        };
        Some(Self { bytes: size(2)?, stored: size(3)?, values: u64::try_from(values).ok()?, is_source })
    }

    fn check(&self) -> Result<(), String> {
        let row = u64::from(MAX_ROW_BYTES);
        if self.bytes > self.values.max(1).saturating_mul(row).saturating_add(LEVEL_BYTES) {
            return Err(format!("has a value of more than {row} bytes"));
        }
        let most = PAGE_BYTES.saturating_add(PAGE_RATIO.saturating_mul(self.stored));
        if self.bytes > most {
            return Err(format!(
                "has a page of {} bytes, which are {} bytes in the file; write the file with smaller pages",
                self.bytes, self.stored
            ));
        }
        Ok(())
    }
}

/// The header of a page that begins at an offset, and its length in bytes.
fn header(file: &File, at: u64, end: u64) -> Result<(StructFields, u64), String> {
    let room = usize::try_from(end - at).unwrap_or(usize::MAX).min(MAX_HEADER);
    for length in [USUAL_HEADER.min(room), room] {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at).map_err(|error: io::Error| error.to_string())?;
        let mut rest = &bytes[..];
        if let Some(fields) = StructFields::read(&mut rest) {
            return Ok((fields, (length - rest.len()) as u64));
        }
    }
    Err("has a page with a damaged header".to_owned())
}

impl StructFields {
    fn integer(&self, id: i16) -> Option<i64> {
        match self.get(id)? {
            ThriftValue::Integer(value) => Some(*value),
            _ => None,
        }
    }

    fn fields(&self, id: i16) -> Option<&StructFields> {
        match self.get(id)? {
            ThriftValue::Struct(fields) => Some(fields),
            _ => None,
        }
    }
}
