//! Files that `host data import` wrote.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gymkhana_rows::{ReadAt, ReadError, Reader};

use super::{Record, Records};
use crate::error::{DataError, Place};

/// A file on disk.
struct OnDisk {
    file: File,
    size: u64,
}

impl ReadAt for OnDisk {
    type Error = io::Error;

    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, position: u64, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let mut read = 0;
        while read < bytes.len() {
            match self.file.read_at(&mut bytes[read..], position + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }
}

pub(super) fn records(path: PathBuf) -> Result<Records, DataError> {
    let file = File::open(&path).map_err(DataError::read(&path))?;
    let size = file.metadata().map_err(DataError::read(&path))?.len();
    let reader = Reader::open(OnDisk { file, size }).map_err(|error| wrong(&path, error))?;
    let rows: Vec<_> = reader.splits().iter().map(|split| (split.name.clone(), split.rows)).collect();
    let places = rows
        .into_iter()
        .enumerate()
        .flat_map(|(index, (name, rows))| (0..rows).map(move |row| (index, name.clone(), row)));
    let mut places = places;
    let mut number = 0;
    Ok(Box::new(std::iter::from_fn(move || {
        let (split, name, row) = places.next()?;
        number += 1;
        let place = Place { file: path.clone(), unit: "row", number };
        Some(match reader.row(split, row) {
            Err(error) => Err(wrong(&path, error)),
            Ok(line) => {
                let columns = serde_json::from_slice(&line).map_err(|error| format!("no JSON object: {error}"));
                Ok(Record { place, split: Some(name), columns })
            }
        })
    })))
}

fn wrong(path: &Path, error: ReadError<io::Error>) -> DataError {
    match error {
        ReadError::Source(source) => DataError::read(path)(source),
        other => {
            DataError::Format { path: path.to_owned(), format: "rows of `host data import`", why: other.to_string() }
        }
    }
}
