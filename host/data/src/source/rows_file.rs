//! Files that `host data import` wrote.

use std::io;
use std::path::{Path, PathBuf};

use gymkhana_rows::{OnDisk, ReadError, Reader};

use super::unfolding::Unfolding;
use super::{Record, RecordIterator, json_columns, open};
use crate::error::{DataError, SourceLocation};

const FORMAT: &str = "rows of `host data import`";

pub(super) fn records(path: PathBuf) -> Result<RecordIterator, DataError> {
    // Refuses a pipe, at which the next line would wait.
    let mut unfolding = Unfolding::of(&open(&path)?).map_err(DataError::read(&path))?;
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
        let place = SourceLocation { file: path.clone(), unit: "row", number };
        Some(match reader.row(split, row) {
            Err(error) => Err(wrong(&path, error)),
            Ok(line) => match unfolding.take(line.len() as u64) {
                Ok(()) => Ok(Record { place, split: Some(name), columns: json_columns(&line), left_out: vec![] }),
                Err(why) => Err(DataError::Format { path: path.clone(), format: FORMAT, why }),
            },
        })
    })))
}

fn wrong(path: &Path, error: ReadError<io::Error>) -> DataError {
    match error {
        ReadError::Source(source) => DataError::read(path)(source),
        other => DataError::Format { path: path.to_owned(), format: FORMAT, why: other.to_string() },
    }
}
