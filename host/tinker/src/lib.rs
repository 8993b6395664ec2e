//! Client of Tinker-compatible servers: samples from a model, and trains a LoRA adapter of it.
//!
//! The server keeps the weights. Each call that computes is a future: the first request returns its number, the second
//! one waits for its result. Sampled tokens and passes come as protobuf, everything else as JSON, as in version 0.25 of the
//! official client.
//!
//! The crate never prints.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod datum;
mod engine;
mod error;
mod model;
mod policy;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gymkhana_net::{
    JsonClient, JsonClientError, RawBody, Received, Repeated, RequestPolicy, Retry, Secret, StatusSink,
};
use gymkhana_waits::{Counterpart, within};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use url::Url;

pub use datum::{Datum, Reduction, ServerLoss, TrainedToken};
pub use engine::{Counters, TinkerEngine, passes};
pub use error::TinkerError;
pub use model::{LoraSettings, TinkerModel};
pub use policy::TinkerPolicy;

/// Version of the protocol, by that of the official client.
const SDK_VERSION: &str = "0.25.0";

/// Time between two heartbeats of a session, as the official client sends them.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Time in which a server answers that a result is not there yet, at most; SkyRL's waits for 300 s.
const WAIT: Duration = Duration::from_secs(330);

/// Models of a server that an error names.
const MAX_NAMED: usize = 20;

/// Hint for a server that does not do what it is asked for.
const CHECK: &str = "check the server and trainer.url; then run again, with --resume if the run has begun";

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct TinkerSettings {
    /// URL, such as `http://127.0.0.1:8000`.
    pub url: Url,
    /// Name of the model on the server; its only one if there is none.
    pub model: Option<String>,
    /// Bearer token.
    pub key: Option<Secret>,
    /// Longest time until a result, such as that of a training step.
    pub timeout: Duration,
    /// Timeout and retries of requests that compute nothing.
    pub requests: RequestPolicy,
}

/// A server and a session on it.
pub struct TinkerClient {
    http: Arc<JsonClient>,
    url: Url,
    model: String,
    session: String,
    settings: TinkerSettings,
    heartbeat: JoinHandle<()>,
    /// Number of models that the session has created, which the server orders them by.
    models: AtomicU32,
}

impl std::fmt::Debug for TinkerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TinkerClient")
            .field("url", &self.url.as_str())
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Drop for TinkerClient {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
}

impl TinkerClient {
    /// Connects to a server, finds the model and begins a session, which is kept alive on the current runtime.
    ///
    /// # Errors
    /// If the server does not answer, or lacks the model.
    pub async fn connect(settings: TinkerSettings, on_status: StatusSink) -> Result<Self, TinkerError> {
        let url = settings.url.clone();
        let http = Arc::new(JsonClient::new(url.clone(), settings.key.clone(), Counterpart::Tinker, on_status)?);
        let fault = |doing, fault| {
            let fault = Box::new(fault);
            TinkerError::Fault { url: url.to_string(), doing, fault, fix: CHECK }
        };
        let policy = settings.requests;
        let known = http.get("/api/v1/get_server_capabilities", &policy, models).await;
        let known = known.map_err(|error| fault("list its models", error))?;
        let model = chosen(&url, &known, settings.model.as_deref())?;
        let begin = json!({ "tags": [], "user_metadata": null, "sdk_version": SDK_VERSION, "type": "create_session" });
        let session = http.post("/api/v1/create_session", &begin, &policy, text("session_id")).await;
        let session = session.map_err(|error| fault("begin a session", error))?;
        let heartbeat = tokio::spawn(keep_alive(Arc::clone(&http), session.clone(), policy));
        Ok(Self { http, url, model, session, settings, heartbeat, models: AtomicU32::new(0) })
    }

