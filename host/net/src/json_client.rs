//! JSON client with retries of transient faults.
//!
//! The caller supplies the parser of the answer, so that an invalid answer (truncated, a proxy's error page, impossible
//! numbers) is retried like any other fault.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gymkhana_record::json_values_at_most;
use gymkhana_waits::{Counterpart, within};
use serde_json::Value;
use url::Url;

use crate::http::{Client, ClientError, RequestBuilder, StatusCode, checked_client};
use crate::retry::{Failed, GaveUp, Retry};
use crate::secret::Secret;
use crate::{check_literal, reachable, root_cause};

/// Limit on an answer, in bytes: log-probabilities of a long context take about 100 bytes per token.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Limit on the values of an answer. A parsed value takes up to 100 bytes, and many small values need more memory than
/// the answer; log-probabilities have about six values per token.
const MAX_ANSWER_VALUES: usize = 4 << 20;
/// Length of the excerpt of an answer in an error, in bytes.
const EXCERPT_BYTES: usize = 300;

/// Timeout and retries of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestPolicy {
    /// Timeout of one attempt.
    pub timeout: Duration,
    /// Retries after a failed attempt.
    pub retry: Retry,
    /// Attempts that are followed by a retry.
    pub repeated: Repeated,
}

/// Failed attempts that are followed by a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeated {
    /// Those after which the server may answer.
    #[default]
    Passing,
    /// Of these, those that the server did not process: it could not be connected to, or said that it is busy (429, 503).
    Unprocessed,
}

/// Failure of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonClientError {
    /// The address is not allowed.
    #[error("{0}")]
    Address(String),
    /// The server refused the request permanently.
    #[error("`{path}` was refused with {status}: {said}")]
    Refused {
        /// Path of the request.
        path: String,
        /// HTTP status, such as 404.
        status: u16,
        /// Beginning of the answer.
        said: String,
    },
    /// Every attempt failed.
    #[error("`{path}` failed {tried} times; last attempt: {why}")]
    Failed {
        /// Path of the request.
        path: String,
        /// Number of attempts.
        tried: u32,
        /// Last error.
        why: String,
    },
}

