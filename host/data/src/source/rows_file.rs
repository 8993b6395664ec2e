//! Files that `host data import` wrote.

use std::io;
use std::path::{Path, PathBuf};

use gymkhana_rows::{OnDisk, ReadError, Reader};

use super::{Record, Records, open};
use crate::error::{DataError, Place};

pub(super) fn records(path: PathBuf) -> Result<Records, DataError> {
    // Refuses a pipe, at which the next line would wait.
    open(&path)?;
    let file = OnDisk::open(&path).map_err(DataError::read(&path))?;
    let reader = Reader::open(file).map_err(|error| wrong(&path, error))?;
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
                Ok(Record { place, split: Some(name), columns, left_out: vec![] })
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
