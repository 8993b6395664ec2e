//! The run folder of a gateway's sessions, which the commands for runs read, and the journal of the open ones.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use gymkhana_gateway::control::SessionJournal;
use gymkhana_orchestration::chat::write_chat_files;
use gymkhana_orchestration::grants::AssetFiles;
use gymkhana_orchestration::served::Served;
use gymkhana_record::{Added, EpisodeId, EpisodeRecord};
use gymkhana_registry::{Lock, PluginFile};
use gymkhana_store::{EpisodeStore, LiveRecords, Recovered, ReportWrites, RunFolder, StoreError, recover};

use crate::error::{Classify, CliError, CliResult};

/// Name of the folder of records in the journal, which lies in that folder.
const FOLDER: &str = "";

/// Time between two attempts to write what could not be written.
const RETRY: Duration = Duration::from_millis(250);

/// What a folder holds beside the episodes.
pub(super) struct FolderContents<'c> {
    pub(super) files: &'c [PluginFile],
    pub(super) lock: &'c Lock,
    pub(super) assets: &'c AssetFiles,
}

/// The records of all sessions.
pub(super) struct GatewayRecords {
    /// Number of the first episode.
    first: u32,
    /// The open files and sessions; `None` if records are not kept.
    open: Option<(Arc<Mutex<RecordFiles>>, Arc<LiveRecords>)>,
}

struct RecordFiles {
    episodes: EpisodeStore,
    /// Holds the folder's lock.
    _folder: RunFolder,
}

impl GatewayRecords {
    /// Opens a folder, or creates it. Sessions that a gateway of this folder left open when it was killed become records
    /// first. Without a path no records are kept. `report` gets the reason when records cannot be written, and `None` when
    /// they can be again.
    ///
    /// # Errors
    /// If it cannot be written, holds records of other plugins or settings, or has a damaged journal.
    pub(super) fn open(
        path: Option<&Path>,
        served: &Served,
        contents: &FolderContents<'_>,
        report: ReportWrites,
    ) -> CliResult<(Self, Recovered)> {
        let Some(path) = path else {
            return Ok((Self { first: 0, open: None }, Recovered::default()));
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
        let live = Arc::new(LiveRecords::create(path, report)?);
        let first = episodes.stored().ids().into_iter().map(|id| id.group.saturating_add(1)).max().unwrap_or(0);
        let files = Arc::new(Mutex::new(RecordFiles { episodes, _folder: folder }));
        Ok((Self { first, open: Some((files, live)) }, recovered))
    }

    /// Number of the first episode.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Stores a record, which then survives the end of the process, and ends the session in the journal. Waits while the
    /// disk is full.
    pub(super) async fn store(&self, record: EpisodeRecord) {
        let Some((files, live)) = self.open.clone() else { return };
        let append = move |record: &EpisodeRecord| {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            files.episodes.append(record).map(drop)
        };
        let kept = Arc::clone(&live);
        let stored = tokio::task::spawn_blocking(move || kept.store(FOLDER, record, Box::new(append)));
        written(live, stored.await.unwrap_or(false)).await;
    }

    /// Ends a session in the journal.
    pub(super) fn end(&self, episode: EpisodeId) {
        if let Some((_, live)) = &self.open {
            // What is not written now follows when there is room.
            let _ = live.ended(FOLDER, episode);
        }
    }

    /// Moves the records to their final files.
    ///
    /// # Errors
    /// If they stay in the journal.
    pub(super) fn commit(&self) -> Result<(), StoreError> {
        let Some((files, live)) = &self.open else { return Ok(()) };
        live.flush();
        files.lock().unwrap_or_else(PoisonError::into_inner).episodes.commit().map(drop)
    }

    /// Writes what could not be written so far.
    pub(super) async fn flush(&self) {
        if let Some((_, live)) = self.open.clone()
            && live.problem().is_some()
        {
            // A panic is reported by the runtime.
            let _ = tokio::task::spawn_blocking(move || live.flush()).await;
        }
    }

    /// Why records cannot be written now.
    pub(super) fn problem(&self) -> Option<String> {
        self.open.as_ref()?.1.problem()
    }
}

/// Waits until everything is written.
async fn written(live: Arc<LiveRecords>, is_written: bool) {
    let mut is_written = is_written;
    while !is_written {
        tokio::time::sleep(RETRY).await;
        let again = Arc::clone(&live);
        is_written = tokio::task::spawn_blocking(move || again.flush()).await.unwrap_or(false);
    }
}

impl SessionJournal for GatewayRecords {
    fn began(&self, episode: &EpisodeRecord) -> BoxFuture<'static, ()> {
        self.in_live(|live| live.began(FOLDER, episode))
    }

    fn added(&self, episode: EpisodeId, added: &Added<'_>) -> BoxFuture<'static, ()> {
        self.in_live(|live| live.added(FOLDER, episode, added))
    }

    fn problem(&self) -> Option<String> {
        self.problem()
    }
}

impl GatewayRecords {
    /// Writes; the future completes when everything is written.
    fn in_live(&self, write: impl FnOnce(&LiveRecords) -> bool) -> BoxFuture<'static, ()> {
        match &self.open {
            Some((_, live)) if !write(live) => Box::pin(written(Arc::clone(live), false)),
            _ => Box::pin(std::future::ready(())),
        }
    }
}

fn create(path: &Path, run_text: &str, served: &Served, contents: &FolderContents<'_>) -> CliResult<RunFolder> {
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
