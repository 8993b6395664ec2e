//! The table of sessions: who may use which, how many there are, and when they end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use gymkhana_driver::NextEpisode;
use gymkhana_record::{Ending, Seed};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore};

use super::entry::Entry;
use super::id::SessionId;
use super::places::Places;
use super::requests::ClientSession;
use super::shared::{SessionContext, unknown};
use super::state::SessionState;
use super::types::{EpisodeScore, ResetResult, SessionTarget};
use crate::catalog::{Catalog, ServedEnvironment};
use crate::config::ServeFile;
use crate::error::{ErrorKind, ServeError};
use crate::metrics::{SessionCounts, SessionMetrics};
use crate::protocol::Protocol;
use crate::records::Records;
use crate::remote::{PlaceCounts, SessionWorkers, default_live};
use crate::texts::Texts;
use gymkhana_http::{Client, KeptBytes};

/// Largest number of sessions that are scored together.
const MAX_GROUP: usize = 256;
/// Plugin calls for each core that run at the same time by default.
const RUNNING_PER_CORE: usize = 2;
/// Time between two attempts to write records that could not be written.
const WRITE_AGAIN: Duration = Duration::from_millis(500);
/// Requests to workers that wait for their answers at the same time by default.
const RUNNING_AT_WORKERS: usize = 4096;

/// The sessions of all clients and endpoints. Clones share one table.
#[derive(Clone)]
pub struct SessionTable {
    pub(super) shared: Arc<SessionContext>,
}

