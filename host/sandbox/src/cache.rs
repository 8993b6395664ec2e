//! Code cache: compiled plugins on disk, so that each is compiled once per machine and engine.
//!
//! Loading compiled code executes it, so a forged file would run arbitrary code. The folder must therefore be accessible
//! to this user only, and files from elsewhere are never accepted. A SHA-256 digest beside each file detects accidental
//! damage; a file that does not match is compiled again.

use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use gymkhana_registry::{Digest, write_atomically};
use wasmtime::Engine;
use wasmtime::component::Component;

/// The folder of compiled plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The path is not a folder.
    #[error("cannot cache compiled plugins: `{0}` is not a folder\nhint: remove it or choose another folder")]
    NotAFolder(PathBuf),
    /// Other users can access the folder, or own it.
    #[error(
        "cannot cache compiled plugins: other users can access the folder `{0}`, whose files are executed\nhint: run \
         `chmod 700` on it, or choose another"
    )]
    NotOurs(PathBuf),
    /// The file system failed.
    #[error("cannot cache compiled plugins in `{path}`\nhint: free space, or choose another folder")]
    Io {
        /// The folder, or a file in it.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// A folder of compiled plugins for one engine.
#[derive(Debug)]
pub(crate) struct CodeCache {
    folder: PathBuf,
    engine_hash: u64,
}

impl CodeCache {
    /// Opens the folder, or creates it.
    pub fn open(folder: &Path, engine: &Engine) -> Result<Self, CacheError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .or_else(|source| if folder.exists() { Ok(()) } else { Err(failed(folder, source)) })?;
        let metadata = fs::symlink_metadata(folder).map_err(|source| failed(folder, source))?;
        if !metadata.is_dir() {
            return Err(CacheError::NotAFolder(folder.to_owned()));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
            return Err(CacheError::NotOurs(folder.to_owned()));
        }
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { folder: folder.to_owned(), engine_hash: hasher.finish() })
    }

    /// Returns the compiled form of the component with this digest, if it is present and undamaged.
    pub fn get(&self, engine: &Engine, component: Digest) -> Option<Component> {
        let (code, stamp) = self.files(component);
        let expected: Digest = fs::read_to_string(stamp).ok()?.parse().ok()?;
        let mut file = File::open(code).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        if Digest::of(&bytes) != expected {
            return None;
        }
        // The open file, whatever its name refers to by now.
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: only this user can write into the folder, only `put` creates files there, and the digest shows that
        // this file is byte for byte the output of `put`. The mapped file is the one that was hashed. Files are replaced
        // by renaming and never changed in place, so the mapping keeps the checked bytes. The engine itself rejects code
        // of another engine.
        unsafe { Component::deserialize_file(engine, opened) }.ok()
    }

    /// Stores the compiled form of a component.
    pub fn put(&self, component: Digest, compiled: &[u8]) -> Result<(), CacheError> {
        let (code, stamp) = self.files(component);
        // The digest is written last: without it, or with an old one, the code is not used.
        for (path, bytes) in [(code, compiled), (stamp, Digest::of(compiled).to_string().as_bytes())] {
            write_atomically(&path, bytes).map_err(|source| failed(&path, source))?;
        }
        Ok(())
    }

    fn files(&self, component: Digest) -> (PathBuf, PathBuf) {
        let name = format!("{component}-{:016x}", self.engine_hash);
        (self.folder.join(format!("{name}.code")), self.folder.join(format!("{name}.sha256")))
    }
}

fn failed(path: &Path, source: io::Error) -> CacheError {
    CacheError::Io { path: path.to_owned(), source }
}
