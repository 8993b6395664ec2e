//! The addresses by which a harness opens and closes sessions.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use gymkhana_http::Client;
use gymkhana_record::TaskRef;
use hyper::HeaderMap;
use hyper::header::{ORIGIN, RETRY_AFTER};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::{Control, SessionOffer, SessionRequest, answered, failed};
use crate::dialect::{ApiError, Dialect, ErrorClass};
use crate::server::{json_response, read_body};

/// Largest body in bytes: an answer.
const MAX_BODY: usize = 1 << 20;

/// The routes.
pub(crate) fn router(control: Arc<Control>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/sessions", post(open))
        .route("/sessions/{session}", get(state).delete(abandon))
        .route("/sessions/{session}/close", post(close))
        .with_state(control)
}

/// Body of a request for a session.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OpenBody {
    task: Option<TaskBody>,
    seed: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskBody {
    split: String,
    index: u64,
}

/// Body of a request that closes a session.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CloseBody {
    answer: Option<String>,
}

async fn health(State(control): State<Arc<Control>>) -> Response {
    match control.unwritable() {
        None => json_response(200, &json!({"status": "healthy", "sessions": control.live()})),
        // The path of the reason is not for everyone.
        Some(_) => {
            let reason = "records cannot be written";
            json_response(503, &json!({"status": "unhealthy", "reason": reason, "sessions": control.live()}))
        }
    }
}

async fn open(State(control): State<Arc<Control>>, request: Request) -> Response {
    let opened = async {
        let (client, body) = read(&control, request).await?;
        let OpenBody { task, seed } = parse(&body)?;
        let task = task.map(|task| TaskRef { split: task.split, index: task.index });
        control.open(client, SessionRequest { task, seed }).await
    };
    answer(201, opened.await.map(|offer| described(&offer)))
}

async fn state(State(control): State<Arc<Control>>, Path(session): Path<String>, headers: HeaderMap) -> Response {
    let found = client(&control, &headers).and_then(|client| control.result(&client, &session));
    let found = found.and_then(Option::transpose);
    answer(
        200,
        found.map(|result| match result {
            Some(ended) => json!({"state": "ended", "result": ended}),
            None => json!({"state": "open"}),
        }),
    )
}

async fn close(State(control): State<Arc<Control>>, Path(session): Path<String>, request: Request) -> Response {
    let closed = async {
        let (client, body) = read(&control, request).await?;
        let CloseBody { answer } = parse(&body)?;
        control.close(&client, &session, answered(answer)).await
    };
    answer(200, closed.await.map(|result| json!(result)))
}

async fn abandon(State(control): State<Arc<Control>>, Path(session): Path<String>, headers: HeaderMap) -> Response {
    let closed = async {
        let client = client(&control, &headers)?;
        control.close(&client, &session, failed("the harness abandoned the session".to_owned())).await
    };
    answer(200, closed.await.map(|result| json!(result)))
}

/// A session as its harness gets it.
fn described(offer: &SessionOffer) -> Json {
    let mut described = json!({
        "id": offer.session, "episode": offer.episode.to_string(), "base_url": offer.openai_url,
        "anthropic_base_url": offer.anthropic_url, "api_key": offer.key, "model": offer.model, "task": offer.task,
    });
    if let Some(url) = &offer.mcp_url {
        described["mcp_url"] = url.as_str().into();
    }
    described
}

/// The client of a request that no web page sent: a page could otherwise use a server on the visitor's machine.
fn client(control: &Control, headers: &HeaderMap) -> Result<Client, ApiError> {
    if headers.contains_key(ORIGIN) {
        return Err(ApiError::new(ErrorClass::Unauthorized, "web pages may not open or close sessions"));
    }
    control.tokens.client(headers).ok_or_else(|| {
        let message = "the request has no valid token\nhint: send `authorization: Bearer TOKEN`";
        ApiError::new(ErrorClass::Unauthorized, message)
    })
}

/// The client of a request, and its body, which is read for known clients alone.
async fn read(control: &Control, request: Request) -> Result<(Client, Bytes), ApiError> {
    let client = client(control, request.headers())?;
    Ok((client, read_body(request.into_body(), MAX_BODY).await?))
}

/// Parses a body, which may be empty.
fn parse<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the body is malformed: {error}\nhint: send a JSON object, such as {{}}");
        ApiError::new(ErrorClass::Invalid, message)
    })
}

fn answer(status: u16, result: Result<Json, ApiError>) -> Response {
    match result {
        Ok(body) => json_response(status, &body),
        Err(error) => {
            let mut response: Response<Body> = json_response(error.status(), &Dialect::ChatCompletions.error(&error));
            if error.class == ErrorClass::Unavailable {
                response.headers_mut().insert(RETRY_AFTER, hyper::header::HeaderValue::from_static("1"));
            }
            response
        }
    }
}
