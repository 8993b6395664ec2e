//! CSV files with a header. Values are texts.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use gymkhana_rows::MAX_ROW_BYTES;
use serde_json::Value as Json;

use super::{Record, RecordIterator, open_text};
use crate::error::{DataError, SourceLocation};

/// Bytes that the parser reads before it needs them.
const READ_AHEAD: u64 = 1 << 20;

pub(super) fn records(path: PathBuf, split: Option<String>) -> Result<RecordIterator, DataError> {
    let read = Rc::new(Cell::new(0));
    let lines = Rc::new(RefCell::new(LineCounter::default()));
    let separator = separator(&path)?;
    let file = Bounded { file: open_text(&path)?, read: Rc::clone(&read), lines: Rc::clone(&lines) };
    let mut reader = csv::ReaderBuilder::new().flexible(true).delimiter(separator).from_reader(file);
    let header = reader.headers().map_err(|error| wrong(&path, &error))?.clone();
    let mut records = reader.into_records();
    Ok(Box::new(std::iter::from_fn(move || {
        let place = |start: &csv::Position| {
            let number = lines.borrow_mut().of_record(start.byte());
            SourceLocation { file: path.clone(), unit: "line", number }
        };
        read.set(0);
        let record = match records.next()? {
            Ok(record) => record,
            Err(error) => {
                // A record of the wrong encoding is a bad row; the rest is a damaged file.
                let Some(position) = error.position().cloned().filter(|_| !error.is_io_error()) else {
                    return Some(Err(wrong(&path, &error)));
                };
                let columns = Err(error.to_string());
                return Some(Ok(Record { place: place(&position), split: split.clone(), columns, left_out: vec![] }));
            }
        };
        let columns = match record.len() == header.len() {
            true => {
                let pairs = header.iter().zip(&record).filter(|(_, value)| !value.is_empty());
                Ok(pairs.map(|(name, value)| (name.to_owned(), Json::from(value))).collect())
            }
            false => Err(format!("it has {} values, but the header has {}", record.len(), header.len())),
        };
        let start = record.position().cloned().unwrap_or_else(csv::Position::new);
        Some(Ok(Record { place: place(&start), split: split.clone(), columns, left_out: vec![] }))
    })))
}

/// The separator of a file's header: a semicolon or a tab if the header has no comma.
fn separator(path: &Path) -> Result<u8, DataError> {
    let mut header = Vec::new();
    let read = BufReader::new(open_text(path)?).take(READ_AHEAD).read_until(b'\n', &mut header);
    read.map_err(|error| wrong(path, &error.into()))?;
    let other = [b';', b'\t'].into_iter().find(|other| header.contains(other));
    Ok(other.filter(|_| !header.contains(&b',')).unwrap_or(b','))
}

/// Lines of the bytes that were read. The parser's own count is wrong after lines that end in CRLF, and after empty ones.
#[derive(Default)]
struct LineCounter {
    /// Bytes that no record has passed yet.
    pending: VecDeque<u8>,
    /// Place of the first of them in the file.
    start: u64,
    /// Line breaks before it.
    breaks: u64,
}

impl LineCounter {
    /// Line of the record that starts at a byte or behind line breaks there, from 1.
    fn of_record(&mut self, start: u64) -> u64 {
        while self.start < start || self.pending.front().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
            let Some(byte) = self.pending.pop_front() else { break };
            self.start += 1;
            self.breaks += u64::from(byte == b'\n');
        }
        self.breaks + 1
    }
}

/// A file of which only the bytes of one record are read at a time.
struct Bounded {
    file: File,
    /// Bytes since the last record.
    read: Rc<Cell<u64>>,
    lines: Rc<RefCell<LineCounter>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        self.lines.borrow_mut().pending.extend(&buffer[..read]);
        if self.read.get() > u64::from(MAX_ROW_BYTES) + READ_AHEAD {
            let why = format!("a record has more than {MAX_ROW_BYTES} bytes: a quote may be open");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(read)
    }
}

fn wrong(path: &Path, error: &csv::Error) -> DataError {
    DataError::Format { path: path.to_owned(), format: "CSV", why: error.to_string() }
}
