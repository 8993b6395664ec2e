//! One request: authorised, read, handed to its session, and answered whole or as a stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use gymkhana_http::{BodyError, BodyLimits, bearer};
use gymkhana_waits::{Counterpart, pulse, within};
use hyper::body::Body as _;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::activity::RequestInFlight;
use super::endpoint::ApiEndpoint;
use super::mcp::McpEndpoint;
use super::sessions::{OpenSessions, RoutedSession};
use crate::dialect::{ApiError, Dialect, ErrorClass, KEEP_ALIVE, SseEvent};
use crate::session::{Ask, Incoming, ModelResponse, RequestIdentity};

/// Largest body in bytes.
const MAX_BODY: usize = 32 << 20;
/// Time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which a stream begins without its answer. An error before it has a status of its own.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Time between the comments that keep a stream alive.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);

/// Bytes of a request that needs no permit.
const SMALL_BODY: u64 = 256 << 10;
/// MiB of large requests that are read, parsed or wait for their sessions at once: two of the largest.
const LARGE_MIB: usize = 2 * (MAX_BODY >> 20);

/// Everything that a request needs.
#[derive(Clone)]
struct Routes {
    sessions: Arc<OpenSessions>,
    mcp: McpEndpoint,
    /// A permit for each MiB of large requests.
    large: Arc<Semaphore>,
}

/// The routes.
pub(super) fn router(sessions: Arc<OpenSessions>) -> Router {
    let endpoints = Routes { sessions, mcp: McpEndpoint::new(), large: Arc::new(Semaphore::new(LARGE_MIB)) };
    Router::new().route("/s/{session}/{*path}", any(handle)).fallback(unknown).with_state(endpoints)
}

async fn unknown(request: Request) -> Response {
    let message = "there is no such address\nhint: use the base URL of the session";
    let dialect = ApiEndpoint::dialect(request.uri().path(), request.headers());
    failed(dialect, &ApiError::new(ErrorClass::NotFound, message))
}

async fn handle(
    State(Routes { sessions, mcp, large }): State<Routes>,
    Path((session, path)): Path<(String, String)>,
    request: Request,
) -> Response {
    if let Some(token) = path.strip_prefix("mcp/") {
        let entry = sessions.get(&session);
        let Some((tools, entry)) = entry.and_then(|entry| entry.tools(token).zip(Some(entry))) else {
            return failed(Dialect::ChatCompletions, &no_tools());
        };
        let _in_flight = entry.activity.request();
        return mcp.answer(tools, request).await;
    }
    let dialect = ApiEndpoint::dialect(&path, request.headers());
    match answer(&sessions, &large, (&session, &path), request).await {
        Ok(response) => response,
        Err(error) => failed(dialect, &error),
    }
}

async fn answer(
    sessions: &OpenSessions,
    large: &Arc<Semaphore>,
    (session, path): (&str, &str),
    request: Request,
) -> Result<Response, ApiError> {
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let entry = authorise(sessions, session, &headers)?;
    let in_flight = entry.activity.request();
    let Some(endpoint) = ApiEndpoint::of(&method, path, &headers) else {
        let known = "chat/completions, responses, messages, messages/count_tokens, responses/input_tokens, models";
        let message = format!("`{method} {path}` is not supported; known: {known}");
        return Err(ApiError::new(ErrorClass::NotFound, message));
    };
    match endpoint {
        ApiEndpoint::Models(dialect) => Ok(json(200, &dialect.models(&entry.models))),
        ApiEndpoint::Model(dialect, name) if entry.models.is_empty() || entry.models.contains(&name) => {
            Ok(json(200, &dialect.model(&name)))
        }
        ApiEndpoint::Model(_, name) => Err(ApiError::new(ErrorClass::NotFound, format!("there is no model `{name}`"))),
        ApiEndpoint::Count(dialect) => {
            let read = read(path, request, large).await?;
            let asked = dialect.parse_count(&read.body)?;
            let waiting = hand_over(&entry, Ask::Count(Box::new(asked)), read).await?;
            received(waiting.await).map(|answer| body_of(dialect, &answer))
        }
        ApiEndpoint::Reply(dialect) => {
            let read = read(path, request, large).await?;
            let asked = dialect.parse(&read.body)?;
            let stream = asked.stream;
            let mut waiting = hand_over(&entry, Ask::Reply(Box::new(asked)), read).await?;
            if !stream {
                return received(waiting.await).map(|answer| body_of(dialect, &answer));
            }
            match pulse(FIRST_WAIT, &mut waiting).await {
                Some(answer) => {
                    let events = events_of(dialect, &received(answer)?);
                    Ok(event_stream(Body::from(events)))
                }
                None => Ok(event_stream(Body::from_stream(late(dialect, waiting, in_flight)))),
            }
        }
    }
}

/// The session of a request with its key.
fn authorise(sessions: &OpenSessions, session: &str, headers: &HeaderMap) -> Result<RoutedSession, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let key = text("x-api-key").map(str::trim).or_else(|| bearer(headers)).ok_or_else(|| {
        ApiError::new(ErrorClass::Unauthorized, "the request has no key\nhint: send the session's key as API key")
    })?;
    sessions.get(session).filter(|entry| entry.accepts(key)).ok_or_else(gone)
}

/// The error of an unknown session, of another session's key, and of a session that has ended.
fn gone() -> ApiError {
    let message = "the key opens no such session: it is wrong, or the session has ended";
    ApiError::new(ErrorClass::Unauthorized, message)
}