    /// Name of the model on the server.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// URL of the server.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Number of the session.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// Number of the next model of the session.
    pub(crate) fn next_model(&self) -> u32 {
        self.models.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins a call that computes and waits for its result. A call that changes the model is sent again only if the server
    /// did not process it: gradients count once.
    pub(crate) async fn computed<T>(
        &self,
        path: &str,
        body: &RawBody,
        repeated: Repeated,
        read: impl Fn(&Received) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        let policy = RequestPolicy { repeated, ..self.settings.requests };
        let number = |received: &Received| received.json().and_then(|answer| text("request_id")(&answer));
        let request = self.http.send(path, body, &policy, number).await?;
        self.result(&request, read).await
    }

    /// As `computed`, for a call that changes the model and has a body of JSON.
    pub(crate) async fn computed_json<T>(
        &self,
        path: &str,
        body: &Value,
        read: impl Fn(&Received) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        self.computed(path, &json_body(body), Repeated::Unprocessed, read).await
    }

    /// Waits for the result of a call.
    pub(crate) async fn result<T>(
        &self,
        request: &str,
        read: impl Fn(&Received) -> Result<T, String>,
    ) -> Result<T, JsonClientError> {
        let path = "/api/v1/retrieve_future";
        let body = json_body(&json!({ "request_id": request }));
        // A server says after a while that a result is not there yet, which is asked for again.
        let retries = (self.settings.timeout.as_secs() / WAIT.as_secs() + 1) as u32;
        let retry =
            Retry { retries: retries.max(self.settings.requests.retry.retries), ..self.settings.requests.retry };
        let wait = RequestPolicy { timeout: WAIT, retry, repeated: Repeated::Passing };
        let pending = |received: &Received| {
            let answer = if received.content_type == wire::CONTENT_TYPE { Value::Null } else { received.json()? };
            if answer["type"] == "try_again" {
                return Err("its result is not there yet".to_owned());
            }
            read(received)
        };
        let asked = self.http.send(path, &body, &wait, pending);
        within(Counterpart::Tinker, self.settings.timeout, asked).await.unwrap_or_else(|_| {
            let why = format!("it gave no result within {} s", self.settings.timeout.as_secs());
            Err(JsonClientError::Failed { path: path.to_owned(), tried: 1, why })
        })
    }

    /// The error of a call.
    pub(crate) fn fault(&self, doing: &'static str) -> impl Fn(JsonClientError) -> TinkerError {
        move |fault| {
            let fault = Box::new(fault);
            TinkerError::Fault { url: self.url.to_string(), doing, fault, fix: CHECK }
        }
    }
}

pub(crate) fn json_body(body: &Value) -> RawBody {
    RawBody { content_type: "application/json", bytes: body.to_string().into_bytes() }
}

/// Reads a text of a JSON answer.
pub(crate) fn text(name: &'static str) -> impl Fn(&Value) -> Result<String, String> {
    move |answer| answer[name].as_str().map(str::to_owned).ok_or_else(|| format!("its answer has no text `{name}`"))
}

/// Names of the models in the answer of the server.
fn models(answer: &Value) -> Result<Vec<String>, String> {
    let listed = answer["supported_models"].as_array().ok_or("its answer has no list `supported_models`")?;
    listed.iter().map(text("model_name")).collect()
}

/// The named model, or the only one.
fn chosen(url: &Url, known: &[String], named: Option<&str>) -> Result<String, TinkerError> {
    let served = known.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join("`, `");
    match (named, known) {
        (Some(name), known) if known.iter().any(|model| model == name) => Ok(name.to_owned()),
        (Some(name), _) => Err(TinkerError::Model { url: url.to_string(), model: name.to_owned(), served }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(TinkerError::Unnamed { url: url.to_string(), served }),
    }
}

/// Sends heartbeats until it is aborted. One that gets lost does no harm, because a session lives for minutes.
async fn keep_alive(http: Arc<JsonClient>, session: String, policy: RequestPolicy) {
    let body = json!({ "session_id": session, "type": "session_heartbeat" });
    let once = RequestPolicy { retry: Retry { retries: 0, ..policy.retry }, ..policy };
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let _ = http.post("/api/v1/session_heartbeat", &body, &once, |_| Ok(())).await;
    }
}
