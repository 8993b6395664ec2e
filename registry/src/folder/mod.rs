//! A registry's folder: what a static web server serves as it lies there, and what publishing adds to.
//!
//! `checkpoint.json` is the one file that changes; all others are named by their digest. Whoever changes the registry
//! holds a lock, writes the new files first and renames the new checkpoint into place last: a crash in between leaves
//! the old state whole, and readers never see half of a change.

mod change;
mod sweep;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use change::{Authority, FolderError};

use crate::contents::{disk, read_up_to};
use crate::{
    Accepted, CatalogueRow, CheckpointError, Contents, ContentsError, IndexError, Item, MAX_CHECKPOINT_BYTES,
    PluginName, PublicKey, Row, read_catalogue, read_index,
};

/// The file that changes.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";

/// A registry's folder.
#[derive(Debug, Clone)]
pub struct RegistryFolder {
    contents: Contents,
}

/// A registry's folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no registry.
    #[error("`{0}` holds no registry; check the path, or make one with `host registry init {0}`")]
    None(PathBuf),
    /// Its checkpoint is refused.
    #[error("the registry in `{path}` cannot be used")]
    Checkpoint {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: CheckpointError,
    },
    /// A file is refused.
    #[error("the registry in `{path}` is damaged")]
    Contents {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: ContentsError,
    },
    /// A file that the checkpoint names is missing.
    #[error("the registry in `{path}` lacks `{file}`, which its checkpoint names; restore it from a copy")]
    Missing {
        /// The folder.
        path: PathBuf,
        /// The file in it.
        file: String,
    },
    /// An index file is refused.
    #[error("plugin `{name}` in the registry `{path}` cannot be used")]
    Index {
        /// The folder.
        path: PathBuf,
        /// The plugin, or `catalogue`.
        name: String,
        /// Why.
        source: IndexError,
    },
}

impl RegistryFolder {
    /// The registry in this folder.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        if !folder.join(CHECKPOINT_FILE).is_file() {
            return Err(ReadError::None(folder.to_owned()));
        }
        Ok(Self::at(folder))
    }

    /// The registry that is or will be in this folder.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { contents: Contents::new(folder.to_owned()) }
    }

    /// Shows a checkpoint that another registry has signed, when all that it names is there: so a mirror goes on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn show(&self, checkpoint: &str) -> Result<(), ContentsError> {
        let path = self.path().join(CHECKPOINT_FILE);
        crate::write_atomically(&path, checkpoint.as_bytes()).map_err(disk("written", &path))
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.contents.folder()
    }

    /// Its files by digest.
    #[must_use]
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The checkpoint's file as it is now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn checkpoint_text(&self) -> Result<String, ReadError> {
        let path = self.path().join(CHECKPOINT_FILE);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => ReadError::None(self.path().to_owned()),
            _ => self.broken(disk("read", &path)(error)),
        };
        let bytes = read_up_to(&path, MAX_CHECKPOINT_BYTES).map_err(failed)?;
        String::from_utf8(bytes).map_err(|_| self.broken(ContentsError::Changed { path: path.clone() }))
    }

    /// The state of the registry, signed by this root key or by one that it handed over to; with none it is an unsigned
    /// folder, whose checkpoint is taken as it stands.
    ///
    /// # Errors
    /// If it cannot be read, or the signature is wrong.
    pub fn state(&self, root: Option<&PublicKey>) -> Result<Accepted, ReadError> {
        let text = self.checkpoint_text()?;
        let accepted = match root {
            Some(root) => Accepted::signed(&text, root),
            None => Accepted::unsigned(&text),
        };
        accepted.map_err(|source| ReadError::Checkpoint { path: self.path().to_owned(), source })
    }

    /// The versions of a plugin; none if the registry does not have it.
    ///
    /// # Errors
    /// If its index file is missing, changed or damaged.
    pub fn rows(&self, state: &Accepted, name: &PluginName) -> Result<Vec<Row>, ReadError> {
        let Some(digest) = state.checkpoint.index.get(name) else { return Ok(Vec::new()) };
        let text = self.text(&Item::Index(name.clone(), *digest))?;
        read_index(name, &text).map_err(|source| self.bad_index(name.to_string(), source))
    }

    /// The catalogue.
    ///
    /// # Errors
    /// If it is missing, changed or damaged.
    pub fn catalogue(&self, state: &Accepted) -> Result<Vec<CatalogueRow>, ReadError> {
        let text = self.text(&Item::Catalogue(state.checkpoint.catalogue))?;
        read_catalogue(&text).map_err(|source| self.bad_index("catalogue".to_owned(), source))
    }

    fn text(&self, item: &Item) -> Result<String, ReadError> {
        let missing = || ReadError::Missing { path: self.path().to_owned(), file: item.path() };
        let bytes = self.contents.read(item).map_err(|error| self.broken(error))?.ok_or_else(missing)?;
        String::from_utf8(bytes).map_err(|_| self.broken(ContentsError::Changed { path: self.contents.path(item) }))
    }

    fn broken(&self, source: ContentsError) -> ReadError {
        ReadError::Contents { path: self.path().to_owned(), source }
    }

    fn bad_index(&self, name: String, source: IndexError) -> ReadError {
        ReadError::Index { path: self.path().to_owned(), name, source }
    }

    /// Whether the folder is empty or not there, so that a registry can be made in it.
    pub(crate) fn is_free(folder: &Path) -> io::Result<bool> {
        match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            other => Ok(other?.next().is_none()),
        }
    }
}