/// The error of an address of tools that belongs to no open session.
fn no_tools() -> ApiError {
    let message = "there are no tools here: the address is wrong, or the session has ended\nhint: use the address in \
                   GYMKHANA_MCP_URL";
    ApiError::new(ErrorClass::NotFound, message)
}

/// A request that was read.
struct ReadRequest {
    identity: RequestIdentity,
    is_retry: bool,
    body: Bytes,
    permit: Option<OwnedSemaphorePermit>,
}

/// Permits for a body of this size, which a small one does not need. A size that the client does not declare is the largest.
async fn permit_for(bytes: Option<u64>, large: &Arc<Semaphore>) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
    let bytes = bytes.map_or(MAX_BODY as u64, |bytes| bytes.min(MAX_BODY as u64));
    if bytes <= SMALL_BODY {
        return Ok(None);
    }
    let permits = Arc::clone(large).acquire_many_owned(bytes.div_ceil(1 << 20) as u32);
    match within(Counterpart::Place, BODY_TIMEOUT, permits).await {
        Ok(Ok(permit)) => Ok(Some(permit)),
        Ok(Err(_)) | Err(_) => {
            let message = format!("{LARGE_MIB} MiB of large requests are being read\nhint: repeat the request");
            Err(ApiError::new(ErrorClass::Unavailable, message))
        }
    }
}

/// Reads the body and the identity of a request.
async fn read(path: &str, request: Request, large: &Arc<Semaphore>) -> Result<ReadRequest, ApiError> {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let idempotency_key = header("idempotency-key").map(str::to_owned);
    let is_retry = header("x-stainless-retry-count").is_some_and(|count| count.trim() != "0");
    let permit = permit_for(body.size_hint().upper(), large).await?;
    let body = read_body(body, MAX_BODY).await?;
    let mut digest = Sha256::new();
    digest.update(path.as_bytes());
    digest.update([0]);
    digest.update(&body);
    let identity = RequestIdentity { digest: digest.finalize().into(), idempotency_key };
    Ok(ReadRequest { identity, is_retry, body, permit })
}

/// Reads a body of at most this many bytes.
pub(crate) async fn read_body(body: Body, most: usize) -> Result<Bytes, ApiError> {
    let limits = BodyLimits { bytes: most, time: BODY_TIMEOUT };
    gymkhana_http::read_body(body, limits).await.map_err(|error| match error {
        BodyError::TooLarge(_) => {
            ApiError::new(ErrorClass::TooLarge, format!("{error}\nhint: send fewer or shorter messages"))
        }
        BodyError::TooSlow(_) | BodyError::BrokeOff(_) => ApiError::new(ErrorClass::Invalid, error.to_string()),
    })
}

/// Hands a request to its session. Its body is gone with it.
async fn hand_over(
    entry: &RoutedSession,
    ask: Ask,
    read: ReadRequest,
) -> Result<oneshot::Receiver<Result<ModelResponse, ApiError>>, ApiError> {
    let ReadRequest { identity, is_retry, body, permit } = read;
    drop(body);
    let (reply, waiting) = oneshot::channel();
    let sent = entry.requests.send(Incoming { ask, identity, is_retry, reply, permit }).await;
    sent.map_err(|_| gone())?;
    Ok(waiting)
}

/// The answer of a session; a session that ends leaves its requests without one.
fn received(
    answer: Result<Result<ModelResponse, ApiError>, oneshot::error::RecvError>,
) -> Result<ModelResponse, ApiError> {
    answer.unwrap_or_else(|_| Err(gone()))
}

fn body_of(dialect: Dialect, answer: &ModelResponse) -> Response {
    match answer {
        ModelResponse::Reply(reply) => json(200, &dialect.reply(reply)),
        ModelResponse::Count(tokens) => json(200, &dialect.count(*tokens)),
    }
}

fn events_of(dialect: Dialect, answer: &ModelResponse) -> String {
    match answer {
        ModelResponse::Reply(reply) => dialect.stream(reply).iter().map(SseEvent::text).collect(),
        ModelResponse::Count(tokens) => dialect.count(*tokens).to_string(),
    }
}

/// A stream that began before its answer: a comment at once, which sends the head, and others until the answer comes.
fn late(
    dialect: Dialect,
    waiting: oneshot::Receiver<Result<ModelResponse, ApiError>>,
    in_flight: RequestInFlight,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let begun = futures::stream::once(async { Ok(Bytes::from_static(KEEP_ALIVE.as_bytes())) });
    begun.chain(futures::stream::unfold(Some((waiting, in_flight)), move |waiting| async move {
        let (mut waiting, in_flight) = waiting?;
        match pulse(KEEP_ALIVE_EVERY, &mut waiting).await {
            None => Some((Ok(Bytes::from_static(KEEP_ALIVE.as_bytes())), Some((waiting, in_flight)))),
            Some(answer) => {
                let text = match received(answer) {
                    Ok(answer) => events_of(dialect, &answer),
                    Err(error) => dialect.stream_error(&error).text().to_owned(),
                };
                Some((Ok(Bytes::from(text)), None))
            }
        }
    }))
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// A JSON body with a status.
pub(crate) fn json(status: u16, body: &Json) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    // Every status of this crate is a valid one.
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn failed(dialect: Dialect, error: &ApiError) -> Response {
    json(error.status(), &dialect.error(error))
}
