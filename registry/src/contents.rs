//! Files that are named by the digest of what they hold: in a registry's folder, in a mirror and in a client's cache.
//!
//! Such a file is written under another name, checked, and renamed; it is checked again whenever it is read. So any
//! number of processes may fill and read the same folder at the same time, and what somebody changed is not used.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Digest, MAX_CATALOGUE_BYTES, MAX_INDEX_BYTES, MAX_PLUGIN_BYTES, MAX_RELEASE_BYTES, PluginName};

/// Which file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Item {
    /// The index file of a plugin.
    Index(PluginName, Digest),
    /// The catalogue.
    Catalogue(Digest),
    /// A release.
    Release(Digest),
    /// A component.
    Component(Digest),
}

impl Item {
    /// Its path in a registry, below the registry's address or folder.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Index(name, digest) => format!("index/{name}/{digest}.jsonl"),
            Self::Catalogue(digest) => format!("catalogue/{digest}.jsonl"),
            Self::Release(digest) => format!("releases/{digest}.json"),
            Self::Component(digest) => format!("components/{digest}.wasm"),
        }
    }

    /// The file of such a path, if it is one.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let digest = |file: &str, ending: &str| {
            let text = file.strip_suffix(ending)?;
            text.parse().ok().filter(|digest: &Digest| digest.to_string() == text)
        };
        match parts[..] {
            ["index", namespace, name, file] => {
                Some(Self::Index(PluginName::new(namespace, name).ok()?, digest(file, ".jsonl")?))
            }
            ["catalogue", file] => digest(file, ".jsonl").map(Self::Catalogue),
            ["releases", file] => digest(file, ".json").map(Self::Release),
            ["components", file] => digest(file, ".wasm").map(Self::Component),
            _ => None,
        }
    }

    /// The digest of its bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::Index(_, digest) | Self::Catalogue(digest) | Self::Release(digest) | Self::Component(digest) => {
                *digest
            }
        }
    }

    /// The most bytes that it can have.
    #[must_use]
    pub fn limit(&self) -> u64 {
        match self {
            Self::Index(..) => MAX_INDEX_BYTES,
            Self::Catalogue(_) => MAX_CATALOGUE_BYTES,
            Self::Release(_) => MAX_RELEASE_BYTES,
            Self::Component(_) => MAX_PLUGIN_BYTES as u64,
        }
    }
}

/// A file cannot be had or kept.
#[derive(Debug, thiserror::Error)]
pub enum ContentsError {
    /// Its bytes are not those of its name.
    #[error("`{path}` is not what its name says: it was changed or damaged; remove it")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("`{path}` cannot be {what}; free space and check that this user may use it")]
    Disk {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A folder of such files.
#[derive(Debug, Clone)]
pub struct Contents {
    folder: PathBuf,
}

/// A file on its way in; it is removed unless it is [kept](Contents::keep).
#[derive(Debug)]
pub struct Incoming {
    path: PathBuf,
    /// What is written to.
    pub file: File,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Once it is kept there is none of this name.
        let _ = fs::remove_file(&self.path);
    }
}

impl Incoming {
    /// Where it is for now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Contents {
    /// The files below this folder, which need not be there yet.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a file is.
    #[must_use]
    pub fn path(&self, item: &Item) -> PathBuf {
        self.folder.join(item.path())
    }

    /// Whether there is a file of that name. What it holds is seen when it is read.
    #[must_use]
    pub fn has(&self, item: &Item) -> bool {
        self.path(item).is_file()
    }

    /// Reads a file and sees that it is the one of its name; none if there is none.
    ///
    /// # Errors
    /// If it was changed, or cannot be read.
    pub fn read(&self, item: &Item) -> Result<Option<Vec<u8>>, ContentsError> {
        let path = self.path(item);
        let bytes = match read_up_to(&path, item.limit()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(disk("read", &path))?,
        };
        let sound = bytes.len() as u64 <= item.limit() && Digest::of(&bytes) == item.digest();
        if sound { Ok(Some(bytes)) } else { Err(ContentsError::Changed { path }) }
    }

    /// Reads a file as it lies there, up to one byte more than it can have: for whoever checks it otherwise.
    ///
    /// # Errors
    /// What the system said.
    pub fn read_unchecked(&self, item: &Item) -> io::Result<Vec<u8>> {
        read_up_to(&self.path(item), item.limit())
    }

    /// Begins a file that is not there yet.
    ///
    /// # Errors
    /// If none can be created.
    pub fn begin(&self) -> Result<Incoming, ContentsError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let folder = self.folder.join("incoming");
        fs::create_dir_all(&folder).map_err(disk("created", &folder))?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}", std::process::id()));
        // One of this name is of a process that died.
        let _ = fs::remove_file(&path);
        let file =
            File::options().read(true).write(true).create_new(true).open(&path).map_err(disk("created", &path))?;
        Ok(Incoming { path, file })
    }

    /// Gives a file its name, for good. The caller has seen that it holds what the name says.
    ///
    /// # Errors
    /// If it cannot be written or renamed.
    pub fn keep(&self, incoming: &Incoming, item: &Item) -> Result<(), ContentsError> {
        let path = self.path(item);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(disk("created", folder))?;
        incoming.file.sync_all().map_err(disk("written", &incoming.path))?;
        fs::rename(&incoming.path, &path).map_err(disk("written", &path))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(disk("written", folder))
    }

    /// Writes a file that should hold these bytes; one that is there is replaced if it was changed.
    ///
    /// # Errors
    /// If the bytes are not those of the name, or cannot be written.
    pub fn write(&self, item: &Item, bytes: &[u8]) -> Result<(), ContentsError> {
        if Digest::of(bytes) != item.digest() {
            return Err(ContentsError::Changed { path: self.path(item) });
        }
        if matches!(self.read(item), Ok(Some(_))) {
            return Ok(());
        }
        let mut incoming = self.begin()?;
        io::Write::write_all(&mut incoming.file, bytes).map_err(disk("written", &incoming.path))?;
        self.keep(&incoming, item)
    }

    /// Removes what processes that died were writing: files that nobody has written to for so long.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn sweep(&self, older_than: std::time::Duration) -> Result<(), ContentsError> {
        let folder = self.folder.join("incoming");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(disk("read", &folder))?,
        };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            if modified.is_ok_and(|when| when.elapsed().is_ok_and(|age| age > older_than)) {
                // Another process may have swept it already.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

/// Reads a file, and one byte more than `limit` at most.
pub(crate) fn read_up_to(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn disk(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ContentsError {
    let path = path.to_owned();
    move |source| ContentsError::Disk { what, path, source }
}
