//! The environment of one connection: its session, and the id that the client gave its episode.

use std::sync::Arc;

use gymkhana_record::Seed;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::action::ActionRequest;
use super::observation;

use crate::catalog::{ServedEnvironment, named_values};
use crate::endpoints::detail::{FieldFault, fields};
use crate::endpoints::lookup::opening;
use crate::endpoints::{Protocol, tasks};
use crate::error::ServeError;
use crate::session::{ClientSession, NextEpisode, SessionTable, SessionTarget, TurnAnswer, TurnRequest};
use gymkhana_http::Client;

/// Largest length of an episode's id in characters.
const MAX_ID: usize = 255;

/// What a client may send with a reset. The protocol lets clients send more, which is ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Reset {
    seed: Option<u64>,
    episode_id: Option<String>,
    split: Option<String>,
    index: Option<u64>,
    #[serde(default)]
    options: Map<String, Json>,
}

impl Reset {
    /// Reads the arguments of a reset.
    ///
    /// # Errors
    /// If one has a wrong type, or the id is too long.
    pub(super) fn of(json: &Json) -> Result<Self, FieldFault> {
        let reset: Self = fields(json)?;
        match &reset.episode_id {
            Some(id) if id.chars().count() > MAX_ID => {
                let message = format!("String should have at most {MAX_ID} characters");
                Err(FieldFault { kind: "string_too_long", ..FieldFault::of(message, &json!(id)) }.at("episode_id"))
            }
            _ => Ok(reset),
        }
    }
}

/// The environment of one connection.
pub(super) struct EnvironmentConnection {
    sessions: SessionTable,
    client: Client,
    served: Arc<ServedEnvironment>,
    session: ClientSession,
    /// Options of the last reset.
    options: Map<String, Json>,
    episode_id: Option<String>,
    /// Whether the session ends with the connection.
    owned: bool,
}

impl EnvironmentConnection {
    /// Opens a session.
    ///
    /// # Errors
    /// If no session can be opened.
    pub(super) async fn open(
        sessions: &SessionTable,
        client: Client,
        served: Arc<ServedEnvironment>,
    ) -> Result<Self, ServeError> {
        let session = sessions.open(&client, Protocol::OpenEnv, opening(&served)).await?;
        Ok(Self::of(sessions, client, served, session, true))
    }

    /// Attaches to a session that exists.
    ///
    /// # Errors
    /// If this client has no such session.
    pub(super) async fn attach(sessions: &SessionTable, client: Client, id: &str) -> Result<Self, ServeError> {
        let session = sessions.find_text(&client, id)?;
        let served = session.environment().await?;
        Ok(Self::of(sessions, client, served, session, false))
    }

    fn of(
        sessions: &SessionTable,
        client: Client,
        served: Arc<ServedEnvironment>,
        session: ClientSession,
        owned: bool,
    ) -> Self {
        let sessions = sessions.clone();
        Self { sessions, client, served, session, options: Map::new(), episode_id: None, owned }
    }

    /// The session.
    pub(super) fn session(&self) -> &ClientSession {
        &self.session
    }

    /// Begins an episode.
    ///
    /// # Errors
    /// If an argument is wrong or the environment fails.
    pub(super) async fn reset(&mut self, reset: Reset) -> Result<Json, ServeError> {
        let Reset { seed, episode_id, split, index, options } = reset;
        if options != self.options {
            self.reopen(&options).await?;
            self.options = options;
        }
        let opened = self.session.reset(NextEpisode { split, task: index, seed: seed.map(Seed) }).await?;
        self.episode_id = episode_id;
        Ok(observation::opened(&opened))
    }

    /// Replaces the session by one with other options.
    async fn reopen(&mut self, options: &Map<String, Json>) -> Result<(), ServeError> {
        if !self.owned || self.served.is_tools_only() {
            let message = "options cannot be set: the session was opened without them\nhint: reset without options";
            return Err(ServeError::bad_input(message));
        }
        let what =
            SessionTarget::Environment { name: Some(self.served.name().to_owned()), options: named_values(options) };
        let session = self.sessions.open(&self.client, Protocol::OpenEnv, what).await?;
        let before = std::mem::replace(&mut self.session, session);
        before.close().await.map(|_| ())
    }

    /// Takes a turn, calls a function or lists the functions.
    ///
    /// # Errors
    /// If no episode is running, or the environment or the host fails.
    pub(super) async fn step(&mut self, asked: ActionRequest) -> Result<Json, ServeError> {
        match asked {
            ActionRequest::ListTools => Ok(observation::listed(&self.session.functions(None).await?)),
            ActionRequest::CallTool { name, action } => {
                let step = self.act(action).await?;
                Ok(observation::called(&name, &step))
            }
            ActionRequest::Turn(action) => Ok(observation::stepped(&self.act(action).await?)),
        }
    }

    async fn act(&self, action: TurnRequest) -> Result<TurnAnswer, ServeError> {
        let step = self.session.act(action).await?;
        // A trainer must not take the failure of a plugin or the host for the agent's.
        match step.fatal() {
            Some(error) => Err(error),
            None => Ok(step),
        }
    }

    /// The state of the episode.
    ///
    /// # Errors
    /// If the session is closed.
    pub(super) async fn state(&self) -> Result<Json, ServeError> {
        let status = self.session.status().await?;
        let Some(episode) = status.episode else {
            return Ok(unbegun(&status.environment));
        };
        let id = self.episode_id.clone().unwrap_or_else(|| episode.record.to_string());
        Ok(json!({
            "episode_id": id,
            "step_count": episode.turns,
            "environment": status.environment,
            "record": episode.record.to_string(),
            "task": tasks::spec(&episode.task.split, episode.task.index),
            "seed": episode.seed,
            "seat": episode.seat,
            "rewards": episode.rewards,
            "ending": episode.ending,
        }))
    }

    /// Ends the connection, and with it a session of its own.
    pub(super) async fn end(self) {
        if self.owned
            && let Err(error) = self.session.close().await
        {
            tracing::debug!(session = %self.session.id(), %error, "a session was closed before its connection");
        }
    }
}

/// The state before the first episode.
pub(super) fn unbegun(environment: &str) -> Json {
    json!({ "episode_id": null, "step_count": 0, "environment": environment })
}

/// An episode for one request without a session.
///
/// # Errors
/// If no session can be opened, or the request fails.
pub(super) async fn once(
    sessions: &SessionTable,
    client: Client,
    served: Arc<ServedEnvironment>,
    asked: Option<ActionRequest>,
    reset: Reset,
) -> Result<Json, ServeError> {
    let mut connection = EnvironmentConnection::open(sessions, client, served).await?;
    let answer = async {
        let opened = connection.reset(reset).await?;
        match asked {
            None => Ok(opened),
            Some(asked) => connection.step(asked).await,
        }
    };
    let answer = answer.await;
    connection.end().await;
    answer
}
