//! The run's folder: who may use it, and where its files are.
//!
//! `run.toml` (the resolved run file; its presence makes the folder a run), `gymkhana.lock` and
//! `plugins/<digest>.wasm`, `assets/<digest>`, `episodes/`, `metrics.jsonl` and `tensorboard/`, `checkpoints/`, `state.json` (where the
//! run is) and `summary.json`.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use gymkhana_registry::{Digest, LOCK_FILE, Lock, PluginFileError, read_plugin_file, write_atomically};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{EpisodeReader, EpisodeStore, Metrics, MetricsLine, StoreError, Summary};

/// The number of `state.json`'s shape.
pub const STATE_SCHEMA: u32 = 1;

const RUN_FILE: &str = "run.toml";
const PROCESS_LOCK: &str = ".lock";
pub(crate) const STATE_FILE: &str = "state.json";
pub(crate) const SUMMARY_FILE: &str = "summary.json";

/// A run's folder as readers see it. It may belong to a run that is going on.
#[derive(Debug, Clone)]
pub struct RunReader {
    path: PathBuf,
}

impl RunReader {
    /// Opens a folder that holds a run.
    ///
    /// # Errors
    /// If it holds none.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if path.join(RUN_FILE).is_file() {
            Ok(Self { path: path.to_owned() })
        } else {
            Err(StoreError::NoRun(path.to_owned()))
        }
    }

    /// Where the folder is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where checkpoints are.
    #[must_use]
    pub fn checkpoints_path(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// The resolved run file, as TOML text.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn run_text(&self) -> Result<String, StoreError> {
        let path = self.path.join(RUN_FILE);
        fs::read_to_string(&path).map_err(|source| StoreError::io(&path, source))
    }

    /// Which plugins the run uses.
    ///
    /// # Errors
    /// If the lock file cannot be read.
    pub fn lock(&self) -> Result<Lock, StoreError> {
        Ok(Lock::read(&self.path.join(LOCK_FILE))?)
    }

    /// The bytes of a plugin of the run, which are those that its digest names.
    ///
    /// # Errors
    /// If the plugin cannot be read or has other bytes.
    pub fn plugin(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.plugin_path(digest);
        let bytes = read_plugin_file(&path).map_err(|error| match error {
            PluginFileError::Missing(path) => StoreError::NoPlugin(path),
            other => other.into(),
        })?;
        let found = Digest::of(&bytes);
        if found == *digest { Ok(bytes) } else { Err(StoreError::WrongDigest { path, found }) }
    }

    /// The bytes of an asset of the run, which are those that its digest names.
    ///
    /// # Errors
    /// If the asset cannot be read or has other bytes.
    pub fn asset(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.asset_path(digest);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::NoAsset(path.clone()),
            _ => StoreError::io(&path, source),
        })?;
        let found = Digest::of(&bytes);
        if found == *digest { Ok(bytes) } else { Err(StoreError::WrongDigest { path, found }) }
    }

    fn asset_path(&self, digest: &Digest) -> PathBuf {
        self.path.join("assets").join(digest.to_string())
    }

    fn plugin_path(&self, digest: &Digest) -> PathBuf {
        self.path.join("plugins").join(format!("{digest}.wasm"))
    }

    /// Where the run is, or none before it was first said.
    ///
    /// # Errors
    /// If the file cannot be read as a `T` or is newer than this host.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, StoreError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        match self.read_json(STATE_FILE)? {
            Some(Schema { schema: found }) if found != STATE_SCHEMA => {
                Err(StoreError::Schema { path: self.path.join(STATE_FILE), found, known: STATE_SCHEMA })
            }
            _ => self.read_json(STATE_FILE),
        }
    }

    /// What came of the run, or none before it ended.
    ///
    /// # Errors
    /// If the file cannot be read or is newer than this host.
    pub fn summary(&self) -> Result<Option<Summary>, StoreError> {
        let summary: Option<Summary> = self.read_json(SUMMARY_FILE)?;
        summary.map(|summary| summary.checked(&self.path.join(SUMMARY_FILE))).transpose()
    }

    /// The episodes that are stored now.
    ///
    /// # Errors
    /// If a file of theirs is damaged or newer than this host.
    pub fn episodes(&self) -> Result<EpisodeReader, StoreError> {
        EpisodeReader::open(&self.episodes_path())
    }

    /// The lines of `metrics.jsonl` that are whole.
    ///
    /// # Errors
    /// If the file is damaged or newer than this host.
    pub fn metrics(&self) -> Result<Vec<MetricsLine>, StoreError> {
        crate::metrics::read_lines(&self.path.join(crate::metrics::METRICS_FILE))
    }

    fn episodes_path(&self) -> PathBuf {
        self.path.join("episodes")
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|source| StoreError::json(&path, source)),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::io(&path, source)),
        }
    }
}

/// A run's folder, held by the one process that writes there. Dropping it lets go.
#[derive(Debug)]
pub struct RunFolder {
    reader: RunReader,
    /// The lock is the system's: it ends with the process, however that ends.
    _lock: File,
}

