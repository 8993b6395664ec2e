//! Records of served episodes: a run folder for each environment, and a journal of the episodes in progress.

mod folder;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_record::{Added, EpisodeId, EpisodeRecord, Phase};
pub use gymkhana_store::Recovered;
use gymkhana_store::{LiveJournal, RunFolder, StoreError, recover};
use tokio::sync::OnceCell;

use crate::catalog::{Catalog, ServedEnvironment};
use crate::error::{ErrorKind, ServeError};
use folder::RecordFolder;

/// The records of a server.
pub struct Records {
    /// Folder of the folders; `None` if records are not kept.
    root: Option<PathBuf>,
    /// Folders, by that of their environment.
    folders: Mutex<HashMap<String, Arc<OnceCell<Arc<RecordFolder>>>>>,
    /// Journal of the episodes in progress.
    journal: Option<LiveJournal>,
    /// First error of a write since the last was taken.
    problem: Mutex<Option<String>>,
}

impl Records {
    /// Records that are not kept.
    #[must_use]
    pub fn none() -> Self {
        Self { root: None, folders: Mutex::default(), journal: None, problem: Mutex::default() }
    }

    /// Records in a folder, which is created if it does not exist. Episodes that a server of this folder left unfinished
    /// when it was killed become records first.
    ///
    /// # Errors
    /// If the folder cannot be written, or holds something else.
    pub async fn open(root: &Path, catalog: &Catalog) -> RunResult<(Self, Recovered)> {
        std::fs::create_dir_all(root).user_context(format!(
            "the folder of records `{}` cannot be created\nhint: choose another with --out",
            root.display()
        ))?;
        let recovered = recover(root, "server", |name, records| {
            let folder = RunFolder::open_for_resume(&root.join(name))?;
            folder.episodes()?.append_all(records)
        })?;
        let journal = LiveJournal::create(root)?;
        let records = Self { root: Some(root.to_owned()), journal: Some(journal), ..Self::none() };
        for served in catalog.environments().iter().chain(catalog.tools_only().ok()) {
            let folder = RecordFolder::open(root, served, catalog)?;
            let cell = Arc::new(OnceCell::new_with(Some(Arc::new(folder))));
            let mut folders = records.folders.lock().unwrap_or_else(PoisonError::into_inner);
            folders.insert(served.folder().to_owned(), cell);
        }
        Ok((records, recovered))
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
            ServeError::host(ErrorKind::Full, "the episode cannot begin: the folder of records has no more ids")
        })?;
        Ok(EpisodeId { stage: 0, phase: Phase::Served, step: 0, group, member: 0, attempt: 0 })
    }

    /// Notes the start of an episode. `folder` is that of its environment.
    pub(crate) fn began(&self, folder: &str, episode: &EpisodeRecord) {
        self.in_journal(folder, |journal, name| journal.began(name, episode));
    }

    /// Notes a turn, which then survives the end of the process.
    pub(crate) fn added(&self, folder: &str, episode: EpisodeId, added: &Added<'_>) {
        self.in_journal(folder, |journal, name| journal.added(name, episode, added));
    }

    /// Stores a record, which then survives the end of the process, and ends the episode in the journal.
    pub(crate) async fn store(&self, served: &Arc<ServedEnvironment>, catalog: &Catalog, record: &EpisodeRecord) {
        let Ok(folder) = self.folder(served, catalog).await else { return };
        let (id, record) = (record.id, record.clone());
        let stored = tokio::task::spawn_blocking(move || folder.append(&record)).await;
        self.note(stored.map_err(|error| error.to_string()).and_then(|stored| stored));
        self.in_journal(served.folder(), |journal, name| journal.ended(name, id));
    }

    /// Writes to the journal with the name of an environment's folder of records. Episodes have one: their ids come from it.
    fn in_journal(&self, folder: &str, write: impl FnOnce(&LiveJournal, &str) -> Result<(), StoreError>) {
        let Some(journal) = &self.journal else { return };
        let opened = {
            let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            folders.get(folder).and_then(|cell| cell.get().cloned())
        };
        if let Some(opened) = opened {
            self.note_stored(write(journal, opened.name()));
        }
    }

    /// Moves the records to their final files.
    pub(crate) async fn commit(&self) {
        let folders: Vec<_> = {
            let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            folders.values().filter_map(|cell| cell.get().cloned()).collect()
        };
        let committed =
            tokio::task::spawn_blocking(move || folders.iter().try_for_each(|folder| folder.commit())).await;
        self.note(committed.map_err(|error| error.to_string()).and_then(|committed| committed));
    }

    /// The first error of a write since this was last called.
    pub fn take_problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note_stored(&self, written: Result<(), StoreError>) {
        self.note(written.map_err(|error| error.to_string()));
    }

    fn note(&self, written: Result<(), String>) {
        if let Err(error) = written {
            tracing::error!(%error, "a record was not written");
            self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// The folder of an environment, created if necessary.
    async fn folder(
        &self,
        served: &Arc<ServedEnvironment>,
        catalog: &Catalog,
    ) -> Result<Arc<RecordFolder>, ServeError> {
        let cell = {
            let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
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
