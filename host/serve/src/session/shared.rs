//! What all sessions of a table share: plugins, limits, places, records, and the list of open sessions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::entry::Entry;
use super::id::SessionId;
use super::places::Places;
use crate::catalog::Catalog;
use crate::config::SessionLimits;
use crate::error::{ErrorKind, ServeError};
use crate::metrics::SessionMetrics;
use crate::records::Records;
use gymkhana_http::{Client, KeptBytes};
use gymkhana_rules::Limits;

/// What all sessions share.
pub(super) struct SessionContext {
    pub(super) catalog: Catalog,
    pub(super) limits: SessionLimits,
    /// Open sessions of one client.
    pub(super) per_client: usize,
    pub(super) episode: Limits,
    /// Threads of plugin calls.
    pub(super) guests: Handle,
    /// Permits of plugin calls that run at the same time.
    pub(super) running: Arc<Semaphore>,
    pub(super) places: Places,
    pub(super) records: Arc<Records>,
    pub(super) metrics: SessionMetrics,
    pub(super) started: Instant,
    /// Whether the server is shutting down.
    pub(super) closing: AtomicBool,
    /// Bytes of the texts of all sessions.
    pub(super) texts: Arc<KeptBytes<Client>>,
    pub(super) sessions: RwLock<Sessions>,
}

#[derive(Default)]
pub(super) struct Sessions {
    pub(super) entries: HashMap<SessionId, Arc<Entry>>,
    /// Number of sessions of each client.
    pub(super) clients: HashMap<Client, usize>,
}

/// The error of a session that this client does not have.
pub(crate) fn unknown(id: &SessionId) -> ServeError {
    let message =
        format!("session `{id}` does not exist: it was closed, has expired, or never was\nhint: open a session");
    ServeError::agent(ErrorKind::UnknownSession, message)
}

impl SessionContext {
    /// Whether a session is open.
    pub(super) fn holds(&self, id: &SessionId) -> bool {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner).entries.contains_key(id)
    }

    /// Adds a session within the limits.
    pub(super) fn admit(&self, entry: &Arc<Entry>) -> Result<(), ServeError> {
        self.check_open()?;
        self.records.check()?;
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        let full = |message| Err(ServeError::host(ErrorKind::Full, message));
        if sessions.entries.len() >= self.limits.max {
            return full(format!(
                "no session can be opened: all {} are open\nhint: close sessions, or raise sessions.max",
                self.limits.max
            ));
        }
        let own = sessions.clients.entry(entry.client.clone()).or_default();
        if *own >= self.per_client {
            return full(format!(
                "no session can be opened: client `{}` has {own} open\nhint: close sessions, or raise \
                 sessions.per_client",
                entry.client.name()
            ));
        }
        *own += 1;
        sessions.entries.insert(entry.id, Arc::clone(entry));
        Ok(())
    }

    /// Removes a session.
    pub(super) fn remove(&self, entry: &Entry) {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        if sessions.entries.remove(&entry.id).is_none() {
            return;
        }
        match sessions.clients.get_mut(&entry.client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(sessions.clients.remove(&entry.client)),
        }
    }

    /// Whether the server is shutting down.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Fails while the server is shutting down.
    pub(super) fn check_open(&self) -> Result<(), ServeError> {
        if self.is_closing() {
            return Err(ServeError::host(ErrorKind::Closing, "the server is shutting down"));
        }
        Ok(())
    }

    /// Notes the use of a session.
    pub(super) fn touch(&self, entry: &Entry) {
        entry.last_used.store(self.now(), Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Sessions that were idle for too long.
    pub(super) fn expired(&self) -> Vec<Arc<Entry>> {
        let idle = u64::try_from(self.limits.idle().as_millis()).unwrap_or(u64::MAX);
        let before = self.now().saturating_sub(idle);
        let is_idle = |entry: &&Arc<Entry>| entry.last_used.load(Ordering::Relaxed) < before;
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions.entries.values().filter(is_idle).cloned().collect()
    }
}
