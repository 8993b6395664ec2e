//! The run's folder: its lock, its files and their paths.
//!
//! Files: `run.toml` (the resolved run file; beside `episodes/`, it marks the folder as a run), `gymkhana.lock`,
//! `plugins/<digest>.wasm`, `assets/<digest>`, `episodes/`, `metrics.jsonl`, `tensorboard/`, `checkpoints/`,
//! `state.json` (the run's progress) and `summary.json`.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gymkhana_registry::{
    Digest, LOCK_FILE, Lock, PluginFileError, copy_atomically, open_regular_file, read_plugin_file,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clear;
use crate::comparison::RewardComparison;
use crate::fs::{names_in, write};
use crate::metrics::{lines_before, read_lines};
use crate::names::{METRICS_FILE, RUN_FILE, STATE_FILE, SUMMARY_FILE};
use crate::sealed;
use crate::summary::SUMMARY_SCHEMA;
use crate::{EpisodeReader, EpisodeStore, EpisodeTable, Metrics, MetricsExtent, MetricsLine, RunSummary, StoreError};

/// The first folder of a folder that holds a run, by name.
fn run_below(path: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path());
    folders.filter(|below| below.join(RUN_FILE).is_file() && below.join(PROCESS_LOCK).is_file()).min()
}

/// Schema number of `state.json`.
pub const STATE_SCHEMA: u32 = 2;

const PROCESS_LOCK: &str = ".lock";

/// Read access to a run's folder. The run may still be active.
#[derive(Debug, Clone)]
pub struct RunReader {
    path: PathBuf,
}

impl RunReader {
    /// Opens a folder that holds a run.
    ///
    /// # Errors
    /// If the folder does not hold a run. A run file alone, which a user wrote, is not a run.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let reader = Self { path: path.to_owned() };
        if !path.join(RUN_FILE).is_file() {
            Err(match run_below(path) {
                Some(below) => StoreError::RunBelow(reader.path, below),
                None => StoreError::NoRun(reader.path),
            })
        } else if reader.episodes_path().is_dir() || path.join(PROCESS_LOCK).is_file() {
            Ok(reader)
        } else {
            Err(StoreError::OnlyRunFile(reader.path))
        }
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Time at which the run was started; `None` if the file system does not know it.
    #[must_use]
    pub fn started(&self) -> Option<SystemTime> {
        fs::metadata(self.path.join(RUN_FILE)).and_then(|metadata| metadata.modified()).ok()
    }

    /// Path of the folder of checkpoints.
    #[must_use]
    pub fn checkpoints_path(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Paths of the complete checkpoints, by stage and step.
    ///
    /// # Errors
    /// If the folder of checkpoints cannot be read.
    pub fn checkpoints(&self) -> Result<Vec<PathBuf>, StoreError> {
        let folder = self.checkpoints_path();
        let unreadable = |source| StoreError::io(&folder, source);
        let position = |path: &Path| {
            let (stage, step) = path.file_name()?.to_str()?.split_once('-')?;
            Some((stage.parse::<u64>().ok()?, step.parse::<u64>().ok()?))
        };
        let mut found = Vec::new();
        if !folder.exists() {
            return Ok(vec![]);
        }
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            // A checkpoint that is being written has another name.
            if let Some(position) = position(&path) {
                found.push((position, path));
            }
        }
        found.sort_unstable();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    /// Returns whether a process has the folder open for writing.
    ///
    /// # Errors
    /// If the lock cannot be tried.
    pub fn is_in_use(&self) -> Result<bool, StoreError> {
        let path = self.path.join(PROCESS_LOCK);
        let file = match open_regular_file(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(StoreError::io(&path, source)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(source)) => Err(StoreError::io(&path, source)),
        }
    }

    /// The resolved run file, as TOML text.
    ///
    /// # Errors
    /// If it cannot be read or differs from its digest.
    pub fn run_text(&self) -> Result<String, StoreError> {
        sealed::read_toml(&self.path.join(RUN_FILE))
    }

    /// Lock file with the run's plugins.
    ///
    /// # Errors
    /// If the lock file cannot be read or differs from its digest.
    pub fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.path.join(LOCK_FILE);
        let lock = Lock::read(&path)?;
        sealed::read_toml(&path)?;
        Ok(lock)
    }

    /// Bytes of a plugin of the run, verified against the digest.
    ///
    /// # Errors
    /// If the plugin cannot be read or does not match the digest.
    pub fn plugin(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.plugin_path(digest);
        let bytes = read_plugin_file(&path).map_err(|error| match error {
            PluginFileError::Missing(path) => StoreError::NoPlugin(path),
            other => other.into(),
        })?;
        let found = Digest::of(&bytes);
        if found == *digest { Ok(bytes) } else { Err(StoreError::WrongDigest { path, found }) }
    }

