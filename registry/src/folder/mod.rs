//! A registry folder: the files that a static web server serves and that publishing extends.
//!
//! `checkpoint.json` is the only mutable file; all others are named by their digest. A writer holds a lock, writes the
//! new files first and renames the new checkpoint into place last. A crash in between leaves the previous state intact,
//! and readers never see a partial change.

mod cleanup;
mod edit;
mod error;
mod replaced;

use std::fs;
use std::io;
use std::path::Path;

pub use edit::Authority;
pub use error::{FolderError, FolderReadError};

use crate::content_store::{disk, read_up_to};
use crate::{
    AcceptedCheckpoint, CatalogueRow, ContentFile, ContentStore, ContentStoreError, IndexError, IndexRow,
    MAX_CHECKPOINT_BYTES, PluginName, PublicKey, Release, read_catalogue, read_index,
};

/// Name of the checkpoint file.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";

/// A registry folder on this machine.
#[derive(Debug, Clone)]
pub struct RegistryFolder {
    store: ContentStore,
}

impl RegistryFolder {
    /// Opens an existing registry.
    ///
    /// # Errors
    /// If the folder has no checkpoint.
    pub fn open(folder: &Path) -> Result<Self, FolderReadError> {
        if !folder.join(CHECKPOINT_FILE).is_file() {
            return Err(FolderReadError::NotARegistry(folder.to_owned()));
        }
        Ok(Self::at(folder))
    }

    /// Registry at a path, which may not exist yet.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { store: ContentStore::new(folder.to_owned()) }
    }

    /// Writes a checkpoint that another registry signed, after all files that it references were copied.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_checkpoint(&self, checkpoint: &str) -> Result<(), ContentStoreError> {
        let path = self.path().join(CHECKPOINT_FILE);
        crate::write_atomically(&path, checkpoint.as_bytes()).map_err(disk("write", &path))
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.store.folder()
    }

    /// Content-addressed files of the registry.
    #[must_use]
    pub fn content_store(&self) -> &ContentStore {
        &self.store
    }

    /// Current text of the checkpoint file.
    ///
    /// # Errors
    /// If the file cannot be read or is not UTF-8.
    pub fn checkpoint_text(&self) -> Result<String, FolderReadError> {
        let path = self.path().join(CHECKPOINT_FILE);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => FolderReadError::NotARegistry(self.path().to_owned()),
            _ => self.damaged(disk("read", &path)(error)),
        };
        let bytes = read_up_to(&path, MAX_CHECKPOINT_BYTES).map_err(failed)?;
        String::from_utf8(bytes).map_err(|_| self.damaged(ContentStoreError::Changed { path: path.clone() }))
    }

    /// Verified state of the registry. `root` is the pinned root key or one of its predecessors; `None` accepts the
    /// checkpoint of an unsigned folder without verification.
    ///
    /// # Errors
    /// If the checkpoint cannot be read or its signature is invalid.
    pub fn state(&self, root: Option<&PublicKey>) -> Result<AcceptedCheckpoint, FolderReadError> {
        let text = self.checkpoint_text()?;
        let accepted = match root {
            Some(root) => AcceptedCheckpoint::verify_signature(&text, root),
            None => AcceptedCheckpoint::unsigned(&text),
        };
        accepted.map_err(|source| FolderReadError::Checkpoint { path: self.path().to_owned(), source })
    }

    /// Index rows of a plugin; empty if the registry does not have it.
    ///
    /// # Errors
    /// If the index file is missing, modified or damaged.
    pub fn rows(&self, state: &AcceptedCheckpoint, name: &PluginName) -> Result<Vec<IndexRow>, FolderReadError> {
        let Some(digest) = state.checkpoint.index.get(name) else { return Ok(Vec::new()) };
        let bytes = self.bytes(&ContentFile::Index(name.clone(), *digest))?;
        read_index(name, &bytes).map_err(|source| self.bad_index(name.to_string(), source))
    }

    /// Release of an index row, with a valid signature of the row's signer.
    ///
    /// # Errors
    /// If the release file is missing, modified or damaged.
    pub fn release(&self, row: &IndexRow) -> Result<Release, FolderReadError> {
        let file = self.bytes(&ContentFile::Release(row.release))?;
        Release::read(&file, row.signer.as_ref()).map_err(|source| FolderReadError::Release {
            path: self.path().to_owned(),
            release: format!("`{}` {}", row.name, row.version),
            source: Box::new(source),
        })
    }

    /// Catalogue of the registry.
    ///
    /// # Errors
    /// If the catalogue is missing, modified or damaged.
    pub fn catalogue(&self, state: &AcceptedCheckpoint) -> Result<Vec<CatalogueRow>, FolderReadError> {
        let bytes = self.bytes(&ContentFile::Catalogue(state.checkpoint.catalogue))?;
        read_catalogue(&bytes).map_err(|source| self.bad_index("catalogue".to_owned(), source))
    }

    fn bytes(&self, file: &ContentFile) -> Result<Vec<u8>, FolderReadError> {
        let missing = || FolderReadError::Missing { path: self.path().to_owned(), file: file.path() };
        self.store.read(file).map_err(|error| self.damaged(error))?.ok_or_else(missing)
    }

    fn damaged(&self, source: ContentStoreError) -> FolderReadError {
        FolderReadError::Contents { path: self.path().to_owned(), source }
    }

    fn bad_index(&self, name: String, source: IndexError) -> FolderReadError {
        FolderReadError::Index { path: self.path().to_owned(), name, source }
    }

    /// Returns true if the folder is empty or does not exist.
    pub(crate) fn is_free(folder: &Path) -> io::Result<bool> {
        match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            other => Ok(other?.next().is_none()),
        }
    }
}
