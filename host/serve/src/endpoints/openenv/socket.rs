//! The two WebSockets: `/ws` with an environment for each connection, and `/mcp` with JSON-RPC.

use std::time::Duration;

use axum::extract::ws::{self, CloseFrame, Utf8Bytes, WebSocket, close_code};
use serde_json::{Value as Json, json};

use super::episode::EnvironmentConnection;
use super::error::MessageRefusal;
use super::mcp::RequestOrigin;
use super::message::{ClientMessage, MAX_MESSAGE, too_large};
use super::rpc::RpcError;
use crate::endpoints::detail::FieldFault;
use crate::endpoints::lookup;
use crate::error::ServeError;
use crate::session::SessionTable;
use gymkhana_http::Client;
use gymkhana_waits::pulse;

/// Largest message of a client in bytes. A larger one ends the connection before it is read.
pub(super) const MAX_FRAME: usize = 4 * MAX_MESSAGE;

/// Time without a message after which the server asks whether the client is still there, and after which it gives up.
const SILENCE: Duration = Duration::from_secs(60);

/// A new connection.
pub(super) struct Connecting {
    /// The table.
    pub(super) sessions: SessionTable,
    /// The client.
    pub(super) client: Client,
    /// Name of the environment; `None` for the default one.
    pub(super) environment: Option<String>,
    /// Session to attach to.
    pub(super) attach: Option<String>,
}

impl Connecting {
    /// Serves `/ws` until the client leaves.
    pub(super) async fn environment(self, mut socket: WebSocket) {
        match self.connect().await {
            Ok(mut connection) => {
                while let Some(text) = receive(&mut socket, &connection).await {
                    let Some(answer) = self.answer(&mut connection, &text).await else { break };
                    if send(&mut socket, &answer).await.is_err() {
                        break;
                    }
                }
                connection.end().await;
            }
            Err(error) => drop(send(&mut socket, &MessageRefusal::from(error).message()).await),
        }
        close(socket, close_code::NORMAL, "").await;
    }

    /// Serves JSON-RPC until the client leaves.
    pub(super) async fn rpc(self, mut socket: WebSocket) {
        match self.connect().await {
            Ok(connection) => {
                while let Some(text) = receive(&mut socket, &connection).await {
                    let answer = match serde_json::from_str(&text) {
                        _ if text.len() > MAX_MESSAGE => RpcError::request(&too_large(&text)).answer(&Json::Null),
                        Ok(json) => self.origin(&connection).answer(&json).await,
                        Err(error) => RpcError::parse(&error).answer(&Json::Null),
                    };
                    if send(&mut socket, &answer).await.is_err() {
                        break;
                    }
                }
                connection.end().await;
            }
            Err(error) => drop(send(&mut socket, &RpcError::from(error).answer(&Json::Null)).await),
        }
        close(socket, close_code::NORMAL, "").await;
    }

    async fn connect(&self) -> Result<EnvironmentConnection, ServeError> {
        let client = self.client.clone();
        match &self.attach {
            Some(id) => EnvironmentConnection::attach(&self.sessions, client, id).await,
            None => {
                let served = lookup::environment(self.sessions.catalog(), self.environment.as_deref())?;
                EnvironmentConnection::open(&self.sessions, client, served).await
            }
        }
    }

    fn origin<'a>(&'a self, connection: &'a EnvironmentConnection) -> RequestOrigin<'a> {
        RequestOrigin {
            sessions: &self.sessions,
            client: &self.client,
            environment: self.environment.as_deref(),
            session: Some(connection.session()),
        }
    }

    /// The answer to one message; `None` if it asks to close.
    async fn answer(&self, connection: &mut EnvironmentConnection, text: &str) -> Option<Json> {
        match self.answered(connection, text).await {
            Ok(answer) => answer,
            Err(refusal) => Some(refusal.message()),
        }
    }

    async fn answered(
        &self,
        connection: &mut EnvironmentConnection,
        text: &str,
    ) -> Result<Option<Json>, MessageRefusal> {
        let observation = |data: Json| json!({ "type": "observation", "data": data });
        Ok(Some(match ClientMessage::of(text)? {
            ClientMessage::Reset(reset) => observation(connection.reset(reset).await?),
            ClientMessage::Step(asked) => observation(connection.step(asked).await?),
            ClientMessage::State => json!({ "type": "state", "data": connection.state().await? }),
            ClientMessage::Rpc(json) => json!({ "type": "mcp", "data": self.origin(connection).answer(&json).await }),
            ClientMessage::Close => return Ok(None),
        }))
    }
}

/// The next message; `None` if the client has left, sends something other than text, or is silent. Pings of the client keep its
/// session.
async fn receive(socket: &mut WebSocket, connection: &EnvironmentConnection) -> Option<Utf8Bytes> {
    let mut asked = false;
    loop {
        let Some(received) = pulse(SILENCE, socket.recv()).await else {
            if asked || socket.send(ws::Message::Ping(Vec::new().into())).await.is_err() {
                return None;
            }
            asked = true;
            continue;
        };
        asked = false;
        match received? {
            Ok(ws::Message::Text(text)) => return Some(text),
            Ok(ws::Message::Binary(bytes)) => {
                return Some(Utf8Bytes::from(String::from_utf8_lossy(&bytes).into_owned()));
            }
            Ok(ws::Message::Ping(_) | ws::Message::Pong(_)) => connection.session().ping(),
            Ok(ws::Message::Close(_)) => return None,
            Err(error) => {
                // Such as a message that is too large; the connection cannot be read any further.
                let refusal = MessageRefusal::Fault(FieldFault::of(error.to_string(), &Json::Null));
                let _ = send(socket, &refusal.message()).await;
                return None;
            }
        }
    }
}

async fn send(socket: &mut WebSocket, json: &Json) -> Result<(), axum::Error> {
    socket.send(ws::Message::Text(json.to_string().into())).await
}

async fn close(mut socket: WebSocket, code: u16, reason: &'static str) {
    // The client may have closed already.
    let _ = socket.send(ws::Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