    /// An asset of the run, read by `open` from its file and verified against the digest that `open` returns.
    ///
    /// # Errors
    /// If the asset cannot be read or does not match the digest.
    pub fn asset<T>(
        &self,
        digest: &Digest,
        open: impl FnOnce(&Path) -> io::Result<(T, Digest)>,
    ) -> Result<T, StoreError> {
        let path = self.asset_path(digest);
        let (asset, found) = open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::NoAsset(path.clone()),
            _ => StoreError::io(&path, source),
        })?;
        if found == *digest { Ok(asset) } else { Err(StoreError::WrongDigest { path, found }) }
    }

    fn asset_path(&self, digest: &Digest) -> PathBuf {
        self.path.join("assets").join(digest.to_string())
    }

    fn plugin_path(&self, digest: &Digest) -> PathBuf {
        self.path.join("plugins").join(format!("{digest}.wasm"))
    }

    /// Progress of the run. `None` before it is first written.
    ///
    /// # Errors
    /// If the file cannot be read as a `T`, differs from its digest or is newer than this host.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, StoreError> {
        let path = self.path.join(STATE_FILE);
        let Some(mut object) = sealed::read_json(&path, STATE_SCHEMA)? else { return Ok(None) };
        object.remove("schema");
        serde_json::from_value(Value::Object(object)).map(Some).map_err(|source| StoreError::json(&path, source))
    }

    /// Summary of the run. `None` before the run has ended.
    ///
    /// # Errors
    /// If the file cannot be read, differs from its digest or is newer than this host.
    pub fn summary(&self) -> Result<Option<RunSummary>, StoreError> {
        let path = self.path.join(SUMMARY_FILE);
        let Some(object) = sealed::read_json(&path, SUMMARY_SCHEMA)? else { return Ok(None) };
        serde_json::from_value(Value::Object(object)).map(Some).map_err(|source| StoreError::json(&path, source))
    }

    /// Episodes stored so far.
    ///
    /// # Errors
    /// If a file of episodes is damaged or newer than this host.
    pub fn episodes(&self) -> Result<EpisodeReader, StoreError> {
        EpisodeReader::open(&self.episodes_path())
    }

    /// Table of the episodes stored so far, with records read on demand. For many episodes, it needs far less memory than
    /// [`episodes`](Self::episodes).
    ///
    /// # Errors
    /// If a file of episodes is damaged or newer than this host.
    pub fn episode_table(&self) -> Result<EpisodeTable, StoreError> {
        EpisodeTable::open(&self.episodes_path())
    }

    /// Complete lines of `metrics.jsonl`.
    ///
    /// # Errors
    /// If the file is damaged or newer than this host.
    pub fn metrics(&self) -> Result<Vec<MetricsLine>, StoreError> {
        read_lines(&self.path.join(METRICS_FILE))
    }

    /// Lines of `metrics.jsonl` in this extent; none if the file is empty or was moved away.
    ///
    /// # Errors
    /// If the file differs from the digest or is newer than this host.
    pub fn metrics_before(&self, extent: &MetricsExtent) -> Result<Vec<MetricsLine>, StoreError> {
        lines_before(&self.path.join(METRICS_FILE), extent)
    }

    /// Comparisons of two versions of a reward that were kept.
    ///
    /// # Errors
    /// If a file is damaged.
    pub fn reward_comparisons(&self) -> Result<Vec<RewardComparison>, StoreError> {
        RewardComparison::read_all(&self.path)
    }

    fn episodes_path(&self) -> PathBuf {
        self.path.join("episodes")
    }
}

/// Write access to a run's folder. At most one process holds it; dropping it releases the lock.
#[derive(Debug)]
pub struct RunFolder {
    reader: RunReader,
    /// Lock of the operating system, which releases it when the process ends.
    _lock: File,
}

impl RunFolder {
    /// Checks that a new run can be created at this path.
    ///
    /// # Errors
    /// If the path is a file, or the folder holds a run or other files.
    pub fn check_free(path: &Path) -> Result<(), StoreError> {
        if !path.exists() {
            return Ok(());
        }
        if !path.is_dir() {
            return Err(StoreError::NotAFolder(path.to_owned()));
        }
        refuse_existing_content(path)
    }