impl RunFolder {
    /// Makes the folder of a new run, from the text of its resolved run file.
    ///
    /// # Errors
    /// If the path holds a run, anything else or a file, or if another process is just making it.
    pub fn create(path: &Path, run_text: &str) -> Result<Self, StoreError> {
        if path.exists() && !path.is_dir() {
            return Err(StoreError::NotAFolder(path.to_owned()));
        }
        fs::create_dir_all(path).map_err(|source| StoreError::io(path, source))?;
        refuse_what_is_there(path)?;
        let lock = lock(path)?;
        // Again under the lock: another process may have made its run in between.
        refuse_what_is_there(path)?;
        write(&path.join(RUN_FILE), run_text.as_bytes())?;
        Self::held(path, lock)
    }

    /// Takes a run's folder up again.
    ///
    /// # Errors
    /// If it holds no run, or if another process runs in it.
    pub fn open_for_resume(path: &Path) -> Result<Self, StoreError> {
        RunReader::open(path)?;
        let lock = lock(path)?;
        Self::held(path, lock)
    }

    fn held(path: &Path, lock: File) -> Result<Self, StoreError> {
        let reader = RunReader { path: path.to_owned() };
        for folder in [reader.episodes_path(), reader.checkpoints_path(), path.join("plugins"), path.join("assets")] {
            fs::create_dir_all(&folder).map_err(|source| StoreError::io(&folder, source))?;
            remove_temporary_files(&folder)?;
        }
        remove_temporary_files(path)?;
        Ok(Self { reader, _lock: lock })
    }

    /// The folder as readers see it.
    #[must_use]
    pub fn reader(&self) -> &RunReader {
        &self.reader
    }

    /// Keeps a plugin's bytes, under their digest.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn add_plugin(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        let path = self.reader.plugin_path(&digest);
        if !path.exists() {
            write(&path, bytes)?;
        }
        Ok(digest)
    }

    /// Keeps an asset's bytes, under their digest.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn add_asset(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        let path = self.reader.asset_path(&digest);
        if !path.exists() {
            write(&path, bytes)?;
        }
        Ok(digest)
    }

    /// Writes the lock file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_lock(&self, lock: &Lock) -> Result<(), StoreError> {
        Ok(lock.write(&self.reader.path.join(LOCK_FILE))?)
    }

    /// Says where the run is. Whoever resumes reads this, so it is written last, after what it speaks of.
    ///
    /// # Errors
    /// If it cannot be written, or `T` is not written as an object.
    pub fn write_state<T: Serialize>(&self, state: &T) -> Result<(), StoreError> {
        #[derive(Serialize)]
        struct Numbered<'a, T> {
            schema: u32,
            #[serde(flatten)]
            state: &'a T,
        }
        self.write_json(STATE_FILE, &Numbered { schema: STATE_SCHEMA, state })
    }

    /// Says what came of the run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), StoreError> {
        self.write_json(SUMMARY_FILE, summary)
    }

    /// Opens the run's episodes for writing.
    ///
    /// # Errors
    /// If a file of theirs is damaged or newer than this host.
    pub fn episodes(&self) -> Result<EpisodeStore, StoreError> {
        EpisodeStore::open(&self.reader.episodes_path())
    }

    /// Opens the run's metrics for writing.
    ///
    /// # Errors
    /// If they are damaged or newer than this host.
    pub fn metrics(&self) -> Result<Metrics, StoreError> {
        Metrics::open(&self.reader.path)
    }

    fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StoreError> {
        let path = self.reader.path.join(name);
        let mut text = serde_json::to_vec_pretty(value).map_err(|source| StoreError::json(&path, source))?;
        text.push(b'\n');
        write(&path, &text)
    }
}

/// Writes a whole file or none.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_atomically(path, bytes).map_err(|source| StoreError::io(path, source))
}

/// The names in a folder.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |source| StoreError::io(folder, source);
    let entries = fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned())).collect()
}

fn refuse_what_is_there(path: &Path) -> Result<(), StoreError> {
    if path.join(RUN_FILE).exists() {
        return Err(StoreError::HoldsRun(path.to_owned()));
    }
    // What a process leaves that was killed while it made the folder does not count.
    if names_in(path)?.iter().any(|name| name != PROCESS_LOCK && !is_temporary(name)) {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    Ok(())
}

/// Whether a name is that of a file which was never renamed into place.
fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

fn remove_temporary_files(folder: &Path) -> Result<(), StoreError> {
    for name in names_in(folder)?.iter().filter(|name| is_temporary(name)) {
        let path = folder.join(name);
        // Checkpoints are folders, and whoever writes them cleans up after itself.
        if path.is_file() {
            fs::remove_file(&path).map_err(|source| StoreError::io(&path, source))?;
        }
    }
    Ok(())
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join(PROCESS_LOCK);
    let file = File::create(&path).map_err(|source| StoreError::io(&path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(StoreError::io(&path, source)),
    }
}
