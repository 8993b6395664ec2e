//! A server that is asked in JSON and must answer: asked again while its faults may pass, and no longer.
//!
//! Who asks says how an answer is read, so that an answer that cannot be is a fault like any other: half an answer, a
//! page of a proxy, numbers that no model gives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::Value;
use url::Url;

use crate::client::{self, ClientError, root_cause};
use crate::model::reachable;
use crate::secret::Secret;

/// The most that is read of one answer, in bytes: log-probabilities of a long context take a hundred bytes a token.
const LARGEST_ANSWER: usize = 64 << 20;
/// How much of a refusal is told, in bytes.
const TOLD: usize = 300;

/// How a server is asked.
#[derive(Debug, Clone)]
pub struct Patience {
    /// How long one answer may take.
    pub time: Duration,
    /// How often it is asked again when it fails.
    pub retries: u32,
    /// The first pause before it is asked again; each later one is twice as long.
    pub first_pause: Duration,
    /// The longest pause, also where the server asks for a longer one.
    pub longest_pause: Duration,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiFault {
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

/// One attempt failed, and the next may not.
struct Failed {
    why: String,
    /// How long to wait, if the server says so.
    pause: Option<Duration>,
}

/// Told what a server is waited for, and when it answers again.
pub type Told = Box<dyn Fn(String) + Send + Sync>;

/// A server that is asked in JSON.
pub struct Api {
    url: Url,
    key: Option<Secret>,
    client: Client,
    told: Told,
    /// Whether it failed when it was last asked: that is told once.
    down: AtomicBool,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl Api {
    /// The server at an address, with what it is to know us by.
    ///
    /// # Errors
    /// If no client can be set up.
    pub fn new(url: Url, key: Option<Secret>, told: Told) -> Result<Self, ClientError> {
        let client = client::checked(reachable(&url, key.as_ref()))?;
        Ok(Self { url, key, client, told, down: AtomicBool::new(false) })
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
        patience: &Patience,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, ApiFault> {
        self.ask(path, patience, |url| self.client.get(url), read).await
    }

    /// What it answers to `body` at a path, as `read` understands it.
    ///
    /// # Errors
    /// If it refuses, or fails more often than it is asked again.
    pub async fn post<T>(
        &self,
        path: &str,
        body: &Value,
        patience: &Patience,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, ApiFault> {
        let body = body.to_string();
        let request = |url| self.client.post(url).header("content-type", "application/json").body(body.clone());
        self.ask(path, patience, request, read).await
    }

    async fn ask<T>(
        &self,
        path: &str,
        patience: &Patience,
        request: impl Fn(String) -> RequestBuilder,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<T, ApiFault> {
        // An address in the URL itself is never resolved, so it is looked at here.
        client::check_literal(&self.url, reachable(&self.url, self.key.as_ref()))
            .map_err(|forbidden| ApiFault::Address(forbidden.to_string()))?;
        let url = format!("{}{path}", self.url.as_str().trim_end_matches('/'));
        let mut pause = patience.first_pause;
        let mut tried = 0;
        loop {
            tried += 1;
            let attempt = self.attempt(path, request(url.clone()), &read);
            let Failed { why, pause: asked } = match tokio::time::timeout(patience.time, attempt).await {
                Ok(Ok(Ok(answer))) => {
                    self.is_up();
                    return Ok(answer);
                }
                Ok(Ok(Err(failed))) => failed,
                Ok(Err(refused)) => return Err(refused),
                Err(_) => {
                    let seconds = patience.time.as_secs_f64();
                    Failed { why: format!("it did not answer within {seconds} s"), pause: None }
                }
            };
            if tried > patience.retries {
                return Err(ApiFault::Failed { path: path.to_owned(), tried, why });
            }
            let wait = asked.unwrap_or(pause).min(patience.longest_pause);
            self.is_down(&why, patience.retries);
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(patience.longest_pause);
        }
    }

    fn is_down(&self, why: &str, retries: u32) {
        if !self.down.swap(true, Ordering::Relaxed) {
            (self.told)(format!(
                "waiting for the server at {}: {why}; each request is sent again up to {retries} times",
                self.url
            ));
        }
    }

    fn is_up(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            (self.told)(format!("the server at {} answers again", self.url));
        }
    }

    /// Asks once: an answer, a fault that may pass, or a refusal.
    async fn attempt<T>(
        &self,
        path: &str,
        request: RequestBuilder,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Result<T, Failed>, ApiFault> {
        let passing = |why: String| Ok(Err(Failed { why, pause: None }));
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
                let pause = pause.map(Duration::from_secs);
                return Ok(Err(Failed { why: format!("it answered {status}: {said}"), pause }));
            }
            return Err(ApiFault::Refused { path: path.to_owned(), status: status.as_u16(), said });
        }
        // Some calls are answered by nothing at all.
        let answer = if bytes.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&bytes) };
        match answer {
            Ok(answer) => Ok(read(&answer).map_err(|why| Failed { why, pause: None })),
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
