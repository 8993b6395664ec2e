//! Answers in VerlTool's form.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use gymkhana_record::stored_bytes;
use serde_json::{Value as Json, json};

use super::delivery::{Delivered, DeliveredBody};
use crate::error::{Owner, ServeError};

/// The answer to one trajectory.
#[derive(Debug, Clone)]
pub(super) struct TrajectoryAnswer {
    /// A text, or an object with `obs`.
    pub(super) observation: Json,
    /// Whether the trajectory is over.
    pub(super) done: bool,
    /// Whether the action called a function that did not fail.
    pub(super) valid: bool,
    /// Set once the answer was handed to the connection; `None` for answers that are not repeated.
    pub(super) delivered: Option<Arc<Delivered>>,
}

impl TrajectoryAnswer {
    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(stored_bytes(&self.observation)).unwrap_or(usize::MAX)
    }

    /// The end that the client asked for.
    pub(super) fn finished() -> Self {
        Self { observation: Json::from(""), done: true, valid: true, delivered: None }
    }

    /// An invalid action, with the party at fault and the reason.
    pub(super) fn invalid(text: &str, owner: Owner, reason: &str, done: bool) -> Self {
        let observation = json!({ "obs": text, "invalid_reason": reason, "owner": owner.label() });
        Self { observation, done, valid: false, delivered: None }
    }

    /// A request that failed.
    pub(super) fn failed(error: &ServeError, done: bool) -> Self {
        Self::invalid(&error.message, error.owner, error.kind.label(), done)
    }
}

/// The response with these answers.
pub(super) fn answers(answers: Vec<TrajectoryAnswer>, took: Duration) -> Response {
    let milliseconds = took.as_secs_f64() * 1e3;
    let (mut observations, mut dones, mut valids, mut delivered) = (vec![], vec![], vec![], vec![]);
    for answer in answers {
        observations.push(answer.observation);
        dones.push(answer.done);
        valids.push(answer.valid);
        delivered.extend(answer.delivered);
    }
    let body = json!({
        "observations": observations, "dones": dones, "valids": valids, "processing_time_ms": milliseconds,
    });
    let body = Body::new(DeliveredBody::new(body.to_string(), delivered));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    if let Ok(seconds) = format!("{:.6}", took.as_secs_f64()).parse() {
        headers.insert("x-process-time", seconds);
    }
    response
}
