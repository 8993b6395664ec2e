//! The open sessions: their addresses, their keys, and the channels to those who answer.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_http::is_same;
use gymkhana_record::Function;
use tokio::sync::mpsc;

use super::activity::Activity;
use crate::session::{Incoming, ToolRequest};

/// Requests of a session that wait to be read.
const WAITING: usize = 256;

/// The variable that names the address of the run's tools.
const MCP_URL: &str = "GYMKHANA_MCP_URL";

/// The run's tools as the endpoint for MCP sees them.
pub(super) struct OfferedTools {
    /// The last part of the address, which is the key.
    token: String,
    pub(super) functions: Vec<Function>,
    pub(super) requests: mpsc::Sender<ToolRequest>,
}

/// A session as the handlers see it.
#[derive(Clone)]
pub(super) struct RoutedSession {
    key: Arc<str>,
    pub(super) models: Arc<[String]>,
    pub(super) requests: mpsc::Sender<Incoming>,
    tools: Option<Arc<OfferedTools>>,
    pub(super) activity: Activity,
}

impl RoutedSession {
    /// Whether this is the session's key.
    pub(super) fn accepts(&self, key: &str) -> bool {
        is_same(&self.key, key)
    }

    /// The tools, if the session offers any and this is their token.
    pub(super) fn tools(&self, token: &str) -> Option<Arc<OfferedTools>> {
        self.tools.clone().filter(|tools| is_same(&tools.token, token))
    }
}

/// All open sessions.
pub(super) struct OpenSessions {
    /// Address as programs see it, without a slash at its end.
    url: String,
    open: Mutex<HashMap<String, RoutedSession>>,
}

impl OpenSessions {
    pub(super) fn new(url: &str) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), open: Mutex::default() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn get(&self, id: &str) -> Option<RoutedSession> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub(super) fn open(self: &Arc<Self>, models: Vec<String>, functions: Option<Vec<Function>>) -> OpenSession {
        let (id, key) = (random_hex(), format!("gk-{}{}", random_hex(), random_hex()));
        let (sender, requests) = mpsc::channel(WAITING);
        let (calls, tool_requests) = mpsc::channel(WAITING);
        let token = functions.is_some().then(|| format!("{}{}", random_hex(), random_hex()));
        let tools = functions.zip(token.clone());
        let tools = tools.map(|(functions, token)| Arc::new(OfferedTools { token, functions, requests: calls }));
        let activity = Activity::new();
        let entry = RoutedSession {
            key: key.as_str().into(),
            models: models.into(),
            requests: sender,
            tools,
            activity: activity.clone(),
        };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), entry);
        OpenSession { sessions: Arc::clone(self), id, key, token, activity, requests, tool_requests }
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
    sessions: Arc<OpenSessions>,
    id: String,
    key: String,
    /// The last part of the address of the tools, if the session offers any.
    token: Option<String>,
    activity: Activity,
    /// The requests, in the order of their arrival.
    pub requests: mpsc::Receiver<Incoming>,
    /// The calls of tools, in the order of their arrival.
    pub tool_requests: mpsc::Receiver<ToolRequest>,
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
        format!("{}/s/{}", self.sessions.url, self.id)
    }

    /// Id of the session.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Activity of the session.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Address of the tools by MCP, if the session offers any. Who knows it may call them: it needs no other key.
    #[must_use]
    pub fn mcp_url(&self) -> Option<String> {
        let token = self.token.as_ref()?;
        Some(format!("{}/mcp/{token}", self.anthropic_url()))
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
        let tools = self.mcp_url().map(|url| (MCP_URL, url));
        named.into_iter().chain(tools).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.sessions.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
