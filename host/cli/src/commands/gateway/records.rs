//! The run folder of a gateway's sessions, which the commands for runs read.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use gymkhana_orchestration::chat::write_chat_files;
use gymkhana_orchestration::grants::AssetFiles;
use gymkhana_orchestration::plugins::PluginFile;
use gymkhana_orchestration::served::Served;
use gymkhana_record::EpisodeRecord;
use gymkhana_registry::Lock;
use gymkhana_store::{EpisodeStore, RunFolder, StoreError};

use crate::error::{Classify, CliError, CliResult};

/// What a folder holds beside the episodes.
pub(super) struct Contents<'c> {
    pub(super) files: &'c [PluginFile],
    pub(super) lock: &'c Lock,
    pub(super) assets: &'c AssetFiles,
}

/// The records of all sessions.
pub(super) struct Records {
    /// Number of the first episode.
    first: u32,
    /// The open files; `None` if records are not kept.
    files: Option<Mutex<Files>>,
    /// First error of a write.
    problem: Mutex<Option<String>>,
}

struct Files {
    episodes: EpisodeStore,
    /// Holds the folder's lock.
    _folder: RunFolder,
}

impl Records {
    /// Opens a folder, or creates it. Without a path no records are kept.
    ///
    /// # Errors
    /// If it cannot be written, or holds records of other plugins or settings.
    pub(super) fn open(path: Option<&Path>, served: &Served, contents: &Contents<'_>) -> CliResult<Self> {
        let Some(path) = path else { return Ok(Self { first: 0, files: None, problem: Mutex::default() }) };
        let run_text = served.file.resolved().internal()?;
        let folder = if path.join(gymkhana_registry::LOCK_FILE).exists() {
            let folder = RunFolder::open_for_resume(path)?;
            let reader = folder.reader();
            if reader.run_text()? != run_text || reader.lock()?.entries() != contents.lock.entries() {
                let message = format!("`{}` holds records of other plugins or settings", path.display());
                return Err(CliError::user(message).with_hint("choose another folder with --out"));
            }
            folder
        } else {
            create(path, &run_text, served, contents)?
        };
        let episodes = folder.episodes()?;
        let first = episodes.stored().ids().into_iter().map(|id| id.group.saturating_add(1)).max().unwrap_or(0);
        let files = Some(Mutex::new(Files { episodes, _folder: folder }));
        Ok(Self { first, files, problem: Mutex::default() })
    }

    /// Number of the first episode.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Stores a record, which then survives the end of the process.
    pub(super) fn store(&self, record: &EpisodeRecord) {
        self.with_episodes(|episodes| episodes.append(record).map(drop));
    }

    /// Moves the records to their final files.
    pub(super) fn commit(&self) {
        self.with_episodes(|episodes| episodes.commit().map(drop));
    }

    /// The first error of a write.
    pub(super) fn take_problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with_episodes(&self, work: impl FnOnce(&mut EpisodeStore) -> Result<(), StoreError>) {
        let Some(files) = &self.files else { return };
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = work(&mut files.episodes) {
            self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
        }
    }
}

fn create(path: &Path, run_text: &str, served: &Served, contents: &Contents<'_>) -> CliResult<RunFolder> {
    let folder = RunFolder::create(path, run_text)?;
    for file in contents.files {
        folder.add_plugin(&file.bytes)?;
    }
    contents.assets.store(&folder)?;
    write_chat_files(path, &served.chat)?;
    // Written last: a folder without it is created again.
    folder.write_lock(contents.lock)?;
    Ok(folder)
}
