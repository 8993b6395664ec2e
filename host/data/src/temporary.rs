//! Files that get their name when they are complete.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// A file that is removed unless it is kept.
pub(crate) struct Temporary {
    path: PathBuf,
    pub file: File,
}

impl Temporary {
    /// Creates the file beside the one that it becomes.
    pub fn create(out: &Path) -> Result<Self, DataError> {
        let mut path = out.to_owned().into_os_string();
        path.push(format!(".{}.tmp", std::process::id()));
        let path = PathBuf::from(path);
        let file = File::create(&path).map_err(|error| DataError::written(out, error))?;
        Ok(Self { path, file })
    }

    /// Gives the file its name; returns its size.
    pub fn keep(self, out: &Path) -> Result<u64, DataError> {
        let written = |error| DataError::written(out, error);
        self.file.sync_all().map_err(written)?;
        let bytes = self.file.metadata().map_err(written)?.len();
        fs::rename(&self.path, out).map_err(written)?;
        Ok(bytes)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After `keep` there is none.
        let _absent = fs::remove_file(&self.path);
    }
}
