//! Sessions by the tokens that agents know.
//!
//! An agent's token is not the session's id: a holder of the token can play and observe, but not read rewards.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::arguments::OpenArguments;
use super::offer::Offer;
use crate::endpoints::{Protocol, lookup};
use crate::error::ServeError;
use crate::session::{ClientSession, ResetResult, SessionId, SessionTable};
use gymkhana_http::Client;

/// Number of tokens below which those of closed sessions are not looked for.
const SWEEP_FROM: usize = 1024;

/// One session as its agent sees it.
pub(super) struct Agent {
    /// The session.
    pub(super) session: ClientSession,
    /// Its tools.
    pub(super) offer: Arc<Offer>,
}

/// A new session.
pub(super) struct NewSession {
    /// The agent's token.
    pub(super) token: SessionId,
    /// The session.
    pub(super) agent: Arc<Agent>,
    /// The start of its first episode.
    pub(super) opened: ResetResult,
    /// Name of the environment.
    pub(super) environment: String,
}

/// The sessions of the endpoint over the table of all endpoints.
pub(super) struct Agents {
    /// The table.
    pub(super) table: SessionTable,
    state: Mutex<Tokens>,
}

struct Tokens {
    agents: HashMap<SessionId, Arc<Agent>>,
    /// Number of tokens at which those of closed sessions are removed.
    sweep_at: usize,
    /// The last offer of each environment: most tasks have the same one.
    offers: HashMap<String, Arc<Offer>>,
}

impl Agents {
    /// No sessions yet.
    pub(super) fn new(table: &SessionTable) -> Self {
        let tokens = Tokens { agents: HashMap::new(), sweep_at: SWEEP_FROM, offers: HashMap::new() };
        Self { table: table.clone(), state: Mutex::new(tokens) }
    }

    /// Opens a session and begins its episode.
    ///
    /// # Errors
    /// If the environment, the task or an option does not exist, or no session can be opened.
    pub(super) async fn enter(&self, client: &Client, open: OpenArguments) -> Result<NewSession, ServeError> {
        let served = lookup::environment(self.table.catalog(), open.environment.as_deref())?;
        let (what, begin) = open.session(&served)?;
        let (session, opened) = self.table.begin(client, Protocol::Mcp, what, begin).await?;
        let offer = Offer::new(&served, &opened.offered);
        let token = SessionId::random()?;
        let agent = Arc::new(Agent { session, offer: self.shared(served.name(), offer) });
        let mut tokens = self.tokens();
        if tokens.agents.len() >= tokens.sweep_at {
            tokens.agents.retain(|_, agent| agent.session.is_open());
            tokens.sweep_at = SWEEP_FROM.max(2 * tokens.agents.len());
        }
        tokens.agents.insert(token, Arc::clone(&agent));
        drop(tokens);
        Ok(NewSession { token, agent, opened, environment: served.name().to_owned() })
    }

    /// The session of an agent's token, if it is this client's.
    ///
    /// # Errors
    /// If it does not exist, was closed, has expired, or is another client's, which the error does not tell apart.
    pub(super) fn find(&self, client: &Client, token: &str) -> Result<Arc<Agent>, ServeError> {
        let token: SessionId = token.parse()?;
        let found = self.tokens().agents.get(&token).cloned();
        let own = found.filter(|agent| self.table.find(client, &agent.session.id()).is_ok());
        own.ok_or_else(|| crate::session::unknown(&token))
    }

    /// Removes a token, whose session is closed.
    pub(super) fn forget(&self, token: &str) {
        if let Ok(token) = token.parse::<SessionId>() {
            self.tokens().agents.remove(&token);
        }
    }

    /// The offer that sessions of an environment share if theirs are equal.
    fn shared(&self, environment: &str, offer: Offer) -> Arc<Offer> {
        let mut tokens = self.tokens();
        match tokens.offers.get(environment) {
            Some(known) if **known == offer => Arc::clone(known),
            _ => {
                let offer = Arc::new(offer);
                tokens.offers.insert(environment.to_owned(), Arc::clone(&offer));
                offer
            }
        }
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
