//! Exclusive access to a project's files between reading and writing them.
//!
//! `host add` reads `gymkhana.toml` and `gymkhana.lock`, asks registries, and writes both. Without a lock, the last of
//! several commands would overwrite the changes of the others.

use std::fs::{File, TryLockError};
use std::path::Path;

use gymkhana_registry::open_lock_file;

use super::ProjectError;

/// Name of the file that is locked. It stays in the folder: removing it would let two processes lock different files.
const PROJECT_LOCK_FILE: &str = ".gymkhana.lock";

/// Exclusive access to the files of a project, until it is dropped.
#[derive(Debug)]
pub struct ProjectLock {
    _file: File,
}

impl ProjectLock {
    /// Waits for exclusive access to the project in a folder; `notify` gets a message before it waits.
    ///
    /// # Errors
    /// If the file cannot be locked.
    pub fn acquire(folder: &Path, notify: &dyn Fn(&str)) -> Result<Self, ProjectError> {
        let path = folder.join(PROJECT_LOCK_FILE);
        let cannot = |source| ProjectError::Exclusive { path: path.clone(), source };
        let file = open_lock_file(&path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                notify(&format!("waiting for another command that changes `{}`", folder.display()));
                file.lock().map_err(cannot)?;
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        Ok(Self { _file: file })
    }
}
