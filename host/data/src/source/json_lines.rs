//! Files with one JSON object per line.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use gymkhana_rows::MAX_ROW_BYTES;

use super::{Record, RecordIterator, json_columns, open_text};
use crate::error::{DataError, SourceLocation};

pub(super) fn records(path: PathBuf, split: Option<String>) -> Result<RecordIterator, DataError> {
    let mut file = BufReader::new(open_text(&path)?);
    let (mut number, mut line) = (0, Vec::new());
    Ok(Box::new(std::iter::from_fn(move || {
        loop {
            line.clear();
            number += 1;
            // One byte more than a row may have, so that a longer line is seen.
            let read = (&mut file).take(u64::from(MAX_ROW_BYTES) + 2).read_until(b'\n', &mut line);
            let place = || SourceLocation { file: path.clone(), unit: "line", number };
            match read {
                Err(error) => return Some(Err(DataError::read(&path)(error))),
                Ok(0) => return None,
                Ok(_) if without_mark(&line).iter().all(u8::is_ascii_whitespace) => {}
                Ok(length) => {
                    let is_cut = length as u64 > u64::from(MAX_ROW_BYTES) + 1;
                    if is_cut && let Err(error) = skip_line(&mut file) {
                        return Some(Err(DataError::read(&path)(error)));
                    }
                    let columns = match is_cut {
                        true => Err(format!("the line has more than {MAX_ROW_BYTES} bytes")),
                        false => json_columns(without_mark(&line)),
                    };
                    return Some(Ok(Record { place: place(), split: split.clone(), columns, left_out: vec![] }));
                }
            }
        }
    })))
}

/// Line without a byte order mark, which editors of some systems put before the first one.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Skips the rest of a line without keeping it.
fn skip_line(file: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let bytes = file.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (read, is_end) = end.map_or((bytes.len(), bytes.is_empty()), |end| (end + 1, true));
        file.consume(read);
        if is_end {
            return Ok(());
        }
    }
}
