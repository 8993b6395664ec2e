//! A server that is asked in JSON and must answer: asked again while its faults may pass, and no longer.
//!
//! Who asks says how an answer is read, so that an answer that cannot be is a fault like any other: half an answer, a
//! page of a proxy, numbers that no model gives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::Value;
use url::Url;

use crate::client::{self, ClientError, reachable, root_cause};
use crate::retry::{Failed, GaveUp, Retry};
use crate::secret::Secret;

/// The most that is read of one answer, in bytes: log-probabilities of a long context take a hundred bytes a token.
const LARGEST_ANSWER: usize = 64 << 20;
/// How much of a refusal is told, in bytes.
const TOLD: usize = 300;

/// Timeout and retries of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestPolicy {
    /// Time that one attempt may take.
    pub timeout: Duration,
    /// What happens after a failed attempt.
    pub retry: Retry,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonClientError {
    /// The address is none that may be asked.
    #[error("{0}")]
    Address(String),
    /// It answers that it will not do this, whenever it is asked.
    #[error("`{path}` was refused with {status}: {said}")]
    Refused {
        /// What was asked.
        path: String,
        /// The status, such as 404.
        status: u16,
        /// The beginning of what it said.
        said: String,
    },
    /// It failed each time.
    #[error("`{path}` failed {tried} times, the last time so: {why}")]
    Failed {
        /// What was asked.
        path: String,
        /// How often it was asked.
        tried: u32,
        /// What went wrong last.
        why: String,
    },
}

/// The reason why an attempt gave no answer.
enum Fault {
    /// The server refuses the request whenever it is sent.
    Refused(JsonClientError),
    /// The attempt failed, in words for the user.
    Failed(String),
}

/// Told what a server is waited for, and when it answers again.
pub type StatusSink = Box<dyn Fn(String) + Send + Sync>;

/// A server that is asked in JSON.
pub struct JsonClient {
    url: Url,
    key: Option<Secret>,
    client: Client,
    on_status: StatusSink,
    /// Whether it failed when it was last asked: that is told once.
    down: AtomicBool,
}

impl std::fmt::Debug for JsonClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonClient").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl JsonClient {
    /// The server at an address, with what it is to know us by.
    ///
    /// # Errors
    /// If no client can be set up.
    pub fn new(url: Url, key: Option<Secret>, on_status: StatusSink) -> Result<Self, ClientError> {
        let client = client::checked_client(reachable(&url, key.as_ref()))?;
        Ok(Self { url, key, client, on_status, down: AtomicBool::new(false) })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What it says at a path, as `read` understands it.
    ///
    /// # Errors
    /// If it refuses, or fails more often than it is asked again.
    pub async fn get<T>(
        &self,
        path: &str,
        policy: &RequestPolicy,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        self.ask(path, policy, |url| self.client.get(url), read).await
    }

    /// What it answers to `body` at a path, as `read` understands it.
    ///
    /// # Errors
    /// If it refuses, or fails more often than it is asked again.
    pub async fn post<T>(
        &self,
        path: &str,
        body: &Value,
        policy: &RequestPolicy,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        let body = body.to_string();
        let request = |url| self.client.post(url).header("content-type", "application/json").body(body.clone());
        self.ask(path, policy, request, read).await
    }

    async fn ask<T>(
        &self,
        path: &str,
        policy: &RequestPolicy,
        request: impl Fn(String) -> RequestBuilder,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        // An address in the URL itself is never resolved, so it is looked at here.
        client::check_literal(&self.url, reachable(&self.url, self.key.as_ref()))
            .map_err(|forbidden| JsonClientError::Address(forbidden.to_string()))?;
        let url = format!("{}{path}", self.url.as_str().trim_end_matches('/'));
        let attempt = || async {
            let attempt = self.attempt(path, request(url.clone()), &read);
            tokio::time::timeout(policy.timeout, attempt).await.unwrap_or_else(|_| {
                let seconds = policy.timeout.as_secs_f64();
                Err(Failed::transient(Fault::Failed(format!("it did not answer within {seconds} s"))))
            })
        };
        let answered = policy.retry.run(attempt, |fault| self.mark_down(fault, policy.retry.retries)).await;
        match answered {
            Ok(answer) => {
                self.mark_up();
                Ok(answer)
            }
            Err(GaveUp { failed: Failed::Transient { error, .. } | Failed::Permanent(error), attempts }) => match error
            {
                Fault::Refused(refused) => Err(refused),
                Fault::Failed(why) => Err(JsonClientError::Failed { path: path.to_owned(), tried: attempts, why }),
            },
        }
    }

    fn mark_down(&self, fault: &Fault, retries: u32) {
        let Fault::Failed(why) = fault else { return };
        if !self.down.swap(true, Ordering::Relaxed) {
            (self.on_status)(format!(
                "waiting for the server at {}: {why}; each request is sent again up to {retries} times",
                self.url
            ));
        }
    }

    fn mark_up(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            (self.on_status)(format!("the server at {} answers again", self.url));
        }
    }

    /// Asks once: an answer, a fault that may pass, or a refusal.
    async fn attempt<T>(
        &self,
        path: &str,
        request: RequestBuilder,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, Failed<Fault>> {
        let passing = |why: String| Err(Failed::transient(Fault::Failed(why)));
        let request = match &self.key {
            Some(key) => request.bearer_auth(key.reveal()),
            None => request,
        };
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return passing(root_cause(&error)),
        };
        let status = response.status();
        let pause = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= LARGEST_ANSWER => bytes.extend_from_slice(&chunk),
                Ok(Some(_)) => return passing(format!("its answer is larger than {LARGEST_ANSWER} bytes")),
                Ok(None) => break,
                Err(error) => return passing(format!("its answer broke off: {}", root_cause(&error))),
            }
        }
        if let Some(key) = &self.key {
            bytes = key.hide_in(bytes);
        }
        if !status.is_success() {
            let said = excerpt(&bytes);
            if may_pass(status) {
                let error = Fault::Failed(format!("it answered {status}: {said}"));
                return Err(Failed::Transient { error, retry_after: pause.map(Duration::from_secs) });
            }
            let refused = JsonClientError::Refused { path: path.to_owned(), status: status.as_u16(), said };
            return Err(Failed::Permanent(Fault::Refused(refused)));
        }
        // Some calls are answered by nothing at all.
        let answer = if bytes.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&bytes) };
        match answer {
            Ok(answer) => read(&answer).or_else(passing),
            Err(error) => passing(format!("its answer is no JSON but `{}`: {error}", excerpt(&bytes))),
        }
    }
}

/// Whether the same request may be answered otherwise later.
fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TOLD)]);
    text.trim().to_owned()
}