impl SessionTable {
    /// A table of sessions with these plugins. `guests` are the threads of plugin calls, such as
    /// [`GuestThreads`](gymkhana_sandbox::GuestThreads). Must be called in a runtime of tokio, where it starts the task
    /// that closes idle sessions.
    #[must_use]
    pub fn new(catalog: Catalog, config: &ServeFile, records: Arc<Records>, guests: Handle) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let running = config.sessions.running.unwrap_or(RUNNING_PER_CORE * cores);
        let live = config.sessions.live.unwrap_or_else(|| default_live(&catalog, running));
        let places = Places::new(live, config.sessions.wait());
        Self::with_places(catalog, config, records, guests, (places, running))
    }

    /// As [`SessionTable::new`], with the plugin instances of all episodes at workers.
    #[must_use]
    pub fn with_workers(
        catalog: Catalog,
        config: &ServeFile,
        records: Arc<Records>,
        guests: Handle,
        workers: Arc<dyn SessionWorkers>,
    ) -> Self {
        let places = Places::remote(workers, config.sessions.wait());
        Self::with_places(catalog, config, records, guests, (places, RUNNING_AT_WORKERS))
    }

    fn with_places(
        catalog: Catalog,
        config: &ServeFile,
        records: Arc<Records>,
        guests: Handle,
        (places, running): (Places, usize),
    ) -> Self {
        let (all_texts, client_texts) = config.sessions.texts(config.clients.len());
        let shared = SessionContext {
            places,
            running: Arc::new(Semaphore::new(running)),
            limits: config.sessions.clone(),
            per_client: config.sessions.of_client(config.clients.len()),
            episode: (&config.rules.limits).into(),
            catalog,
            guests,
            records,
            metrics: SessionMetrics::default(),
            started: Instant::now(),
            closing: AtomicBool::new(false),
            texts: KeptBytes::new(all_texts, client_texts),
            sessions: RwLock::default(),
        };
        let table = Self { shared: Arc::new(shared) };
        tokio::spawn(close_idle(Arc::downgrade(&table.shared)));
        tokio::spawn(write_records(Arc::downgrade(&table.shared)));
        table
    }

    /// The plugins.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// Opens a session of a client.
    ///
    /// # Errors
    /// If the environment or an option does not exist, the client or the server has too many sessions, or the server is
    /// shutting down.
    pub async fn open(
        &self,
        client: &Client,
        protocol: Protocol,
        what: SessionTarget,
    ) -> Result<ClientSession, ServeError> {
        match &what {
            SessionTarget::Environment { .. } => self.enter(client, protocol, self.served(client, what).await?),
            SessionTarget::Tools { .. } => Ok(self.begin(client, protocol, what, NextEpisode::default()).await?.0),
        }
    }

    /// Opens a session of a client and begins its first episode. `begin` names a seed before that of a tool session.
    ///
    /// # Errors
    /// As [`SessionTable::open`] and [`ClientSession::reset`]; no session is then open.
    pub async fn begin(
        &self,
        client: &Client,
        protocol: Protocol,
        what: SessionTarget,
        begin: NextEpisode,
    ) -> Result<(ClientSession, ResetResult), ServeError> {
        let seed = match &what {
            SessionTarget::Environment { .. } => begin.seed,
            SessionTarget::Tools { seed } => begin.seed.or(seed.map(Seed)),
        };
        let session = self.enter(client, protocol, self.served(client, what).await?)?;
        match session.reset(NextEpisode { seed, ..begin }).await {
            Ok(opened) => Ok((session, opened)),
            Err(error) => {
                // The first error is the reason.
                let _ = session.close().await;
                Err(error)
            }
        }
    }

    /// The environment that a session plays.
    async fn served(&self, client: &Client, what: SessionTarget) -> Result<Arc<ServedEnvironment>, ServeError> {
        let catalog = self.catalog();
        match what {
            SessionTarget::Environment { name, options } => {
                catalog.with_options(catalog.environment(name.as_deref())?, options, Some(client)).await
            }
            SessionTarget::Tools { .. } => catalog.tools_only().cloned(),
        }
    }

    /// Adds a session.
    fn enter(
        &self,
        client: &Client,
        protocol: Protocol,
        served: Arc<ServedEnvironment>,
    ) -> Result<ClientSession, ServeError> {
        let entry = Arc::new(Entry {
            id: SessionId::random()?,
            client: client.clone(),
            protocol,
            state: Arc::new(Mutex::new(SessionState::new(served, Texts::of(client, &self.shared.texts)))),
            stamp: AtomicU64::new(0),
            last_used: AtomicU64::new(self.shared.now()),
        });
        self.shared.admit(&entry)?;
        self.shared.metrics.opened(protocol);
        Ok(ClientSession { shared: Arc::clone(&self.shared), entry })
    }

    /// The session of this id, if it is this client's.
    ///
    /// # Errors
    /// If it does not exist, was closed, has expired, or is another client's, which the error does not tell apart.
    pub fn find(&self, client: &Client, id: &SessionId) -> Result<ClientSession, ServeError> {
        let sessions = self.shared.sessions.read().unwrap_or_else(PoisonError::into_inner);
        let entry = sessions.entries.get(id).filter(|entry| entry.client == *client).cloned();
        drop(sessions);
        let entry = entry.ok_or_else(|| unknown(id))?;
        Ok(ClientSession { shared: Arc::clone(&self.shared), entry })
    }

    /// As [`SessionTable::find`], with the id as text.
    ///
    /// # Errors
    /// As [`SessionTable::find`].
    pub fn find_text(&self, client: &Client, id: &str) -> Result<ClientSession, ServeError> {
        self.find(client, &id.parse()?)
    }

    /// Scores the ended episodes of several sessions together, as a group of attempts at one task. Their records keep the
    /// scores that each episode got alone.
    ///
    /// # Errors
    /// If a session does not exist, is given twice or its episode has not ended, if the tasks differ, if there are too many or
    /// too large ones, or if a reward fails.
    pub async fn score_group(&self, client: &Client, ids: &[SessionId]) -> Result<Vec<EpisodeScore>, ServeError> {
        check_group(ids)?;
        let (mut records, mut served, mut bytes) = (Vec::new(), None, 0);
        for id in ids {
            let session = self.find(client, id)?;
            let (record, own, more) = session.ended(Some(bytes)).await?;
            bytes += more;
            let other = served.get_or_insert_with(|| Arc::clone(&own));
            if !Arc::ptr_eq(other, &own)
                || records.first().is_some_and(|first: &gymkhana_record::EpisodeRecord| first.task != record.task)
            {
                let message = "the sessions cannot be scored together: a group has one environment and one task";
                return Err(ServeError::bad_input(message));
            }
            records.push(record);
        }
        let Some(served) = served else { return Ok(vec![]) };
        let scored = self.shared.call(async move { Ok(served.rollout().rescore(&records).await) }).await?;
        let scores: Vec<EpisodeScore> = scored.iter().map(EpisodeScore::of).collect();
        match ids.iter().zip(&scores).find_map(|(id, score)| Some((id, score.failures.first()?))) {
            // The reward of an episode that was not scored says nothing about the attempt.
            Some((id, failure)) => {
                let mut error = ServeError::from(failure);
                error.message =
                    format!("session `{id}` cannot be scored: {}\nhint: score the group without it", error.message);
                Err(error)
            }
            None => Ok(scores),
        }
    }

    /// Numbers of sessions now.
    #[must_use]
    pub fn counts(&self) -> SessionCounts {
        let open = self.shared.sessions.read().unwrap_or_else(PoisonError::into_inner).entries.len();
        let places = &self.shared.places;
        let PlaceCounts { places: total, taken, workers } = places.counts();
        SessionCounts { open, live: taken, places: total, parked: places.parked(), workers }
    }

    /// Why records cannot be written now. Until they can be, sessions are refused, and those that are open wait.
    #[must_use]
    pub fn unwritable(&self) -> Option<String> {
        self.shared.records.problem()
    }

    /// The metrics of all sessions as OpenMetrics text.
    ///
    /// # Errors
    /// If the encoder refuses a value.
    pub fn metrics_page(&self) -> Result<String, std::fmt::Error> {
        self.shared.metrics.page(self.counts(), self.unwritable().is_none())
    }

    /// Refuses further requests, closes all sessions and writes their records.
    pub async fn shut_down(&self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.records.end_waits();
        let all: Vec<Arc<Entry>> = {
            let sessions = self.shared.sessions.read().unwrap_or_else(PoisonError::into_inner);
            sessions.entries.values().cloned().collect()
        };
        for entry in all {
            let session = ClientSession { shared: Arc::clone(&self.shared), entry };
            session.end(Ending::EarlyStopped).await;
        }
        self.shared.records.flush().await;
        self.shared.records.commit().await;
    }
}

