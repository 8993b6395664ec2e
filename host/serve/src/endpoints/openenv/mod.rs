//! OpenEnv 0.10: WebSocket sessions, tools over JSON-RPC, requests without a session, and what a server says of itself.
//!
//! The default environment is at the root, as clients expect; each environment by name is at `/openenv/NAME`, which
//! clients take as their base URL.

mod action;
mod episode;
mod error;
mod mcp;
mod message;
mod observation;
mod rpc;
mod schema;
mod socket;

use std::collections::HashMap;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use serde_json::{Value as Json, json};

use self::action::ActionRequest;
use self::episode::{Reset, once, unbegun};
use self::mcp::RequestOrigin;
use self::rpc::RpcError;
use self::socket::{Connecting, MAX_FRAME};
use super::detail::{FieldFault, JsonResult, ReadBody, read};
use super::tasks::served;
use crate::session::SessionTable;
use gymkhana_http::Client;

/// The environment that a path names; the default one for paths without a name.
type PathEnvironment = Option<Path<String>>;

/// Entry point of the fuzz target: reads a message of a WebSocket.
#[cfg(fuzzing)]
pub(super) fn read_message(text: &str) {
    let _ = message::ClientMessage::of(text);
}

/// The routes but `/mcp` at the root, which [`mcp`] is.
pub(super) fn router(sessions: &SessionTable) -> Router {
    let mut router = Router::new();
    for prefix in ["", "/openenv/{env}"] {
        let path = |name: &str| format!("{prefix}/{name}");
        router = router
            .route(&path("ws"), get(environment_socket))
            .route(&path("reset"), post(reset))
            .route(&path("step"), post(step))
            .route(&path("state"), get(state))
            .route(&path("metadata"), get(metadata))
            .route(&path("schema"), get(schemas))
            .route(&path("openapi.json"), get(openapi));
    }
    let named = Router::new()
        .route("/openenv/{env}/health", get(health))
        .route("/openenv/{env}/mcp", get(rpc_socket).post(rpc_request));
    router.merge(named).with_state(sessions.clone())
}

/// `/mcp` at the root: JSON-RPC over HTTP and WebSocket with the default environment.
pub(super) fn mcp(sessions: &SessionTable) -> MethodRouter {
    get(rpc_socket).post(rpc_request).with_state(sessions.clone())
}

/// The answer of health checks.
async fn health() -> axum::Json<Json> {
    axum::Json(json!({ "status": "healthy" }))
}

async fn environment_socket(
    State(sessions): State<SessionTable>,
    name: PathEnvironment,
    client: Client,
    Query(query): Query<HashMap<String, String>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let attach = query.get("session_id").filter(|id| !id.is_empty()).cloned();
    let connecting = Connecting { sessions, client, environment: name.map(|Path(name)| name), attach };
    bounded(upgrade).on_upgrade(|socket| connecting.environment(socket))
}

async fn rpc_socket(
    State(sessions): State<SessionTable>,
    name: PathEnvironment,
    client: Client,
    upgrade: WebSocketUpgrade,
) -> Response {
    let connecting = Connecting { sessions, client, environment: name.map(|Path(name)| name), attach: None };
    bounded(upgrade).on_upgrade(|socket| connecting.rpc(socket))
}

fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade.max_message_size(MAX_FRAME).max_frame_size(MAX_FRAME)
}

async fn rpc_request(
    State(sessions): State<SessionTable>,
    name: PathEnvironment,
    client: Client,
    body: ReadBody,
) -> axum::Json<Json> {
    let environment = name.as_ref().map(|Path(name)| name.as_str());
    let origin = RequestOrigin { sessions: &sessions, client: &client, environment, session: None };
    let json = body.0.map_err(RpcError::from);
    let json = json.and_then(|body| serde_json::from_slice(&body).map_err(|error| RpcError::parse(&error)));
    axum::Json(match json {
        Ok(json) => origin.answer(&json).await,
        Err(error) => error.answer(&Json::Null),
    })
}

async fn reset(
    State(sessions): State<SessionTable>,
    name: PathEnvironment,
    client: Client,
    body: ReadBody,
) -> JsonResult {
    let served = served(&sessions, &name)?;
    let reset = Reset::of(&read(body)?)?;
    Ok(axum::Json(once(&sessions, client, served, None, reset).await?))
}

async fn step(
    State(sessions): State<SessionTable>,
    name: PathEnvironment,
    client: Client,
    body: ReadBody,
) -> JsonResult {
    let served = served(&sessions, &name)?;
    let request = read(body)?;
    let missing = || FieldFault { kind: "missing", ..FieldFault::of("Field required", &request) }.at("action");
    let action = request.get("action").ok_or_else(missing)?;
    let asked = ActionRequest::of(action).map_err(|fault| fault.at("action"))?;
    Ok(axum::Json(once(&sessions, client, served, Some(asked), Reset::default()).await?))
}

async fn state(State(sessions): State<SessionTable>, name: PathEnvironment, _: Client) -> JsonResult {
    Ok(axum::Json(unbegun(served(&sessions, &name)?.name())))
}

async fn metadata(State(sessions): State<SessionTable>, name: PathEnvironment, _: Client) -> JsonResult {
    let served = served(&sessions, &name)?;
    Ok(axum::Json(schema::metadata(&served)))
}

async fn schemas(State(sessions): State<SessionTable>, name: PathEnvironment, _: Client) -> JsonResult {
    let served = served(&sessions, &name)?;
    Ok(axum::Json(schema::schemas(&served).await?))
}

async fn openapi() -> axum::Json<Json> {
    axum::Json(schema::openapi())
}
