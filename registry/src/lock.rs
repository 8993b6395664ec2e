//! `gymkhana.lock`: the plugins of a run, pinned by name, version and digest.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::{Capability, ContractStamp, Digest, Kind, Manifest, PluginName, read_regular_text, write_atomically};

/// Default name of a lock file.
pub const LOCK_FILE: &str = "gymkhana.lock";

/// Lock file schema that this crate reads.
pub const LOCK_SCHEMA: u32 = 1;

/// A pinned plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockEntry {
    /// Full name.
    pub name: PluginName,
    /// Version.
    pub version: Version,
    /// SHA-256 of the plugin file.
    pub digest: Digest,
    /// Kinds that the plugin implements.
    pub kinds: BTreeSet<Kind>,
    /// Requested capabilities; a larger set requires new consent.
    pub capabilities: BTreeSet<Capability>,
    /// Contract that the plugin was built with.
    pub contract: ContractStamp,
}

impl LockEntry {
    /// Pins a plugin to the digest of its file.
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

/// A plugin's file with its pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFile {
    /// Origin in messages.
    pub origin: String,
    /// The pin.
    pub entry: LockEntry,
    /// Bytes of the component.
    pub bytes: Vec<u8>,
}

impl PluginFile {
    /// A file from a registry.
    #[must_use]
    pub fn of_release(entry: LockEntry, bytes: Vec<u8>) -> Self {
        Self { origin: format!("{} {}", entry.name, entry.version), entry, bytes }
    }

    /// Short name, as in run files.
    #[must_use]
    pub fn name(&self) -> &str {
        self.entry.name.name()
    }
}

/// Pinned plugins of a run, sorted by unique name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    schema: u32,
    #[serde(default, rename = "plugin")]
    entries: Vec<LockEntry>,
}

/// Description of two plugins with one name, which may be one plugin.
fn twice(name: &PluginName, first: &str, second: &str) -> String {
    if first == second {
        format!("plugin `{name}` is given twice")
    } else {
        format!("two plugins are named `{name}` (digests {first:.12}… and {second:.12}…)")
    }
}

/// A lock file cannot be built, read or written.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Two plugins with the same name.
    #[error("{}\nhint: remove one of them", twice(name, first, second))]
    Twice {
        /// Name.
        name: PluginName,
        /// Digest of the first file.
        first: String,
        /// Digest of the second file.
        second: String,
    },
    /// I/O error while reading.
    #[error("cannot read lock file `{path}`\nhint: restore it from version control or check its permissions")]
    Read {
        /// File.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// Malformed TOML or an invalid entry.
    #[error("cannot parse lock file `{path}`\nhint: restore it from version control, or delete it and run `host lock`")]
    Damaged {
        /// File.
        path: PathBuf,
        /// TOML error.
        source: Box<toml::de::Error>,
    },
    /// Unsupported schema.
    #[error("lock file `{path}` has schema {found}, but this host reads {LOCK_SCHEMA}\nhint: use a newer host")]
    Schema {
        /// File.
        path: PathBuf,
        /// Schema of the file.
        found: u32,
    },
    /// I/O error while writing.
    #[error("cannot write lock file `{path}`\nhint: check free disk space and file permissions")]
    Write {
        /// File.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
}

impl Lock {
    /// Builds a lock from entries in any order.
    ///
    /// # Errors
    /// If two entries have the same name.
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

    /// Entries sorted by name.
    #[must_use]
    pub fn entries(&self) -> &[LockEntry] {
        &self.entries
    }

    /// Returns the entry with this name.
    #[must_use]
    pub fn get(&self, name: &PluginName) -> Option<&LockEntry> {
        self.entries.iter().find(|entry| entry.name == *name)
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// If the file cannot be read or parsed, has another schema, or contains a name twice.
    pub fn read(path: &Path) -> Result<Self, LockError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let damaged = |source| LockError::Damaged { path: path.to_owned(), source: Box::new(source) };
        let text = read_regular_text(path).map_err(|source| LockError::Read { path: path.to_owned(), source })?;
        let Schema { schema } = toml::from_str(&text).map_err(damaged)?;
        if schema != LOCK_SCHEMA {
            return Err(LockError::Schema { path: path.to_owned(), found: schema });
        }
        Self::new(toml::from_str::<Self>(&text).map_err(damaged)?.entries)
    }

    /// Content of the lock file.
    ///
    /// # Errors
    /// Never for a lock of [`Lock::new`]: every entry is representable in TOML.
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        let table = toml::to_string(self)?;
        Ok(format!("# Plugins of this project. Generated by the host; do not edit.\n{table}"))
    }

    /// Writes the lock file atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let failed = |source| LockError::Write { path: path.to_owned(), source };
        let text = self.to_text().map_err(|source| failed(io::Error::other(source)))?;
        write_atomically(path, text.as_bytes()).map_err(failed)
    }
}