impl JsonClientError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn may_recover(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// A body that is not JSON.
#[derive(Debug, Clone)]
pub struct RawBody {
    /// Its media type.
    pub content_type: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its media type, without parameters; empty if the server names none.
    pub content_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Failure of one attempt.
enum AttemptFailure {
    /// The server refused the request permanently.
    Refused(JsonClientError),
    /// The attempt failed; the reason for the user.
    Failed(String),
    /// The attempt failed before the server processed the request; the reason for the user.
    Unprocessed(String),
}

/// Receiver of status messages: the client waits for a server, or the server answers again.
pub type StatusSink = Box<dyn Fn(String) + Send + Sync>;

/// Client of one server.
pub struct JsonClient {
    url: Url,
    key: Option<Secret>,
    client: Client,
    /// What the server is.
    counterpart: Counterpart,
    on_status: StatusSink,
    /// Whether the last request failed; the change is reported once.
    down: AtomicBool,
    /// Whether an attempt failed in a passing way since the last look.
    interrupted: AtomicBool,
}

impl std::fmt::Debug for JsonClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonClient").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl JsonClient {
    /// Creates a client of the server at `url`, which sends `key` as a bearer token. Messages name the counterpart.
    ///
    /// # Errors
    /// If the client cannot be set up.
    pub fn new(
        url: Url,
        key: Option<Secret>,
        counterpart: Counterpart,
        on_status: StatusSink,
    ) -> Result<Self, ClientError> {
        let client = checked_client(reachable(&url, key.as_ref()))?;
        let (down, interrupted) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { url, key, client, counterpart, on_status, down, interrupted })
    }

    /// URL of the server.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Whether an attempt failed in a passing way since the last call of this method: without an answer, or with a broken
    /// or busy one. The server may have been started again.
    pub fn take_interruption(&self) -> bool {
        self.interrupted.swap(false, Ordering::Relaxed)
    }

    /// Sends a GET request and parses the answer with `read`.
    ///
    /// # Errors
    /// If the server refuses, or every attempt fails.
    pub async fn get<T>(
        &self,
        path: &str,
        policy: &RequestPolicy,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        self.ask(path, policy, |url| self.client.get(url), json(read)).await
    }

    /// Sends a POST request with `body` and parses the answer with `read`.
    ///
    /// # Errors
    /// If the server refuses, or every attempt fails.
    pub async fn post<T>(
        &self,
        path: &str,
        body: &Value,
        policy: &RequestPolicy,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        let body = RawBody { content_type: "application/json", bytes: body.to_string().into_bytes() };
        self.send(path, &body, policy, json(read)).await
    }

    /// As [`JsonClient::post`], with the name of a session, by which a router can choose a server that has its prefix cached.
    ///
    /// # Errors
    /// As [`JsonClient::post`].
    pub async fn post_in<T>(
        &self,
        session: &str,
        path: &str,
        body: &Value,
        policy: &RequestPolicy,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        let body = body.to_string();
        let request = |url: String| {
            let request = self.client.post(url).header("content-type", "application/json");
            request.header("x-session-id", session).body(body.clone().into_bytes())
        };
        self.ask(path, policy, request, json(read)).await
    }

    /// Sends a POST request with `body` and reads an answer of any media type with `read`.
    ///
    /// # Errors
    /// If the server refuses, or every attempt fails.
    pub async fn send<T>(
        &self,
        path: &str,
        body: &RawBody,
        policy: &RequestPolicy,
        read: impl Fn(&Received) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        let request = |url| self.client.post(url).header("content-type", body.content_type).body(body.bytes.clone());
        self.ask(path, policy, request, read).await
    }

    async fn ask<T>(
        &self,
        path: &str,
        policy: &RequestPolicy,
        request: impl Fn(String) -> RequestBuilder,
        read: impl Fn(&Received) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        // A literal address in the URL is never resolved, so it is checked here.
        check_literal(&self.url, reachable(&self.url, self.key.as_ref()))
            .map_err(|forbidden| JsonClientError::Address(forbidden.to_string()))?;
        let url = format!("{}{path}", self.url.as_str().trim_end_matches('/'));
        let attempt = || async {
            let attempt = self.attempt(path, request(url.clone()), &read);
            let answer = within(self.counterpart, policy.timeout, attempt).await.unwrap_or_else(|_| {
                let seconds = policy.timeout.as_secs_f64();
                Err(Failed::transient(AttemptFailure::Failed(format!("it did not answer within {seconds} s"))))
            });
            if matches!(answer, Err(Failed::Transient { .. })) {
                self.interrupted.store(true, Ordering::Relaxed);
            }
            match answer {
                Err(Failed::Transient { error: error @ AttemptFailure::Failed(_), .. })
                    if policy.repeated == Repeated::Unprocessed =>
                {
                    Err(Failed::Permanent(error))
                }
                answer => answer,
            }
        };
        let answered = policy.retry.run(attempt, |fault| self.mark_down(fault, policy)).await;
        match answered {
            Ok(answer) => {
                self.mark_up();
                Ok(answer)
            }
            Err(GaveUp { failed: Failed::Transient { error, .. } | Failed::Permanent(error), attempts }) => match error
            {
                AttemptFailure::Refused(refused) => Err(refused),
                AttemptFailure::Failed(why) | AttemptFailure::Unprocessed(why) => {
                    Err(JsonClientError::Failed { path: path.to_owned(), tried: attempts, why })
                }
            },
        }
    }

    fn mark_down(&self, fault: &AttemptFailure, policy: &RequestPolicy) {
        let (AttemptFailure::Failed(why) | AttemptFailure::Unprocessed(why)) = fault else { return };
        if !self.down.swap(true, Ordering::Relaxed) {
            let RequestPolicy { retry, timeout, .. } = policy;
            (self.on_status)(format!(
                "waiting for {} at {}: {why}; each request is sent again up to {} times, for about {} s if the server \
                 refuses at once, and for {} s more each time that it does not answer",
                self.counterpart.name(),
                self.url,
                retry.retries,
                retry.delays().as_secs_f64().ceil(),
                timeout.as_secs_f64()
            ));
        }
    }

    fn mark_up(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            (self.on_status)(format!("{} at {} answers again", self.counterpart.name(), self.url));
        }
    }

    /// Sends a request once.
    async fn attempt<T>(
        &self,
        path: &str,
        request: RequestBuilder,
        read: impl Fn(&Received) -> Result<T, String>,
    ) -> Result<T, Failed<AttemptFailure>> {
        let transient = |why: String| Err(Failed::transient(AttemptFailure::Failed(why)));
        let request = match &self.key {
            Some(key) => request.bearer_auth(key.reveal()),
            None => request,
        };
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                return Err(Failed::transient(AttemptFailure::Unprocessed(root_cause(&error))));
            }
            Err(error) => return transient(root_cause(&error)),
        };
        let status = response.status();
        let pause = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let named = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let content_type = named.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_owned();
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= MAX_ANSWER_BYTES => bytes.extend_from_slice(&chunk),
                Ok(Some(_)) => return transient(format!("its answer is larger than {MAX_ANSWER_BYTES} bytes")),
                Ok(None) => break,
                Err(error) => return transient(format!("its answer broke off: {}", root_cause(&error))),
            }
        }
        if let Some(key) = &self.key {
            bytes = key.hide_in(bytes);
        }
        if !status.is_success() {
            let said = excerpt(&bytes);
            if is_transient(status) {
                let why = format!("it answered {status}: {said}");
                let error =
                    if is_busy(status) { AttemptFailure::Unprocessed(why) } else { AttemptFailure::Failed(why) };
                return Err(Failed::Transient { error, retry_after: pause.map(Duration::from_secs) });
            }
            let refused = JsonClientError::Refused { path: path.to_owned(), status: status.as_u16(), said };
            return Err(Failed::Permanent(AttemptFailure::Refused(refused)));
        }
        read(&Received { content_type, bytes }).or_else(transient)
    }
}

impl Received {
    /// The answer as JSON; null if it is empty, as that of some calls is.
    ///
    /// # Errors
    /// If it is not JSON or has too many values; the reason.
    pub fn json(&self) -> Result<Value, String> {
        let bytes = &self.bytes;
        if json_values_at_most(bytes) > MAX_ANSWER_VALUES {
            return Err(format!("its answer has more than {MAX_ANSWER_VALUES} JSON values"));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(bytes).map_err(|error| format!("its answer `{}` is not JSON: {error}", excerpt(bytes)))
    }
}

/// Reads a JSON answer.
fn json<T>(read: impl Fn(&Value) -> Result<T, String>) -> impl Fn(&Received) -> Result<T, String> {
    move |received| received.json().and_then(|answer| read(&answer))
}

/// Returns whether a later attempt may succeed.
fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// Whether the server says that it did not process the request.
fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_BYTES)]);
    text.trim().to_owned()
}
