//! Writes a file of rows in one pass. Memory holds the index: 12 bytes for each row.

use std::io::{self, Write};

use crate::{MAGIC, MAX_ROW_BYTES, MAX_SPLIT_NAME, MAX_SPLITS};

/// Why rows cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be written.
    #[error("the file cannot be written")]
    Io(#[from] io::Error),
    /// A row is too long.
    #[error("the row has {0} bytes, but the limit is {MAX_ROW_BYTES}")]
    LongRow(usize),
    /// There are too many splits.
    #[error("there are more than {MAX_SPLITS} splits")]
    ManySplits,
    /// The name of a split is empty or too long.
    #[error("the name of a split has {0} bytes; it must have 1 to {MAX_SPLIT_NAME}")]
    SplitName(usize),
}

/// Rows of a split so far.
struct Rows {
    name: String,
    entries: Vec<u8>,
}

/// Writes rows.
pub struct Writer<W> {
    out: W,
    position: u64,
    splits: Vec<Rows>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W) -> Result<Self, WriteError> {
        out.write_all(&MAGIC)?;
        Ok(Self { out, position: MAGIC.len() as u64, splits: Vec::new() })
    }

    /// Adds a row, one line of JSON, to a split.
    ///
    /// # Errors
    /// If the row or the name is too long, if there are too many splits, or if the file cannot be written.
    pub fn add(&mut self, split: &str, row: &[u8]) -> Result<(), WriteError> {
        let length = u32::try_from(row.len()).ok().filter(|length| *length <= MAX_ROW_BYTES);
        let length = length.ok_or(WriteError::LongRow(row.len()))?;
        let (position, place) = (self.position, self.place(split)?);
        self.out.write_all(row)?;
        self.out.write_all(b"\n")?;
        self.position += u64::from(length) + 1;
        let entries = &mut self.splits[place].entries;
        entries.extend(position.to_le_bytes());
        entries.extend(length.to_le_bytes());
        Ok(())
    }

    fn place(&mut self, split: &str) -> Result<usize, WriteError> {
        if let Some(place) = self.splits.iter().position(|rows| rows.name == split) {
            return Ok(place);
        }
        if self.splits.len() == MAX_SPLITS {
            return Err(WriteError::ManySplits);
        }
        if !(1..=MAX_SPLIT_NAME).contains(&split.len()) {
            return Err(WriteError::SplitName(split.len()));
        }
        self.splits.push(Rows { name: split.to_owned(), entries: Vec::new() });
        Ok(self.splits.len() - 1)
    }

    /// Writes the index and returns the output, which the caller must flush.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<W, WriteError> {
        let mut described = Vec::from((self.splits.len() as u32).to_le_bytes());
        for Rows { name, entries } in &self.splits {
            described.extend((name.len() as u32).to_le_bytes());
            described.extend(name.as_bytes());
            described.extend((entries.len() as u64 / crate::ENTRY).to_le_bytes());
            described.extend(self.position.to_le_bytes());
            self.out.write_all(entries)?;
            self.position += entries.len() as u64;
        }
        self.out.write_all(&described)?;
        self.out.write_all(&self.position.to_le_bytes())?;
        self.out.write_all(&MAGIC)?;
        Ok(self.out)
    }
}
