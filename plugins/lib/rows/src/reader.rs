//! Reads single rows.

use crate::{ENTRY, MAGIC, MAX_ROW_BYTES, MAX_SPLIT_NAME, MAX_SPLITS, TAIL};

/// Most bytes of the part `splits`.
const MAX_SPLITS_BYTES: u64 = 4 + (MAX_SPLITS * (MAX_SPLIT_NAME + 20)) as u64;

/// Damage of a file that was cut off.
const NO_END: &str = "its end is missing";

/// Bytes that are read from any place.
pub trait ReadAt {
    /// Why a read failed.
    type Error;

    /// Number of bytes.
    fn size(&self) -> u64;

    /// `length` bytes from `position`, or fewer at the end.
    ///
    /// # Errors
    /// If the bytes cannot be read.
    fn read_at(&self, position: u64, length: u32) -> Result<Vec<u8>, Self::Error>;
}

/// Why a row or the splits cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError<E> {
    /// The bytes cannot be read.
    #[error("the file cannot be read")]
    Source(#[source] E),
    /// The file is not of this format.
    #[error("the file has no rows of `host data import`")]
    NotRows,
    /// The file is damaged.
    #[error("the file is damaged: {0}")]
    Damaged(&'static str),
    /// The split has no such row.
    #[error("split `{split}` has {rows} rows, not row {row}")]
    NoRow {
        /// Split.
        split: String,
        /// Its number of rows.
        rows: u64,
        /// Row that was asked for.
        row: u64,
    },
}

/// Split of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Name.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Position of its index.
    index: u64,
}

/// Rows of a file.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    splits: Vec<Split>,
}

/// Whether bytes begin like a file of rows.
#[must_use]
pub fn is_rows(begin: &[u8]) -> bool {
    begin.starts_with(&MAGIC)
}

impl<R: ReadAt> Reader<R> {
    /// Reads the splits.
    ///
    /// # Errors
    /// If the file is of another format or damaged, or cannot be read.
    pub fn open(source: R) -> Result<Self, ReadError<R::Error>> {
        let splits = read_splits(&source)?;
        Ok(Self { source, splits })
    }

    /// Splits in the order in which they were written.
    #[must_use]
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Bytes of a row of a split, which is given by its place in [`Self::splits`].
    ///
    /// # Errors
    /// If there is no such row, or if it cannot be read.
    ///
    /// # Panics
    /// If there is no such split.
    pub fn row(&self, split: usize, row: u64) -> Result<Vec<u8>, ReadError<R::Error>> {
        let Split { name, rows, index } = &self.splits[split];
        if row >= *rows {
            return Err(ReadError::NoRow { split: name.clone(), rows: *rows, row });
        }
        let entry = exactly(&self.source, index + row * ENTRY, ENTRY as u32)?;
        let (position, length) = (number(&entry[..8]), number(&entry[8..]) as u32);
        let fits = position.checked_add(u64::from(length)).is_some_and(|end| end <= self.source.size());
        if length > MAX_ROW_BYTES || !fits {
            return Err(ReadError::Damaged("a row is outside of the file"));
        }
        exactly(&self.source, position, length)
    }
}

fn read_splits<R: ReadAt>(source: &R) -> Result<Vec<Split>, ReadError<R::Error>> {
    let head = source.read_at(0, MAGIC.len() as u32).map_err(ReadError::Source)?;
    if !is_rows(&head) {
        return Err(ReadError::NotRows);
    }
    let end = source.size().checked_sub(TAIL).ok_or(ReadError::Damaged(NO_END))?;
    let tail = exactly(source, end, TAIL as u32)?;
    let start = number(&tail[..8]);
    if tail[8..] != MAGIC || start > end {
        return Err(ReadError::Damaged(NO_END));
    }
    if end - start > MAX_SPLITS_BYTES {
        return Err(ReadError::Damaged("it has too many splits"));
    }
    let bytes = exactly(source, start, (end - start) as u32)?;
    parse_splits(&bytes, start).ok_or(ReadError::Damaged("its splits cannot be read"))
}

/// Splits of the part `splits`, whose index ends at `end` or before.
fn parse_splits(bytes: &[u8], end: u64) -> Option<Vec<Split>> {
    let (count, mut rest) = bytes.split_at_checked(4)?;
    let mut splits = Vec::new();
    for _ in 0..number(count) {
        let (length, after) = rest.split_at_checked(4)?;
        let (name, after) = after.split_at_checked(number(length) as usize)?;
        let (numbers, after) = after.split_at_checked(16)?;
        let (rows, index) = (number(&numbers[..8]), number(&numbers[8..]));
        let is_inside = rows.checked_mul(ENTRY)?.checked_add(index)? <= end;
        if !is_inside || name.len() > MAX_SPLIT_NAME || splits.len() == MAX_SPLITS {
            return None;
        }
        splits.push(Split { name: String::from_utf8(name.to_vec()).ok()?, rows, index });
        rest = after;
    }
    rest.is_empty().then_some(splits)
}

/// Exactly `length` bytes.
fn exactly<R: ReadAt>(source: &R, position: u64, length: u32) -> Result<Vec<u8>, ReadError<R::Error>> {
    let bytes = source.read_at(position, length).map_err(ReadError::Source)?;
    if bytes.len() == length as usize { Ok(bytes) } else { Err(ReadError::Damaged("it is shorter than it was")) }
}

/// Little-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