/// Writes records that could not be written as soon as there is room, as long as the table exists.
async fn write_records(table: Weak<SessionContext>) {
    while let Some(shared) = table.upgrade() {
        if shared.records.problem().is_some() {
            shared.records.flush().await;
        }
        drop(shared);
        tokio::time::sleep(WRITE_AGAIN).await;
    }
}

/// Checks the number of sessions of a group, and that each is in it once.
fn check_group(ids: &[SessionId]) -> Result<(), ServeError> {
    if ids.len() > MAX_GROUP {
        let message = format!("the group has {} sessions\nhint: score at most {MAX_GROUP} together", ids.len());
        return Err(ServeError::agent(ErrorKind::TooLarge, message));
    }
    let mut seen = HashSet::new();
    match ids.iter().find(|id| !seen.insert(**id)) {
        Some(twice) => {
            let message =
                format!("session `{twice}` is in the group twice\nhint: score the records of different attempts");
            Err(ServeError::bad_input(message))
        }
        None => Ok(()),
    }
}

/// Closes idle sessions as long as the table exists.
async fn close_idle(table: Weak<SessionContext>) {
    loop {
        let Some(shared) = table.upgrade() else { return };
        for entry in shared.expired() {
            // A session in use is not idle.
            if entry.state.try_lock().is_ok() {
                let session = ClientSession { shared: Arc::clone(&shared), entry };
                session.end(Ending::TimeLimit).await;
            }
        }
        let pause = shared.limits.idle().div_f64(10.0).clamp(Duration::from_millis(20), Duration::from_secs(10));
        drop(shared);
        tokio::time::sleep(pause).await;
    }
}
