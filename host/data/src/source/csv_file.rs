//! CSV files with a header. Values are texts.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::rc::Rc;

use gymkhana_rows::MAX_ROW_BYTES;
use serde_json::Value as Json;

use super::{Record, Records, open_text};
use crate::error::{DataError, Place};

/// Bytes that the parser reads before it needs them.
const READ_AHEAD: u64 = 1 << 20;

pub(super) fn records(path: PathBuf, split: Option<String>) -> Result<Records, DataError> {
    let read = Rc::new(Cell::new(0));
    let file = Bounded { file: open_text(&path)?, read: Rc::clone(&read) };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let header = reader.headers().map_err(|error| wrong(&path, &error))?.clone();
    let mut records = reader.into_records();
    Ok(Box::new(std::iter::from_fn(move || {
        let place = |number| Place { file: path.clone(), unit: "line", number };
        read.set(0);
        let record = match records.next()? {
            Ok(record) => record,
            Err(error) => {
                // A record of the wrong encoding is a bad row; the rest is a damaged file.
                let Some(position) = error.position().cloned().filter(|_| !error.is_io_error()) else {
                    return Some(Err(wrong(&path, &error)));
                };
                let columns = Err(error.to_string());
                return Some(Ok(Record {
                    place: place(position.line()),
                    split: split.clone(),
                    columns,
                    left_out: vec![],
                }));
            }
        };
        let columns = match record.len() == header.len() {
            true => {
                let pairs = header.iter().zip(&record).filter(|(_, value)| !value.is_empty());
                Ok(pairs.map(|(name, value)| (name.to_owned(), Json::from(value))).collect())
            }
            false => Err(format!("it has {} values, but the header has {}", record.len(), header.len())),
        };
        let number = record.position().map_or(0, csv::Position::line);
        Some(Ok(Record { place: place(number), split: split.clone(), columns, left_out: vec![] }))
    })))
}

/// A file of which only the bytes of one record are read at a time.
struct Bounded {
    file: File,
    /// Bytes since the last record.
    read: Rc<Cell<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        if self.read.get() > u64::from(MAX_ROW_BYTES) + READ_AHEAD {
            let why = format!("a record has more than {MAX_ROW_BYTES} bytes: a quote may be open");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(read)
    }
}

fn wrong(path: &std::path::Path, error: &csv::Error) -> DataError {
    DataError::Format { path: path.to_owned(), format: "CSV", why: error.to_string() }
}
