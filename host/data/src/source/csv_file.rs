//! CSV files with a header. Values are texts.

use std::path::PathBuf;

use serde_json::Value as Json;

use super::{Record, Records};
use crate::error::{DataError, Place};

pub(super) fn records(path: PathBuf, split: Option<String>) -> Result<Records, DataError> {
    let file = std::fs::File::open(&path).map_err(DataError::read(&path))?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let header = reader.headers().map_err(|error| wrong(&path, &error))?.clone();
    let mut records = reader.into_records();
    Ok(Box::new(std::iter::from_fn(move || {
        let place = |number| Place { file: path.clone(), unit: "line", number };
        let record = match records.next()? {
            Ok(record) => record,
            Err(error) => {
                // A record of the wrong encoding is a bad row; the rest is a damaged file.
                let Some(position) = error.position().cloned().filter(|_| !error.is_io_error()) else {
                    return Some(Err(wrong(&path, &error)));
                };
                let columns = Err(error.to_string());
                return Some(Ok(Record { place: place(position.line()), split: split.clone(), columns }));
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
        Some(Ok(Record { place: place(number), split: split.clone(), columns }))
    })))
}

fn wrong(path: &std::path::Path, error: &csv::Error) -> DataError {
    DataError::Format { path: path.to_owned(), format: "CSV", why: error.to_string() }
}
