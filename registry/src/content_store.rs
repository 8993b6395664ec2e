//! Content-addressed files of a registry folder, a mirror or a client's cache.
//!
//! A file is written under a temporary name, verified, and renamed to its digest. Every read verifies the digest again.
//! Several processes can therefore write and read one folder concurrently, and a modified file is never used.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Digest, MAX_CATALOGUE_BYTES, MAX_INDEX_BYTES, MAX_PLUGIN_BYTES, MAX_RELEASE_BYTES, PluginName};

/// Kind and digest of a content-addressed file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ContentFile {
    /// Index file of a plugin.
    Index(PluginName, Digest),
    /// Catalogue of all plugins.
    Catalogue(Digest),
    /// Signed release file.
    Release(Digest),
    /// WebAssembly component.
    Component(Digest),
}

impl ContentFile {
    /// Path relative to the registry's URL or folder.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Index(name, digest) => format!("index/{name}/{digest}.jsonl"),
            Self::Catalogue(digest) => format!("catalogue/{digest}.jsonl"),
            Self::Release(digest) => format!("releases/{digest}.json"),
            Self::Component(digest) => format!("components/{digest}.wasm"),
        }
    }

    /// Parses a relative path; `None` for every other path.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let digest = |file: &str, extension: &str| {
            let text = file.strip_suffix(extension)?;
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

    /// Expected digest of the content.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::Index(_, digest) | Self::Catalogue(digest) | Self::Release(digest) | Self::Component(digest) => {
                *digest
            }
        }
    }

    /// Size limit in bytes.
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

/// A content-addressed file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ContentStoreError {
    /// The content does not match the digest in the file name.
    #[error("`{path}` does not match its digest: it was modified or damaged\nhint: remove the file")]
    Changed {
        /// File.
        path: PathBuf,
    },
    /// I/O error.
    #[error("cannot {operation} `{path}`\nhint: check free disk space and file permissions")]
    Disk {
        /// Attempted operation, such as `read`.
        operation: &'static str,
        /// File or folder.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
}

/// A folder of content-addressed files.
#[derive(Debug, Clone)]
pub struct ContentStore {
    folder: PathBuf,
}

/// A temporary file that is deleted on drop unless it was [committed](ContentStore::commit).
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    /// Open file for reading and writing.
    pub file: File,
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // After a commit the temporary name no longer exists.
        let _ = fs::remove_file(&self.path);
    }
}

impl PendingFile {
    /// Temporary path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes written so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> Result<Vec<u8>, ContentStoreError> {
        fs::read(&self.path).map_err(disk("read", &self.path))
    }
}

impl ContentStore {
    /// Store in a folder, which may not exist yet.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Root folder of the store.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Absolute path of a file.
    #[must_use]
    pub fn path(&self, file: &ContentFile) -> PathBuf {
        self.folder.join(file.path())
    }

    /// Returns true if the file exists. Its content is verified on read.
    #[must_use]
    pub fn contains(&self, file: &ContentFile) -> bool {
        self.path(file).is_file()
    }

    /// Reads a file and verifies its digest; `None` if it does not exist.
    ///
    /// # Errors
    /// If the content was modified or cannot be read.
    pub fn read(&self, file: &ContentFile) -> Result<Option<Vec<u8>>, ContentStoreError> {
        let path = self.path(file);
        let bytes = match read_up_to(&path, file.limit()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(disk("read", &path))?,
        };
        let matches = bytes.len() as u64 <= file.limit() && Digest::of(&bytes) == file.digest();
        if matches { Ok(Some(bytes)) } else { Err(ContentStoreError::Changed { path }) }
    }

    /// Reads at most one byte more than the size limit, without verification. The caller verifies the content.
    ///
    /// # Errors
    /// The I/O error.
    pub fn read_unverified(&self, file: &ContentFile) -> io::Result<Vec<u8>> {
        read_up_to(&self.path(file), file.limit())
    }

    /// Creates a temporary file in the store.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create_pending(&self) -> Result<PendingFile, ContentStoreError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let folder = self.folder.join("incoming");
        fs::create_dir_all(&folder).map_err(disk("create", &folder))?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}", std::process::id()));
        // A file of this name belongs to a dead process that had the same process id.
        let _ = fs::remove_file(&path);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        Ok(PendingFile { file: file.map_err(disk("create", &path))?, path })
    }

    /// Moves a temporary file to its final name. The caller has verified its digest.
    ///
    /// # Errors
    /// If the file cannot be synced or renamed.
    pub fn commit(&self, pending: &PendingFile, file: &ContentFile) -> Result<(), ContentStoreError> {
        let path = self.path(file);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(disk("create", folder))?;
        pending.file.sync_all().map_err(disk("write", &pending.path))?;
        fs::rename(&pending.path, &path).map_err(disk("write", &path))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(disk("write", folder))
    }

    /// Writes a file with this content. An existing file is replaced only if its content was modified.
    ///
    /// # Errors
    /// If the content does not match the digest or cannot be written.
    pub fn write(&self, file: &ContentFile, bytes: &[u8]) -> Result<(), ContentStoreError> {
        if Digest::of(bytes) != file.digest() {
            return Err(ContentStoreError::Changed { path: self.path(file) });
        }
        if matches!(self.read(file), Ok(Some(_))) {
            return Ok(());
        }
        let mut pending = self.create_pending()?;
        io::Write::write_all(&mut pending.file, bytes).map_err(disk("write", &pending.path))?;
        self.commit(&pending, file)
    }

    /// Deletes temporary files of dead processes: those not written to for longer than `older_than`.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn remove_stale(&self, older_than: std::time::Duration) -> Result<(), ContentStoreError> {
        let folder = self.folder.join("incoming");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(disk("read", &folder))?,
        };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            if modified.is_ok_and(|when| when.elapsed().is_ok_and(|age| age > older_than)) {
                // Another process may have deleted it already.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

/// Reads at most `limit + 1` bytes of a regular file.
pub(crate) fn read_up_to(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    crate::open_regular_file(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Converts an I/O error of an operation on a path.
pub(crate) fn disk(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ContentStoreError {
    let path = path.to_owned();
    move |source| ContentStoreError::Disk { operation, path, source }
}
