//! What trainers ask beside the protocol: a URL for each episode, its state with rewards, and its end.

use std::sync::Arc;

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};

use super::agents::{Agents, NewSession};
use super::arguments::OpenArguments;
use crate::endpoints::detail::{JsonResult, ReadBody, parse};
use crate::endpoints::json::scores;
use crate::endpoints::tasks::spec;
use crate::session::Closed;
use gymkhana_http::Client;

/// Opens an episode for an agent.
pub(super) async fn open(
    State(agents): State<Arc<Agents>>,
    client: Client,
    body: ReadBody,
) -> Result<(StatusCode, JsonBody<Json>), crate::endpoints::detail::Detail> {
    let open: OpenArguments = parse(body)?;
    let NewSession { token, agent, opened, environment } = agents.enter(&client, open).await?;
    let answer = json!({
        "episode": agent.session.id().to_string(),
        "mcp": format!("/e/{token}/mcp"),
        "environment": environment,
        "task": spec(&opened.task.split, opened.task.index),
        "seed": opened.seed,
        "text": opened.text(opened.seat),
    });
    Ok((StatusCode::CREATED, JsonBody(answer)))
}

/// The state of an episode.
pub(super) async fn status(State(agents): State<Arc<Agents>>, client: Client, Path(id): Path<String>) -> JsonResult {
    let session = agents.table.find_text(&client, &id)?;
    let status = session.status().await?;
    let Some(episode) = status.episode else {
        return Ok(JsonBody(json!({ "episode": id, "environment": status.environment })));
    };
    let mut answer = json!({
        "episode": id,
        "environment": status.environment,
        "record": episode.record.to_string(),
        "task": spec(&episode.task.split, episode.task.index),
        "seed": episode.seed,
        "turns": episode.turns,
        "seat": episode.seat,
        "rewards": episode.rewards,
        "ending": episode.ending,
    });
    if episode.ending.is_some() {
        answer["score"] = scores(&session.score().await?);
    }
    Ok(JsonBody(answer))
}

/// Ends an episode and closes its session.
pub(super) async fn close(State(agents): State<Arc<Agents>>, client: Client, Path(id): Path<String>) -> JsonResult {
    let closed = agents.table.find_text(&client, &id)?.close().await?;
    let Some(Closed { record, ending, score }) = closed else { return Ok(JsonBody(json!({ "episode": id }))) };
    Ok(JsonBody(json!({
        "episode": id,
        "record": record.to_string(),
        "ending": ending,
        "rewards": score.rewards,
        "score": scores(&score),
    })))
}
