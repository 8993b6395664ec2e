//! Exclusive access to a project's files between reading and writing them.
//!
//! `host add` reads `gymkhana.toml` and `gymkhana.lock`, asks registries, and writes both. Without a lock, the last of
//! several commands would overwrite the changes of the others.

use std::fs::{File, TryLockError};
use std::path::Path;

use gymkhana_registry::open_lock_file;

use crate::error::{Classify, CliResult};
use crate::printer::Printer;

/// Name of the file that is locked. It stays in the folder: removing it would let two processes lock different files.
const PROJECT_LOCK_FILE: &str = ".gymkhana.lock";

/// Exclusive access to the files of a project, until it is dropped.
#[derive(Debug)]
pub struct ProjectLock {
    _file: File,
}

impl ProjectLock {
    /// Waits for exclusive access to the project in a folder.
    pub fn acquire(folder: &Path, printer: &Printer) -> CliResult<Self> {
        let path = folder.join(PROJECT_LOCK_FILE);
        let cannot = || format!("cannot lock the project with `{}`\nhint: check its permissions", path.display());
        let file = open_lock_file(&path).user_context(cannot())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                printer.status(format!("waiting for another command that changes `{}`", folder.display()));
                file.lock().user_context(cannot())?;
            }
            Err(TryLockError::Error(error)) => return Err::<Self, _>(error).user_context(cannot()),
        }
        Ok(Self { _file: file })
    }
}