    /// Creates the folder of a new run with the text of its resolved run file.
    ///
    /// # Errors
    /// If the path is a file, or the folder holds a run or other files, or another process is creating a run there.
    pub fn create(path: &Path, run_text: &str) -> Result<Self, StoreError> {
        Self::check_free(path)?;
        fs::create_dir_all(path).map_err(|source| StoreError::io(path, source))?;
        let lock = lock(path)?;
        // Repeated under the lock, because another process may have created a run in between.
        refuse_existing_content(path)?;
        sealed::write_toml(&path.join(RUN_FILE), run_text)?;
        Self::held(path, lock)
    }

    /// Opens the folder of an existing run for writing.
    ///
    /// # Errors
    /// If the folder does not hold a run, or another process holds its lock.
    pub fn open_for_resume(path: &Path) -> Result<Self, StoreError> {
        RunReader::open(path)?;
        let lock = lock(path)?;
        Self::held(path, lock)
    }

    /// Turns the folder into that of a new run: removes the run's files and writes the new run file last. Files of
    /// another origin stay.
    ///
    /// # Errors
    /// If a file cannot be removed or written. Repeating it is then safe.
    pub fn clear(self, run_text: &str) -> Result<Self, StoreError> {
        clear::remove_run_files(self.reader.path())?;
        sealed::write_toml(&self.reader.path.join(RUN_FILE), run_text)?;
        Ok(self)
    }

    /// Replaces the text of the run file. The time at which the run was started stays.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn rewrite_run_text(&self, run_text: &str) -> Result<(), StoreError> {
        let (path, started) = (self.reader.path.join(RUN_FILE), self.reader.started());
        sealed::write_toml(&path, run_text)?;
        let Some(started) = started else { return Ok(()) };
        let file = File::options().write(true).open(&path);
        file.and_then(|file| file.set_modified(started)).map_err(|source| StoreError::io(&path, source))
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

    /// Read access to the folder.
    #[must_use]
    pub fn reader(&self) -> &RunReader {
        &self.reader
    }

    /// Stores a plugin's bytes under their digest.
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

    /// Stores an asset under the digest of its content.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn add_asset(&self, digest: &Digest, content: &mut impl Read) -> Result<(), StoreError> {
        let path = self.reader.asset_path(digest);
        if path.exists() {
            return Ok(());
        }
        copy_atomically(&path, content).map_err(|source| StoreError::io(&path, source))
    }

    /// Writes the lock file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_lock(&self, lock: &Lock) -> Result<(), StoreError> {
        let path = self.reader.path.join(LOCK_FILE);
        let text = lock.to_text().map_err(|source| StoreError::io(&path, io::Error::other(source)))?;
        sealed::write_toml(&path, &text)
    }

    /// Writes the progress of the run. Callers write it last, after the files that it refers to, because a resumed run
    /// relies on it.
    ///
    /// # Errors
    /// If the file cannot be written, or `T` does not serialise to a JSON object.
    pub fn write_state<T: Serialize>(&self, state: &T) -> Result<(), StoreError> {
        #[derive(Serialize)]
        struct Numbered<'a, T> {
            schema: u32,
            #[serde(flatten)]
            state: &'a T,
        }
        sealed::write_json(&self.reader.path.join(STATE_FILE), &Numbered { schema: STATE_SCHEMA, state })
    }

    /// Writes the summary of the run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_summary(&self, summary: &RunSummary) -> Result<(), StoreError> {
        sealed::write_json(&self.reader.path.join(SUMMARY_FILE), summary)
    }

    /// Removes the summary of a run that continues.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_summary(&self) -> Result<(), StoreError> {
        clear::remove_file(&self.reader.path.join(SUMMARY_FILE))
    }

    /// Opens the run's episodes for writing.
    ///
    /// # Errors
    /// If a file of episodes is damaged or newer than this host.
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
}

fn refuse_existing_content(path: &Path) -> Result<(), StoreError> {
    if RunReader::open(path).is_ok() {
        return Err(StoreError::HoldsRun(path.to_owned()));
    }
    // Leftovers of a process that was killed while it created the folder are ignored.
    if names_in(path)?.iter().any(|name| name != PROCESS_LOCK && !is_temporary(name)) {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    Ok(())
}

/// Whether a name is that of a temporary file that was never renamed to its final name.
fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

fn remove_temporary_files(folder: &Path) -> Result<(), StoreError> {
    for name in names_in(folder)?.iter().filter(|name| is_temporary(name)) {
        let path = folder.join(name);
        // Temporary folders belong to checkpoints, and the writer of checkpoints removes them.
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
