//! Sessions by the protocol's ids, which clients get before they say what the session is for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde_json::{Map, Value as Json};

use super::calls::{self, CallOutcome, Calls};
use super::output;
use super::requests::Create;
use crate::endpoints::detail::Detail;
use crate::endpoints::lookup::opening;
use crate::endpoints::speech::{self, SAY, plays_by_text};
use crate::endpoints::{Protocol, lookup};
use crate::error::{ErrorKind, ServeError};
use crate::session::{ClientSession, ResetResult, SessionTable, SessionTarget, TurnRequest};
use gymkhana_http::{Client, KeptBytes};

/// Largest length of an id in bytes.
const MAX_ID: usize = 64;

/// Sessions of the protocol over the table of all endpoints.
#[derive(Clone)]
pub(super) struct Sessions {
    /// The table.
    pub(super) table: SessionTable,
    open: Arc<Mutex<HashMap<SessionKey, Arc<Playing>>>>,
    answers: Arc<KeptBytes<Client>>,
}

/// A client's name of a session. Two clients may use the same id.
type SessionKey = (Client, String);

/// One session: an episode and its calls.
pub(super) struct Playing {
    session: ClientSession,
    opened: ResetResult,
    /// Whether the environment is played by text.
    says: bool,
    /// Calls that can be asked for again.
    pub(super) calls: Calls,
}

/// The id of a request's session, in the header `X-Session-ID`.
pub(super) struct Id(pub(super) String);

impl<S: Sync> FromRequestParts<S> for Id {
    type Rejection = Detail;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let header = parts.headers.get("X-Session-ID").and_then(|value| value.to_str().ok()).map(str::trim);
        match header {
            Some(id) if !id.is_empty() && id.len() <= MAX_ID => Ok(Self(id.to_owned())),
            Some(_) => Err(Detail::new(StatusCode::BAD_REQUEST, format!("X-Session-ID must have 1 to {MAX_ID} bytes"))),
            None => Err(Detail::new(StatusCode::BAD_REQUEST, "X-Session-ID header is required")),
        }
    }
}

impl Sessions {
    /// No sessions yet.
    pub(super) fn new(table: &SessionTable) -> Self {
        Self { table: table.clone(), open: Arc::default(), answers: calls::answers() }
    }

    /// Begins the episode of a session.
    ///
    /// # Errors
    /// If the session exists, or the environment or the task does not.
    pub(super) async fn create(&self, client: &Client, id: String, create: &Create) -> Result<(), Detail> {
        let exists = || Detail::new(StatusCode::BAD_REQUEST, "Session already exists");
        let key = (client.clone(), id);
        if self.entries().contains_key(&key) {
            return Err(exists());
        }
        let (begin, options) = create.beginning()?;
        let served = lookup::environment(self.table.catalog(), create.env_name.as_deref())?;
        let what = match opening(&served) {
            SessionTarget::Environment { name, .. } => SessionTarget::Environment { name, options },
            tools => tools,
        };
        let (session, opened) = self.table.begin(client, Protocol::Ors, what, begin).await?;
        let says = plays_by_text(&served, opened.functions());
        let playing =
            Arc::new(Playing { session: session.clone(), opened, says, calls: Calls::new(client, &self.answers) });
        if self.insert(key, playing) {
            return Ok(());
        }
        session.close().await?;
        Err(exists())
    }

    /// Adds a session unless its id is in use, and forgets those that the table has closed.
    fn insert(&self, key: SessionKey, playing: Arc<Playing>) -> bool {
        let mut open = self.entries();
        if open.len() == open.capacity() {
            open.retain(|(client, _), playing| self.table.find(client, &playing.session.id()).is_ok());
        }
        if open.contains_key(&key) {
            return false;
        }
        open.insert(key, playing);
        true
    }

    /// The session of an id.
    ///
    /// # Errors
    /// If this client has no such session, or it has expired.
    pub(super) fn find(&self, client: &Client, id: &str) -> Result<Arc<Playing>, ServeError> {
        let key = (client.clone(), id.to_owned());
        let mut open = self.entries();
        let playing = open.get(&key).cloned().ok_or_else(|| {
            ServeError::agent(ErrorKind::UnknownSession, "Active environment not found\nhint: POST /create first")
        })?;
        match self.table.find(client, &playing.session.id()) {
            Ok(_) => Ok(playing),
            Err(error) => {
                open.remove(&key);
                Err(error)
            }
        }
    }

    /// Closes a session; one that does not exist is closed already.
    ///
    /// # Errors
    /// If a deadline passes.
    pub(super) async fn delete(&self, client: &Client, id: &str) -> Result<(), ServeError> {
        let playing = self.entries().remove(&(client.clone(), id.to_owned()));
        let Some(playing) = playing else { return Ok(()) };
        match playing.session.close().await {
            Err(error) if error.kind != ErrorKind::UnknownSession => Err(error),
            _ => Ok(()),
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SessionKey, Arc<Playing>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Playing {
    /// The session.
    pub(super) fn session(&self) -> &ClientSession {
        &self.session
    }

    /// Blocks of the prompt.
    pub(super) fn prompt(&self) -> Vec<Json> {
        output::prompt(&self.opened)
    }

    /// The functions.
    pub(super) fn tools(&self) -> Json {
        output::tools(self.opened.functions(), self.says)
    }

    /// Calls a function. A call of a function that does not exist, and one after the end, is not made.
    pub(super) async fn call(&self, name: &str, input: Map<String, Json>) -> CallOutcome {
        let action = match self.action(name, input) {
            Ok(action) => action,
            Err(refused) => return Ok(refused.to_string()),
        };
        let stepped = self.session.act(action).await;
        let failed = |error: &ServeError| Err(format!("{}: {}", error.owner.label(), error.message));
        match stepped {
            Ok(step) => match step.fatal() {
                Some(error) => failed(&error),
                None => Ok(output::result(&step).to_string()),
            },
            Err(error) => match error.kind {
                ErrorKind::OutOfOrder => Ok(output::refused(&error.message, "episode_finished").to_string()),
                ErrorKind::BadInput | ErrorKind::UnknownName | ErrorKind::TooLarge => {
                    Ok(output::refused(&error.message, "input_validation").to_string())
                }
                _ => failed(&error),
            },
        }
    }

    /// The turn of a call, or the answer that refuses it.
    fn action(&self, name: &str, input: Map<String, Json>) -> Result<TurnRequest, Json> {
        if self.says && name == SAY {
            return speech::turn(input).map_err(|mistake| output::refused(mistake, "input_validation"));
        }
        let known = self.opened.functions().iter().any(|function| function.name == name);
        if known { Ok(TurnRequest::call(name, &Json::Object(input))) } else { Err(self.not_found(name)) }
    }

    fn not_found(&self, name: &str) -> Json {
        let say = self.says.then_some(SAY);
        let known = self.opened.functions().iter().map(|function| function.name.as_str()).chain(say);
        let known = known.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        output::refused(&format!("Tool '{name}' not found\nhint: the tools are {known}"), "not_found")
    }
}
