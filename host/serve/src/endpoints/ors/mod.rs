//! Open Reward Standard: sessions of one episode whose calls can be asked for again, and scores of groups.
//!
//! The default environment is at the root, each environment by name at `/NAME`; a session's requests go by its id alone.

mod calls;
mod output;
mod requests;
mod sessions;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value as Json, json};

use self::calls::CallOutcome;
use self::requests::{CallRequest, Create, ScoreGroup};
use self::sessions::{Id, Playing, Sessions};
use super::detail::{Detail, JsonResult, ReadBody, parse};
use super::speech::plays_by_text;
use super::tasks::served;
use crate::session::{SessionId, SessionTable};
use gymkhana_http::Client;

/// The environment that a path names; the default one for paths without a name.
type PathEnvironment = Option<Path<String>>;

/// The routes beside the task API.
pub(super) fn router(table: &SessionTable) -> Router {
    let mut router = Router::new()
        .route("/version", get(version))
        .route("/create_session", post(create_session))
        .route("/create", post(create))
        .route("/ping", post(ping))
        .route("/delete", post(delete))
        .route("/delete_session", post(delete));
    for prefix in ["", "/{env}"] {
        let path = |name: &str| format!("{prefix}/{name}");
        router = router
            .route(&path("tools"), get(tools))
            .route(&path("task_tools"), get(task_tools))
            .route(&path("prompt"), get(prompt))
            .route(&path("messages"), get(messages))
            .route(&path("call"), post(call))
            .route(&path("score_group"), post(score_group));
    }
    router.with_state(Sessions::new(table))
}

async fn version() -> axum::Json<Json> {
    axum::Json(json!({ "version": env!("CARGO_PKG_VERSION"), "build_sha": null }))
}

/// Gives an id; the episode begins with `/create`.
async fn create_session(_: Client) -> Result<Response, Detail> {
    let id = SessionId::random()?.to_string();
    Ok(calls::opened(&id).into_response())
}

async fn create(State(sessions): State<Sessions>, client: Client, Id(id): Id, body: ReadBody) -> JsonResult {
    let request: Create = parse(body)?;
    sessions.create(&client, id.clone(), &request).await?;
    Ok(axum::Json(json!({ "sid": id })))
}

async fn ping(State(sessions): State<Sessions>, client: Client, Id(id): Id) -> JsonResult {
    sessions.find(&client, &id)?.session().ping();
    Ok(axum::Json(json!({ "status": "ok" })))
}

async fn delete(State(sessions): State<Sessions>, client: Client, Id(id): Id) -> JsonResult {
    sessions.delete(&client, &id).await?;
    Ok(axum::Json(json!({ "sid": id })))
}

async fn tools(State(sessions): State<Sessions>, name: PathEnvironment, _: Client) -> JsonResult {
    let served = served(&sessions.table, &name)?;
    let functions = served.described().first_functions().await.map_err(crate::error::ServeError::from)?;
    Ok(axum::Json(output::tools(functions, plays_by_text(&served, functions))))
}

async fn task_tools(State(sessions): State<Sessions>, client: Client, Id(id): Id) -> JsonResult {
    Ok(axum::Json(sessions.find(&client, &id)?.tools()))
}

async fn prompt(State(sessions): State<Sessions>, client: Client, Id(id): Id) -> JsonResult {
    Ok(axum::Json(Json::Array(sessions.find(&client, &id)?.prompt())))
}

async fn messages(State(sessions): State<Sessions>, client: Client, Id(id): Id) -> JsonResult {
    let blocks = sessions.find(&client, &id)?.prompt();
    Ok(axum::Json(json!([{ "role": "user", "blocks": blocks, "detail": null }])))
}

async fn call(
    State(sessions): State<Sessions>,
    client: Client,
    Id(id): Id,
    body: ReadBody,
) -> Result<Response, Detail> {
    let playing = sessions.find(&client, &id)?;
    let CallRequest { name, input, task_id } = parse(body)?;
    let worker = Arc::clone(&playing);
    stream(&playing, task_id.as_deref(), async move { worker.call(&name, input).await })
}

async fn score_group(
    State(sessions): State<Sessions>,
    client: Client,
    Id(id): Id,
    body: ReadBody,
) -> Result<Response, Detail> {
    let playing = sessions.find(&client, &id)?;
    let request: ScoreGroup = parse(body)?;
    let names = request.sessions()?;
    let ids = names.iter().map(|name| Ok(sessions.find(&client, name)?.session().id()));
    let ids = ids.collect::<Result<Vec<SessionId>, Detail>>()?;
    stream(&playing, request.task_id.as_deref(), async move {
        let scored = sessions.table.score_group(&client, &ids).await;
        let scores = scored.map_err(|error| format!("{}: {}", error.owner.label(), error.message))?;
        let entries = scores
            .iter()
            .map(|score| json!({ "reward": score.rewards.first(), "metadata": super::json::scores(score) }));
        Ok(json!({ "scores": entries.collect::<Vec<_>>() }).to_string())
    })
}

/// The stream of new work, or of work whose id the client knows.
fn stream(
    playing: &Playing,
    known: Option<&str>,
    work: impl Future<Output = CallOutcome> + Send + 'static,
) -> Result<Response, Detail> {
    let call = match known {
        None => Some(playing.calls.start(work)?),
        Some(id) => playing.calls.find(id),
    };
    let mut response = match call {
        Some(call) => call.stream().into_response(),
        None => calls::unknown().into_response(),
    };
    // Proxies that gather a response would delay its first events.
    response.headers_mut().insert("X-Accel-Buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}
