//! The open sessions: their addresses, their keys, and the channels to those who answer.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::session::Incoming;

/// Requests of a session that wait to be read.
const WAITING: usize = 256;

/// A session as the handlers see it.
#[derive(Clone)]
pub(super) struct Entry {
    key: Arc<str>,
    pub(super) models: Arc<[String]>,
    pub(super) requests: mpsc::Sender<Incoming>,
}

impl Entry {
    /// Whether this is the session's key. The comparison takes the same time for every key of this length.
    pub(super) fn accepts(&self, key: &str) -> bool {
        let (own, key) = (self.key.as_bytes(), key.as_bytes());
        own.len() == key.len() && own.iter().zip(key).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
    }
}

/// All open sessions.
pub(super) struct Sessions {
    address: SocketAddr,
    open: Mutex<HashMap<String, Entry>>,
}

impl Sessions {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, open: Mutex::default() }
    }

    pub(super) fn get(&self, id: &str) -> Option<Entry> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub(super) fn open(self: &Arc<Self>, models: Vec<String>) -> OpenSession {
        let (id, key) = (random_hex(), format!("gk-{}{}", random_hex(), random_hex()));
        let (sender, requests) = mpsc::channel(WAITING);
        let entry = Entry { key: key.as_str().into(), models: models.into(), requests: sender };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), entry);
        OpenSession { sessions: Arc::clone(self), id, key, requests }
    }
}

/// 64 random bits. Without random numbers of the system no session could be kept from the others.
fn random_hex() -> String {
    let mut bytes = [0; 8];
    if let Err(error) = getrandom::fill(&mut bytes) {
        unreachable!("the system has random numbers since its start: {error}");
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// An open session: its address, its key and its requests. Dropping it closes the session.
pub struct OpenSession {
    sessions: Arc<Sessions>,
    id: String,
    key: String,
    /// The requests, in the order of their arrival.
    pub requests: mpsc::Receiver<Incoming>,
}

impl OpenSession {
    /// Base URL for clients of OpenAI's protocols.
    #[must_use]
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.anthropic_url())
    }

    /// Base URL for clients of Anthropic's protocol, which add `/v1` themselves.
    #[must_use]
    pub fn anthropic_url(&self) -> String {
        format!("http://{}/s/{}", self.sessions.address, self.id)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The variables by which programs find the session. `model` is the policy's name.
    #[must_use]
    pub fn variables(&self, model: &str) -> Vec<(String, String)> {
        let (openai, anthropic, key) = (self.openai_url(), self.anthropic_url(), self.key.clone());
        let named = [
            ("OPENAI_BASE_URL", openai.clone()),
            ("OPENAI_API_BASE", openai),
            ("OPENAI_API_KEY", key.clone()),
            ("OPENAI_MODEL", model.to_owned()),
            ("ANTHROPIC_BASE_URL", anthropic),
            ("ANTHROPIC_API_KEY", key),
            ("ANTHROPIC_MODEL", model.to_owned()),
        ];
        named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.sessions.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
