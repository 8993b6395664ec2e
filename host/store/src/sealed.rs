//! Text files of a run's folder that hold their own digest: JSON objects and TOML files.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use gymkhana_registry::read_regular_file;

use crate::StoreError;
use crate::fs::write;
use crate::seal::TEXT;

/// Start of the TOML comment that holds the digest.
const COMMENT: &str = "# ";
/// Field of a JSON object that holds the digest.
const FIELD: &str = "digest";

/// Writes a JSON object with its digest as last field.
pub(crate) fn write_json<T: Serialize>(path: &Path, object: &T) -> Result<(), StoreError> {
    #[derive(Serialize)]
    struct Sealed<'a, T> {
        #[serde(flatten)]
        object: &'a T,
        digest: String,
    }
    let sealed = Sealed { object, digest: TEXT.unsealed() };
    let mut bytes = serde_json::to_vec_pretty(&sealed).map_err(|source| StoreError::json(path, source))?;
    bytes.push(b'\n');
    TEXT.seal(&mut bytes);
    write(path, &bytes)
}

/// Reads a JSON object without its digest, after verifying it and the schema number. `None` if the file does not exist.
pub(crate) fn read_json(path: &Path, known: u32) -> Result<Option<Map<String, Value>>, StoreError> {
    let bytes = match read_regular_file(path) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::io(path, source)),
    };
    let mut object: Map<String, Value> =
        serde_json::from_slice(&bytes).map_err(|source| StoreError::json(path, source))?;
    verify(path, &bytes)?;
    object.remove(FIELD);
    let schema = object.get("schema").and_then(Value::as_u64).and_then(|schema| u32::try_from(schema).ok());
    match schema {
        Some(schema) if schema == known => Ok(Some(object)),
        found => Err(StoreError::Schema { path: path.to_owned(), found: found.unwrap_or(0), known }),
    }
}

/// Writes a TOML text with its digest in a comment at the end.
pub(crate) fn write_toml(path: &Path, text: &str) -> Result<(), StoreError> {
    let mut bytes = format!("{text}{COMMENT}{}\n", TEXT.unsealed()).into_bytes();
    TEXT.seal(&mut bytes);
    write(path, &bytes)
}

/// Reads a TOML text without the comment, after verifying the digest.
pub(crate) fn read_toml(path: &Path) -> Result<String, StoreError> {
    let failed = |source| StoreError::io(path, source);
    let bytes = read_regular_file(path).map_err(failed)?;
    let invalid = |error| failed(io::Error::new(io::ErrorKind::InvalidData, error));
    let mut text = String::from_utf8(bytes).map_err(invalid)?;
    let mark = verify(path, text.as_bytes())?;
    text.truncate(mark.saturating_sub(COMMENT.len()));
    Ok(text)
}

fn verify(path: &Path, bytes: &[u8]) -> Result<usize, StoreError> {
    TEXT.verify(bytes).map_err(|what| StoreError::Altered { path: path.to_owned(), what })
}
