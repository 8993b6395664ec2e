//! Model Context Protocol, revisions 2026-07-28 and 2025-11-25 and those before, through its official SDK.
//!
//! There are two shapes. At the URL of an episode, `/e/TOKEN/mcp`, the tools are its functions, and the URL implies the
//! state; trainers make such episodes at `/mcp/episodes`, where they also read rewards. At `/handles/mcp`, the tools are
//! `open`, `act` and `close`, and the state is a handle. The protocol's own sessions are not used: both shapes work
//! without them in each revision.

mod about;
mod agents;
mod arguments;
mod content;
mod handles;
mod http;
mod lines;
mod offer;
mod plain;
mod stdio;
mod trainer;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{any, get, post};

use self::agents::Agents;
use self::handles::Handles;
use self::http::HttpEndpoint;
use self::plain::Plain;
use crate::session::SessionTable;
use gymkhana_http::Client;

pub(crate) use self::http::refusal;
pub use self::stdio::{VisibleTools, serve, standard_streams};

/// The endpoints of the endpoint.
#[derive(Clone)]
struct Mcp {
    agents: Arc<Agents>,
    handles: Handles,
    endpoint: HttpEndpoint,
}

/// The routes.
pub(super) fn router(sessions: &SessionTable) -> Router {
    let agents = Arc::new(Agents::new(sessions));
    let handles = Handles::new(Arc::clone(&agents), Client::anyone());
    let mcp = Mcp { agents: Arc::clone(&agents), handles, endpoint: HttpEndpoint::new() };
    let trainer = Router::new()
        .route("/mcp/episodes", post(trainer::open))
        .route("/mcp/episodes/{id}", get(trainer::status).delete(trainer::close))
        .with_state(agents);
    let agent =
        Router::new().route("/e/{token}/mcp", any(of_episode)).route("/handles/mcp", any(by_handles)).with_state(mcp);
    trainer.merge(agent)
}

/// The tools of one episode.
async fn of_episode(State(mcp): State<Mcp>, Path(token): Path<String>, client: Client, request: Request) -> Response {
    match mcp.agents.find(&client, &token) {
        Ok(agent) => mcp.endpoint.answer(Plain::new(agent), request).await,
        Err(error) => refusal(StatusCode::NOT_FOUND, &error),
    }
}

/// The tools with handles.
async fn by_handles(State(mcp): State<Mcp>, client: Client, request: Request) -> Response {
    mcp.endpoint.answer(mcp.handles.of(client), request).await
}
