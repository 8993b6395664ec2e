//! The run folder of one environment's episodes, which the commands for runs read.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use gymkhana_config::{Recorder, RunFile};
use gymkhana_orchestration::chat::{chat_files_without_tokens, write_chat_files};
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_record::EpisodeRecord;
use gymkhana_registry::{Digest, Lock};
use gymkhana_store::{EpisodeStore, RunFolder, RunReader, StoreError};

use crate::catalog::{Catalog, ServedEnvironment};

/// Maximum number of folders of one environment.
const MAX_FOLDERS: u32 = 10_000;

/// A folder of records.
pub(super) struct RecordFolder {
    /// Name within the folder of all records.
    name: String,
    /// Number of the next episode.
    next: AtomicU64,
    /// The open files; `None` if records are not kept.
    files: Option<Mutex<Files>>,
}

struct Files {
    episodes: EpisodeStore,
    /// Holds the folder's lock.
    _folder: RunFolder,
}

impl RecordFolder {
    /// Ids of records that are not kept.
    pub(super) fn none() -> Self {
        Self { name: String::new(), next: AtomicU64::new(0), files: None }
    }

    /// Opens the folder of an environment below `root`, or creates it. A number is appended to its name if the folders
    /// without one and with lower numbers hold records of other plugins or settings.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn open(root: &Path, served: &ServedEnvironment, catalog: &Catalog) -> RunResult<Self> {
        let run_text = RunFile::of_recorder(Recorder::Server, served.rules().clone()).resolved().internal()?;
        let lock = lock(served, catalog)?;
        for number in 1..=MAX_FOLDERS {
            let own = served.folder();
            let name = if number == 1 { own.to_owned() } else { format!("{own}-{number}") };
            let path = root.join(&name);
            let folder = if path.join(gymkhana_registry::LOCK_FILE).exists() {
                let reader = RunReader::open(&path)?;
                if reader.run_text()? != run_text || reader.lock()?.entries() != lock.entries() {
                    continue;
                }
                RunFolder::open_for_resume(&path)?
            } else {
                create(&path, &run_text, &lock, catalog)?
            };
            let episodes = folder.episodes()?;
            let next = episodes.stored().ids().into_iter().map(|id| u64::from(id.group) + 1).max().unwrap_or(0);
            let files = Some(Mutex::new(Files { episodes, _folder: folder }));
            return Ok(Self { name, next: AtomicU64::new(next), files });
        }
        let message = format!("`{}` holds records of too many other plugins and settings", root.display());
        Err(RunError::user(message).with_hint("choose another folder with --out"))
    }

    /// Name within the folder of all records; empty if records are not kept.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Number of the next episode; `None` if all are used.
    pub(super) fn next_number(&self) -> Option<u32> {
        u32::try_from(self.next.fetch_add(1, Ordering::Relaxed)).ok()
    }

    /// Appends a record to the journal of the folder.
    pub(super) fn append(&self, record: &EpisodeRecord) -> Result<(), StoreError> {
        self.with_episodes(|episodes| episodes.append(record).map(drop))
    }

    /// Moves the records to their final files.
    pub(super) fn commit(&self) -> Result<(), StoreError> {
        self.with_episodes(|episodes| episodes.commit().map(drop))
    }

    fn with_episodes(&self, work: impl FnOnce(&mut EpisodeStore) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let Some(files) = &self.files else { return Ok(()) };
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut files.episodes)
    }
}

fn create(path: &Path, run_text: &str, lock: &Lock, catalog: &Catalog) -> RunResult<RunFolder> {
    let folder = RunFolder::create(path, run_text)?;
    let is_locked = |digest: &Digest| lock.entries().iter().any(|entry| entry.digest == *digest);
    for file in catalog.files() {
        if is_locked(&file.entry.digest) {
            folder.add_plugin(&file.bytes)?;
        }
    }
    catalog.assets().store(&folder)?;
    write_chat_files(path, &chat_files_without_tokens())?;
    // Written last: a folder without it is created again.
    folder.write_lock(lock)?;
    Ok(folder)
}

/// Pins of the environment, the tools and the rewards.
fn lock(served: &ServedEnvironment, catalog: &Catalog) -> RunResult<Lock> {
    let own: Vec<String> = served.plugin_names();
    let files = catalog.files().iter().filter(|file| own.iter().any(|name| name == file.name()));
    gymkhana_orchestration::plugins::pin(files.cloned().collect()).map(|(_, lock)| lock)
}
