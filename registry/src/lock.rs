//! `gymkhana.lock`: which plugins a run uses, by name, version and digest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::{Capability, ContractStamp, Digest, Kind, Manifest, PluginName, write_atomically};

/// The usual name of a lock file.
pub const LOCK_FILE: &str = "gymkhana.lock";

/// The number of the lock file's shape.
pub const LOCK_SCHEMA: u32 = 1;

/// One plugin, pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockEntry {
    /// Its name.
    pub name: PluginName,
    /// Its version.
    pub version: Version,
    /// The sha256 of its file.
    pub digest: Digest,
    /// What it offers.
    pub kinds: BTreeSet<Kind>,
    /// What it may ask for; a wider set needs fresh consent.
    pub capabilities: BTreeSet<Capability>,
    /// The contract that it was built with.
    pub contract: ContractStamp,
}

impl LockEntry {
    /// Pins the plugin of this manifest to its file's digest.
    #[must_use]
    pub fn new(manifest: &Manifest, digest: Digest) -> Self {
        Self {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest,
            kinds: manifest.kinds.clone(),
            capabilities: manifest.capabilities.clone(),
            contract: manifest.contract.clone(),
        }
    }
}

/// The plugins of a run, sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    schema: u32,
    #[serde(default, rename = "plugin")]
    entries: Vec<LockEntry>,
}

/// A lock cannot be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Two plugins of one name.
    #[error("two plugins are named `{name}` (digests {first:.12} and {second:.12}); leave one of them out")]
    Twice {
        /// The name.
        name: PluginName,
        /// One file's digest.
        first: String,
        /// The other file's digest.
        second: String,
    },
    /// The file cannot be read.
    #[error("lock file `{path}` cannot be read; restore it from a copy, or let this user read it")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no lock file.
    #[error("lock file `{path}` is damaged; restore it from a copy")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<toml::de::Error>,
    },
    /// The file's shape is newer than this host.
    #[error("lock file `{path}` has schema {found} and this host reads {LOCK_SCHEMA}; use a newer host")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// The file cannot be written.
    #[error("lock file `{path}` cannot be written; free space and check that this user may write there")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Lock {
    /// A lock of these plugins, in any order.
    ///
    /// # Errors
    /// If two have the same name.
    pub fn new(mut entries: Vec<LockEntry>) -> Result<Self, LockError> {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some([first, second]) = entries.array_windows().find(|[first, second]| first.name == second.name) {
            return Err(LockError::Twice {
                name: first.name.clone(),
                first: first.digest.to_string(),
                second: second.digest.to_string(),
            });
        }
        Ok(Self { schema: LOCK_SCHEMA, entries })
    }

    /// The plugins, sorted by name.
    #[must_use]
    pub fn entries(&self) -> &[LockEntry] {
        &self.entries
    }

    /// The plugin of this name.
    #[must_use]
    pub fn get(&self, name: &PluginName) -> Option<&LockEntry> {
        self.entries.iter().find(|entry| entry.name == *name)
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// If it cannot be read, is damaged or newer than this host, or names a plugin twice.
    pub fn read(path: &Path) -> Result<Self, LockError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let damaged = |source| LockError::Damaged { path: path.to_owned(), source: Box::new(source) };
        let text = fs::read_to_string(path).map_err(|source| LockError::Read { path: path.to_owned(), source })?;
        let Schema { schema } = toml::from_str(&text).map_err(damaged)?;
        if schema != LOCK_SCHEMA {
            return Err(LockError::Schema { path: path.to_owned(), found: schema });
        }
        Self::new(toml::from_str::<Self>(&text).map_err(damaged)?.entries)
    }

    /// Writes the lock file, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let failed = |source| LockError::Write { path: path.to_owned(), source };
        let table = toml::to_string(self).map_err(|source| failed(io::Error::other(source)))?;
        let text = format!("# Which plugins this run uses. Written by the host; not meant to be edited.\n{table}");
        write_atomically(path, text.as_bytes()).map_err(failed)
    }
}
