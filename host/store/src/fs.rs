//! Files of a run's folder: whole writes and listings.

use std::fs;
use std::path::Path;

use gymkhana_registry::write_atomically;

use crate::StoreError;

/// Writes a file atomically: either whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_atomically(path, bytes).map_err(|source| StoreError::io(path, source))
}

/// Names of the entries of a folder.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |source| StoreError::io(folder, source);
    let entries = fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned())).collect()
}
