//! Records of served episodes: a run folder for each environment, and a journal of the episodes in progress.

mod folder;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_record::{Added, EpisodeId, EpisodeRecord, Phase};
pub use gymkhana_store::Recovered;
use gymkhana_store::{LiveRecords, ReportWrites, RunFolder, recover};
use gymkhana_waits::{Counterpart, within};
use tokio::sync::OnceCell;

use crate::catalog::{Catalog, ServedEnvironment};
use crate::error::{ErrorKind, ServeError};
use folder::RecordFolder;

/// Time for which a request waits until what its answer promises is written.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(250);

/// The records of a server.
pub struct Records {
    /// Folder of the folders; `None` if records are not kept.
    root: Option<PathBuf>,
    /// Folders, by that of their environment.
    folders: Mutex<HashMap<String, Arc<OnceCell<Arc<RecordFolder>>>>>,
    /// Episodes in progress, and what is not written yet; `None` if records are not kept.
    live: Option<Arc<LiveRecords>>,
    /// Whether the server ends, and no request waits.
    is_ending: AtomicBool,
}

impl Records {
    /// Records that are not kept.
    #[must_use]
    pub fn none() -> Self {
        Self { root: None, folders: Mutex::default(), live: None, is_ending: AtomicBool::new(false) }
    }

    /// Records in a folder, which is created if it does not exist. Episodes that a server of this folder left unfinished
    /// when it was killed become records first. `report` gets the reason when records cannot be written, and `None` when
    /// they can be again.
    ///
    /// # Errors
    /// If the folder cannot be written, or holds something else.
    pub async fn open(root: &Path, catalog: &Catalog, report: ReportWrites) -> RunResult<(Self, Recovered)> {
        std::fs::create_dir_all(root).user_context(format!(
            "the folder of records `{}` cannot be created\nhint: choose another with --out",
            root.display()
        ))?;
        let recovered = recover(root, "server", |name, records| {
            let folder = RunFolder::open_for_resume(&root.join(name))?;
            folder.episodes()?.append_all(records)
        })?;
        let live = Arc::new(LiveRecords::create(root, report)?);
        let records = Self { root: Some(root.to_owned()), live: Some(live), ..Self::none() };
        for served in catalog.environments().iter().chain(catalog.tools_only().ok()) {
            let folder = RecordFolder::open(root, served, catalog)?;
            let cell = Arc::new(OnceCell::new_with(Some(Arc::new(folder))));
            let mut folders = records.folders.lock().unwrap_or_else(PoisonError::into_inner);
            folders.insert(served.folder().to_owned(), cell);
        }
        Ok((records, recovered))
    }

    /// Folder of the folders; `None` if records are not kept.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The id of an environment's next episode.
    ///
    /// # Errors
    /// If the folder of an environment with other options cannot be created, or its ids are used up.
    pub(crate) async fn next_id(
        &self,
        served: &Arc<ServedEnvironment>,
        catalog: &Catalog,
    ) -> Result<EpisodeId, ServeError> {
        let folder = self.folder(served, catalog).await?;
        let group = folder.next_number().ok_or_else(|| {
            ServeError::host(ErrorKind::Full, "the episode cannot begin: the folder of records has no free ids")
        })?;
        Ok(EpisodeId { stage: 0, phase: Phase::Served, step: 0, group, member: 0, attempt: 0 })
    }

    /// Notes the start of an episode. `folder` is that of its environment.
    ///
    /// # Errors
    /// If it is not written in time; it then follows when there is room.
    pub(crate) async fn began(&self, folder: &str, episode: &EpisodeRecord) -> Result<(), ServeError> {
        self.written(self.in_live(folder, |live, name| live.began(name, episode))).await
    }

    /// Notes a turn, which then survives the end of the process.
    ///
    /// # Errors
    /// As [`Records::began`].
    pub(crate) async fn added(&self, folder: &str, episode: EpisodeId, added: &Added<'_>) -> Result<(), ServeError> {
        self.written(self.in_live(folder, |live, name| live.added(name, episode, added))).await
    }

