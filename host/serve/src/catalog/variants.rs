//! Environments with other options than those of the configuration, as long as sessions use them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use gymkhana_http::Client;

use super::ServedEnvironment;
use crate::error::{ErrorKind, ServeError};

/// Sets of options that the sessions of all clients use at a time.
const MAX_VARIANTS: usize = 64;
/// Those that the sessions of one of several clients opened.
const MAX_OF_CLIENT: usize = MAX_VARIANTS - MAX_VARIANTS / 4;

/// An environment, and the client whose session used its options first; `None` at a worker, whose server counts.
type Variant = (Arc<ServedEnvironment>, Option<Client>);

/// Environments by the names of their folders.
pub(super) struct Variants {
    by_folder: RwLock<HashMap<String, Variant>>,
    max_of_client: usize,
}

impl Variants {
    /// No environments, of a server with this number of clients.
    pub fn new(clients: usize) -> Self {
        let max_of_client = if clients > 1 { MAX_OF_CLIENT } else { MAX_VARIANTS };
        Self { by_folder: RwLock::default(), max_of_client }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Variant>> {
        self.by_folder.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The environment with this folder.
    pub fn find(&self, folder: &str) -> Option<Arc<ServedEnvironment>> {
        self.read().get(folder).map(|(served, _)| Arc::clone(served))
    }

    /// Adds an environment for a client, or returns the one with the same folder.
    ///
    /// # Errors
    /// If too many sets of options are in use, by all clients or by this one.
    pub fn add(&self, made: ServedEnvironment, client: Option<&Client>) -> Result<Arc<ServedEnvironment>, ServeError> {
        let made = Arc::new(made);
        let mut variants = self.by_folder.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, _)) = variants.get(made.folder()) {
            return Ok(Arc::clone(known));
        }
        let is_used = |served: &Arc<ServedEnvironment>| Arc::strong_count(served) > 1;
        if variants.len() >= self.max_of_client {
            // Those of no session make room.
            variants.retain(|_, (served, _)| is_used(served));
        }
        let own = variants.values().filter(|(_, opened_by)| opened_by.as_ref() == client).count();
        let (limit, users) = match client {
            _ if variants.len() >= MAX_VARIANTS => (MAX_VARIANTS, "all clients".to_owned()),
            Some(client) if own >= self.max_of_client => (self.max_of_client, format!("client `{}`", client.name())),
            _ => {
                variants.insert(made.folder().to_owned(), (Arc::clone(&made), client.cloned()));
                return Ok(made);
            }
        };
        let message = format!(
            "environment `{}` cannot be opened: the sessions of {users} use {limit} different sets of options\nhint: use \
             one of them, close sessions, or serve the environment with other options in its configuration",
            made.name()
        );
        Err(ServeError::host(ErrorKind::Full, message))
    }

    /// Whether one of them has its records in this folder.
    pub fn holds_folder(&self, folder: &str) -> bool {
        self.read().contains_key(folder)
    }
}
