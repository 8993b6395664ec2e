//! Compiled plugins on disk, so that each is compiled once for a machine and an engine.
//!
//! Loading compiled code executes it: a forged file would be as good as a shell. So the folder must belong to this
//! user alone, each file's sha256 stands beside it against accidents, and nothing from outside is ever accepted. A
//! file that does not fit is made again.

use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use gymkhana_registry::{Digest, write_atomically};
use wasmtime::Engine;
use wasmtime::component::Component;

/// The folder of compiled plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It is no folder.
    #[error("`{0}` is not a folder; remove it or choose another folder for compiled plugins")]
    NotAFolder(PathBuf),
    /// Others may write or read it, or it is another user's.
    #[error(
        "the folder `{0}` for compiled plugins must belong to this user alone, as its files are executed; run \
         `chmod 700` on it, or choose another"
    )]
    NotOurs(PathBuf),
    /// Anything else.
    #[error("the folder `{path}` for compiled plugins cannot be used; free space, or choose another")]
    Io {
        /// The folder or the file in it.
        path: PathBuf,
        /// What the system said.
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
    /// Opens the folder, or makes it.
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

    /// The compiled form of the component with this digest, if it is there and whole.
    pub fn get(&self, engine: &Engine, component: Digest) -> Option<Component> {
        let (code, stamp) = self.files(component);
        let expected: Digest = fs::read_to_string(stamp).ok()?.parse().ok()?;
        if Digest::of(&fs::read(&code).ok()?) != expected {
            return None;
        }
        // SAFETY: only this user can write into the folder, `put` alone puts files there, and this file is byte for
        // byte what `put` wrote. Files are replaced by renaming and never changed in place, so that the mapping
        // stays what was checked. An engine refuses code of another engine by itself.
        unsafe { Component::deserialize_file(engine, code) }.ok()
    }

    /// Keeps the compiled form of a component.
    pub fn put(&self, component: Digest, compiled: &[u8]) -> Result<(), CacheError> {
        let (code, stamp) = self.files(component);
        // The stamp comes last: without it, or with an old one, the code is not used.
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