    /// Stores a record, which then survives the end of the process, and ends the episode in the journal.
    ///
    /// # Errors
    /// As [`Records::began`].
    pub(crate) async fn store(
        &self,
        served: &Arc<ServedEnvironment>,
        catalog: &Catalog,
        record: &EpisodeRecord,
    ) -> Result<(), ServeError> {
        let Some(live) = self.live.clone() else { return Ok(()) };
        let (folder, record) = (self.folder(served, catalog).await?, record.clone());
        let stored = tokio::task::spawn_blocking(move || {
            let name = folder.name().to_owned();
            live.store(&name, record, Box::new(move |record| folder.append(record)))
        });
        self.written(stored.await.unwrap_or(false)).await
    }

    /// Fails while records cannot be written: nothing that an answer would promise may begin then.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        self.problem().map_or(Ok(()), |why| Err(unwritten(ErrorKind::Full, &why)))
    }

    /// Why records cannot be written now.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.live.as_ref()?.problem()
    }

    /// Writes what could not be written so far. Returns whether nothing is left.
    pub async fn flush(&self) -> bool {
        let Some(live) = self.live.clone() else { return true };
        tokio::task::spawn_blocking(move || live.flush()).await.unwrap_or(false)
    }

    /// Waits until everything is written.
    async fn written(&self, is_written: bool) -> Result<(), ServeError> {
        if is_written {
            return Ok(());
        }
        let flushed = async {
            while !self.flush().await && !self.is_ending.load(Ordering::Relaxed) {
                tokio::time::sleep(RETRY).await;
            }
        };
        // The reason is left if the time is over.
        let _ = within(Counterpart::Disk, MAX_WAIT, flushed).await;
        self.problem().map_or(Ok(()), |why| Err(unwritten(ErrorKind::Failed, &why)))
    }

    /// Writes with the name of an environment's folder of records. Episodes have one: their ids come from it.
    fn in_live(&self, folder: &str, write: impl FnOnce(&LiveRecords, &str) -> bool) -> bool {
        let Some(live) = &self.live else { return true };
        let opened = {
            let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            folders.get(folder).and_then(|cell| cell.get().cloned())
        };
        opened.is_none_or(|opened| write(live, opened.name()))
    }

    /// Lets no request wait for room from now on.
    pub(crate) fn end_waits(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Moves the records to their final files.
    pub(crate) async fn commit(&self) {
        let folders: Vec<_> = {
            let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            folders.values().filter_map(|cell| cell.get().cloned()).collect()
        };
        let committed =
            tokio::task::spawn_blocking(move || folders.iter().try_for_each(|folder| folder.commit())).await;
        let failed = match committed {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::error!(error = failed, "records stay in the journals of their folders");
    }

    /// The folder of an environment, created if necessary.
    async fn folder(
        &self,
        served: &Arc<ServedEnvironment>,
        catalog: &Catalog,
    ) -> Result<Arc<RecordFolder>, ServeError> {
        let cell = {
            let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            if !folders.contains_key(served.folder()) {
                // Folders of options that no session uses any more are closed.
                folders.retain(|folder, _| catalog.holds_folder(folder));
            }
            Arc::clone(folders.entry(served.folder().to_owned()).or_default())
        };
        let made = cell.get_or_try_init(async || match &self.root {
            None => Ok(Arc::new(RecordFolder::none())),
            Some(root) => RecordFolder::open(root, served, catalog).map(Arc::new),
        });
        let cannot = |error| {
            let message = format!("the session cannot be recorded: {error}");
            ServeError::host(ErrorKind::Failed, message)
        };
        made.await.cloned().map_err(cannot)
    }
}

/// The error of an answer or of a session that cannot be recorded.
fn unwritten(kind: ErrorKind, why: &str) -> ServeError {
    let why = why.lines().next().unwrap_or_default();
    let message = format!(
        "the request cannot be recorded: {why}\nhint: free space on the disk of --out; sessions then continue by themselves"
    );
    ServeError::host(kind, message)
}
