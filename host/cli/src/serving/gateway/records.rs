//! The run folder of a gateway's sessions, which the commands for runs read, and the journal of the open ones.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use gymkhana_gateway::control::SessionJournal;
use gymkhana_orchestration::chat::write_chat_files;
use gymkhana_orchestration::grants::AssetFiles;
use gymkhana_orchestration::plugins::PluginFile;
use gymkhana_orchestration::served::Served;
use gymkhana_record::{Added, EpisodeId, EpisodeRecord};
use gymkhana_registry::Lock;
use gymkhana_store::{EpisodeStore, LiveJournal, Recovered, RunFolder, StoreError, recover};

use crate::error::{Classify, CliError, CliResult};

/// Name of the folder of records in the journal, which lies in that folder.
const FOLDER: &str = "";

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
    /// Journal of the open sessions.
    journal: Option<LiveJournal>,
    /// First error of a write.
    problem: Mutex<Option<String>>,
}

struct Files {
    episodes: EpisodeStore,
    /// Holds the folder's lock.
    _folder: RunFolder,
}

impl Records {
    /// Opens a folder, or creates it. Sessions that a gateway of this folder left open when it was killed become records
    /// first. Without a path no records are kept.
    ///
    /// # Errors
    /// If it cannot be written, holds records of other plugins or settings, or has a damaged journal.
    pub(super) fn open(path: Option<&Path>, served: &Served, contents: &Contents<'_>) -> CliResult<(Self, Recovered)> {
        let Some(path) = path else {
            let none = Self { first: 0, files: None, journal: None, problem: Mutex::default() };
            return Ok((none, Recovered::default()));
        };
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
        let mut episodes = folder.episodes()?;
        let recovered = recover(path, "gateway", |_, records| episodes.append_all(records))?;
        let journal = Some(LiveJournal::create(path)?);
        let first = episodes.stored().ids().into_iter().map(|id| id.group.saturating_add(1)).max().unwrap_or(0);
        let files = Some(Mutex::new(Files { episodes, _folder: folder }));
        Ok((Self { first, files, journal, problem: Mutex::default() }, recovered))
    }

    /// Number of the first episode.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Stores a record, which then survives the end of the process, and ends the session in the journal. If the record
    /// cannot be stored, the journal keeps the session for the next start.
    pub(super) fn store(&self, record: &EpisodeRecord) {
        if self.with_episodes(|episodes| episodes.append(record).map(drop)) {
            self.end(record.id);
        }
    }

    /// Ends a session in the journal.
    pub(super) fn end(&self, episode: EpisodeId) {
        self.with_journal(|journal| journal.ended(FOLDER, episode));
    }

    /// Moves the records to their final files.
    pub(super) fn commit(&self) {
        let _ = self.with_episodes(|episodes| episodes.commit().map(drop));
    }

    /// The first error of a write.
    pub(super) fn take_problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the work succeeded.
    fn with_episodes(&self, work: impl FnOnce(&mut EpisodeStore) -> Result<(), StoreError>) -> bool {
        let Some(files) = &self.files else { return true };
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        self.note(work(&mut files.episodes))
    }

    fn with_journal(&self, work: impl FnOnce(&LiveJournal) -> Result<(), StoreError>) {
        if let Some(journal) = &self.journal {
            let _ = self.note(work(journal));
        }
    }

    /// Keeps the first error. Whether there was none.
    fn note(&self, written: Result<(), StoreError>) -> bool {
        let Err(error) = written else { return true };
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
        false
    }
}

impl SessionJournal for Records {
    fn began(&self, episode: &EpisodeRecord) {
        self.with_journal(|journal| journal.began(FOLDER, episode));
    }

    fn added(&self, episode: EpisodeId, added: &Added<'_>) {
        self.with_journal(|journal| journal.added(FOLDER, episode, added));
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
