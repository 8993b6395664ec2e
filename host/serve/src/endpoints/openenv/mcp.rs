//! Methods of JSON-RPC: tools of a session, and sessions made and closed over HTTP.

use serde_json::{Value as Json, json};

use super::observation;
use super::rpc::{RpcError, RpcRequest};
use crate::endpoints::json::{facts, schema};
use crate::endpoints::lookup::opening;
use crate::endpoints::{Protocol, lookup};
use crate::error::ServeError;
use crate::session::{ClientSession, NextEpisode, SessionTable};
use gymkhana_http::Client;

/// Where a request comes from.
pub(super) struct RequestOrigin<'a> {
    /// The table.
    pub(super) sessions: &'a SessionTable,
    /// The client.
    pub(super) client: &'a Client,
    /// Name of the environment of new sessions; `None` for the default one.
    pub(super) environment: Option<&'a str>,
    /// The session of the WebSocket that it came through.
    pub(super) session: Option<&'a ClientSession>,
}

impl RequestOrigin<'_> {
    /// Answers the JSON of a request.
    pub(super) async fn answer(&self, json: &Json) -> Json {
        match RpcRequest::of(json) {
            Ok(request) => request.answer(self.call(&request).await),
            Err(error) => error.answer(&Json::Null),
        }
    }

    async fn call(&self, request: &RpcRequest) -> Result<Json, RpcError> {
        match request.method.as_str() {
            "openenv/session/create" => self.create().await,
            "openenv/session/close" => self.close(request).await,
            "tools/list" => self.with_session(request, async |session| list(session).await).await,
            "tools/call" => {
                let call = McpCall::of(request)?;
                self.with_session(request, async |session| call.run(session).await).await
            }
            other => Err(RpcError::method(other)),
        }
    }

    async fn create(&self) -> Result<Json, RpcError> {
        let id = match self.session {
            Some(session) => session.id(),
            None => self.open().await?.id(),
        };
        Ok(json!({ "session_id": id.to_string() }))
    }

    async fn close(&self, request: &RpcRequest) -> Result<Json, RpcError> {
        let id = request.text("session_id")?;
        let id = id.ok_or_else(|| RpcError::parameter("Invalid params - 'session_id' is required"))?;
        let session = self.sessions.find_text(self.client, id)?;
        if self.session.is_some_and(|own| own.id() == session.id()) {
            let message = "a session cannot be closed through its own WebSocket\nhint: close the connection";
            return Err(ServeError::bad_input(message).into());
        }
        session.close().await?;
        Ok(json!({ "session_id": id, "closed": true }))
    }

    /// Runs a request in the session that it names, that of its WebSocket, or one that ends with it.
    async fn with_session(
        &self,
        request: &RpcRequest,
        work: impl AsyncFnOnce(&ClientSession) -> Result<Json, RpcError>,
    ) -> Result<Json, RpcError> {
        if let Some(own) = self.session {
            return work(own).await;
        }
        if let Some(id) = request.text("session_id")? {
            return work(&self.sessions.find_text(self.client, id)?).await;
        }
        let session = self.open().await?;
        let result = work(&session).await;
        session.close().await?;
        result
    }

    async fn open(&self) -> Result<ClientSession, ServeError> {
        let served = lookup::environment(self.sessions.catalog(), self.environment)?;
        self.sessions.open(self.client, Protocol::OpenEnv, opening(&served)).await
    }
}

async fn list(session: &ClientSession) -> Result<Json, RpcError> {
    let functions = session.functions(None).await?;
    let tools = functions.iter().map(|function| {
        json!({ "name": function.name, "description": function.description, "inputSchema": schema(function) })
    });
    Ok(json!({ "tools": tools.collect::<Vec<_>>() }))
}

/// The call of a function.
struct McpCall {
    name: String,
    arguments: Json,
}

impl McpCall {
    fn of(request: &RpcRequest) -> Result<Self, RpcError> {
        let name = request.text("name")?.ok_or_else(|| RpcError::parameter("Missing 'name' in params"))?.to_owned();
        let arguments = request.params.get("arguments").cloned().unwrap_or_else(|| json!({}));
        if !arguments.is_object() {
            return Err(RpcError::parameter("Invalid params - 'arguments' must be an object"));
        }
        Ok(Self { name, arguments })
    }

    /// Calls the function. Clients of this protocol may call without a reset: an episode then begins by itself.
    async fn run(&self, session: &ClientSession) -> Result<Json, RpcError> {
        if session.status().await?.episode.is_none() {
            session.reset(NextEpisode::default()).await?;
        }
        let (answer, step) = session.call(&self.name, &self.arguments).await?;
        if let Some(error) = step.fatal() {
            return Err(error.into());
        }
        let mut facts = facts(&step);
        if let Some(object) = facts.as_object_mut() {
            object.insert("reward".to_owned(), json!(step.reward(step.seat)));
            object.insert("done".to_owned(), json!(step.done()));
        }
        if let Some(owner) = answer.failed {
            return Err(RpcError::call(answer.text(), owner.label(), &facts));
        }
        let mut result = observation::result(&answer);
        if let Some(object) = result.as_object_mut() {
            object.insert("meta".to_owned(), facts);
        }
        Ok(result)
    }
}
