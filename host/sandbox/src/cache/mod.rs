//! Code cache: compiled plugins on disk, so that each is compiled once per machine and engine.
//!
//! Loading compiled code executes it, so a forged file would run arbitrary code. The folder must therefore be accessible
//! to this user only, and files from elsewhere are never accepted. A checksum beside each file detects accidental
//! damage; a file that does not match is compiled again. Files that were not used for the longest time are removed when
//! the folder exceeds its size limit.

mod folder;
mod quick_build;

use std::fs::{DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gymkhana_registry::{Digest, write_atomically};
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

use folder::{CODE, Checksum, STAMP, Stamp};
pub use folder::{CacheEntry, CacheFolder};
pub(crate) use quick_build::QuickBuild;

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

/// Compiled form of a component, or of a module that components share.
pub(crate) trait Compiled: Sized + Clone {
    /// Reads the compiler's output from a file.
    ///
    /// # Safety
    /// The file is the output of this host's compiler and is not changed while it is in use.
    unsafe fn open(engine: &Engine, file: &Path) -> wasmtime::Result<Self>;

    /// Reads the compiler's output.
    ///
    /// # Safety
    /// The bytes are the output of this host's compiler.
    unsafe fn read(engine: &Engine, code: &[u8]) -> wasmtime::Result<Self>;
}

impl Compiled for Component {
    unsafe fn open(engine: &Engine, file: &Path) -> wasmtime::Result<Self> {
        // SAFETY: as the caller promises.
        unsafe { Self::deserialize_file(engine, file) }
    }

    unsafe fn read(engine: &Engine, code: &[u8]) -> wasmtime::Result<Self> {
        // SAFETY: as the caller promises.
        unsafe { Self::deserialize(engine, code) }
    }
}

impl Compiled for Module {
    unsafe fn open(engine: &Engine, file: &Path) -> wasmtime::Result<Self> {
        // SAFETY: as the caller promises.
        unsafe { Self::deserialize_file(engine, file) }
    }

    unsafe fn read(engine: &Engine, code: &[u8]) -> wasmtime::Result<Self> {
        // SAFETY: as the caller promises.
        unsafe { Self::deserialize(engine, code) }
    }
}

/// A folder of compiled plugins for one engine.
#[derive(Debug)]
pub(crate) struct CodeCache {
    folder: CacheFolder,
    max_bytes: u64,
    engine_hash: u64,
}

impl CodeCache {
    /// Opens the folder, or creates it. Entries beyond `max_bytes` are removed after each addition.
    pub fn open(folder: &Path, max_bytes: u64, engine: &Engine) -> Result<Self, CacheError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .or_else(|source| if folder.exists() { Ok(()) } else { Err(failed(folder, source)) })?;
        let folder = CacheFolder::new(folder);
        folder.check_access()?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { folder, max_bytes, engine_hash: hasher.finish() })
    }

    /// Returns the compiled form of the component or module with this digest, if it is present and undamaged.
    pub fn get<T: Compiled>(&self, engine: &Engine, digest: Digest) -> Option<T> {
        let (file, _) = self.read(digest)?;
        // The open file, whatever its name refers to by now.
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: only this user can write into the folder, only `put` creates files there, and the checksum shows that
        // this file is byte for byte the output of `put`. The mapped file is the one that was read. Files are replaced
        // by renaming and never changed in place, so the mapping keeps the checked bytes. The engine itself rejects code
        // of another engine.
        unsafe { T::open(engine, Path::new(&opened)) }.ok()
    }

    /// Returns the compiled form of a quick build from that of an earlier build on the same base.
    pub fn get_quick_build(&self, engine: &Engine, build: &QuickBuild<'_>) -> Option<Component> {
        let (_, mut code) = self.read(build.base())?;
        if !build.fill(&mut code) {
            return None;
        }
        // SAFETY: as in `get`; since then only data of the component's memory were changed, which may be any bytes.
        unsafe { Component::deserialize(engine, &code) }.ok()
    }

    /// Code of a component, if it is present and undamaged, and its file.
    fn read(&self, component: Digest) -> Option<(File, Vec<u8>)> {
        let (code, stamp) = self.files(component);
        let expected = Stamp::read(&stamp)?.checksum;
        let mut file = File::open(code).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        if Checksum::of(&bytes) != expected {
            return None;
        }
        // The time orders entries for removal. Without it the entry is removed earlier, which costs time only.
        let _ = file.set_modified(SystemTime::now());
        Some((file, bytes))
    }

    /// Stores the compiled form of a component, then removes the entries that were not used for the longest time until
    /// the folder is within its limit. `plugin` is the plugin's name and version.
    pub fn put(&self, component: Digest, plugin: &str, compiled: &[u8]) -> Result<(), CacheError> {
        let (code, stamp) = self.files(component);
        let text = Stamp::text(Checksum::of(compiled), plugin);
        // The checksum is written last: without it, or with an old one, the code is not used.
        for (path, bytes) in [(code, compiled), (stamp, text.as_bytes())] {
            write_atomically(&path, bytes).map_err(|source| failed(&path, source))?;
        }
        self.folder.trim(self.max_bytes).map(drop)
    }

    fn files(&self, component: Digest) -> (PathBuf, PathBuf) {
        let name = format!("{component}-{:016x}", self.engine_hash);
        (self.folder.path().join(format!("{name}.{CODE}")), self.folder.path().join(format!("{name}.{STAMP}")))
    }
}

fn failed(path: &Path, source: io::Error) -> CacheError {
    CacheError::Io { path: path.to_owned(), source }
}
