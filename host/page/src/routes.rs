//! Routes, and what all of them have in common: writing on another thread, and answers for problems.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use maud::Markup;

use crate::access::{Access, admit};
use crate::error::{PageError, PageProblem};
use crate::query::Query;
use crate::replayer::Replayer;
use crate::state::{App, WorkPace};
use crate::{episode, episodes, layout, live, overview, replay, rewards};

/// Writes a page on a thread that may wait for files.
async fn page(app: App, write: impl FnOnce(&App) -> Result<Markup, PageProblem> + Send + 'static) -> Response {
    match written(&app, write).await {
        Ok(page) => Html(page.into_string()).into_response(),
        Err(problem) => (problem.status(), Html(layout::problem(&app, &problem).into_string())).into_response(),
    }
}

/// Calls a function on a thread that may wait for files.
async fn written<T: Send + 'static>(
    app: &App,
    write: impl FnOnce(&App) -> Result<T, PageProblem> + Send + 'static,
) -> Result<T, PageProblem> {
    // The semaphore is never closed.
    let place = Arc::clone(app.writers()).acquire_owned().await;
    let writer = app.clone();
    let written = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        let written = write(&writer);
        let rest = writer.rest(begun.elapsed());
        drop(tokio::runtime::Handle::current().spawn(async move {
            tokio::time::sleep(rest).await;
            drop(place);
        }));
        written
    });
    written.await.unwrap_or(Err(PageProblem::Panicked))
}

/// Routes of the page for these runs, with those of replays if there is a replayer.
///
/// # Errors
/// If a run cannot be opened.
pub fn router(runs: &[PathBuf], access: Access, replayer: Option<Replayer>) -> Result<Router, PageError> {
    paced(runs, access, replayer, WorkPace::Full)
}

/// The same with a pace.
pub(crate) fn paced(
    runs: &[PathBuf],
    access: Access,
    replayer: Option<Replayer>,
    pace: WorkPace,
) -> Result<Router, PageError> {
    let app = App::open(runs, replayer, pace)?;
    let replays = match app.replays() {
        Some(_) => Router::new().route("/runs/{run}/episodes/{id}/replay", get(replay_page).post(replay_result)),
        None => Router::new(),
    };
    Ok(replays
        .route("/", get(overview_page))
        .route("/settings", get(settings_page))
        .route("/runs/{run}/episodes", get(episodes_page))
        .route("/runs/{run}/episodes/{id}", get(episode_page))
        .route("/runs/{run}/groups/{group}", get(group_page))
        .route("/runs/{run}/rewards", get(rewards_page))
        .route("/runs/{run}/health", get(health_page))
        .route("/api/runs/{run}/health", get(health_findings))
        .route("/events", get(live::events))
        .route("/assets/page.css", get(style))
        .route("/assets/page.js", get(script))
        .fallback(missing)
        .with_state(app)
        .layer(from_fn_with_state(Arc::new(access), admit)))
}

fn parsed(query: Option<String>) -> Query {
    Query::parse(&query.unwrap_or_default())
}

async fn overview_page(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    page(app, move |app| overview::page(app, &parsed(query))).await
}

async fn settings_page(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    page(app, move |app| overview::settings::page(app, &parsed(query))).await
}

async fn episodes_page(State(app): State<App>, Path(run): Path<String>, RawQuery(query): RawQuery) -> Response {
    page(app, move |app| episodes::page(app, app.run(index(&run)?)?, &parsed(query))).await
}

async fn episode_page(
    State(app): State<App>,
    Path((run, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    page(app, move |app| episode::page(app, app.run(index(&run)?)?, &id, &parsed(query))).await
}

async fn replay_page(
    State(app): State<App>,
    Path((run, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    page(app, move |app| replay::question(app, app.run(index(&run)?)?, &id, &parsed(query))).await
}

async fn replay_result(
    State(app): State<App>,
    Path((run, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let run = index(&run).and_then(|index| app.run(index));
    let result = match run {
        Ok(run) => replay::result(&app, run, &id, &parsed(query), &headers).await,
        Err(problem) => Err(problem),
    };
    page(app.clone(), |_| result).await
}

async fn group_page(State(app): State<App>, Path((run, group)): Path<(String, String)>) -> Response {
    page(app, move |app| episodes::group::page(app, app.run(index(&run)?)?, &group)).await
}

async fn rewards_page(State(app): State<App>, Path(run): Path<String>, RawQuery(query): RawQuery) -> Response {
    page(app, move |app| rewards::page(app, app.run(index(&run)?)?, &parsed(query))).await
}

async fn health_page(State(app): State<App>, Path(run): Path<String>, RawQuery(query): RawQuery) -> Response {
    page(app, move |app| overview::health::page(app, app.run(index(&run)?)?, &parsed(query))).await
}

/// Findings as `host show --health --json` prints them; a problem as an object with its message.
async fn health_findings(State(app): State<App>, Path(run): Path<String>) -> Response {
    let (status, json) = match written(&app, move |app| Ok(app.run(index(&run)?)?.health()?)).await {
        Ok(findings) => (StatusCode::OK, serde_json::json!(*findings)),
        Err(problem) => (problem.status(), serde_json::json!({ "error": problem.to_string() })),
    };
    (status, [(CONTENT_TYPE, "application/json")], json.to_string()).into_response()
}

async fn missing(State(app): State<App>) -> Response {
    page(app, |_| Err(PageProblem::NotFound("there is no page at this address".to_owned()))).await
}

async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../assets/page.css")).into_response()
}

async fn script() -> Response {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../assets/page.js")).into_response()
}

/// Index of a run in an address.
fn index(text: &str) -> Result<usize, PageProblem> {
    text.parse().map_err(|_| PageProblem::NotFound(format!("there is no run `{text}`")))
}
