//! Errors as plain JSON, for routes whose protocol has no form of its own.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::ServeError;

/// An error as `{"error": {"kind", "owner", "message"}}` with the status of its kind.
#[derive(Debug)]
pub struct PlainError(pub ServeError);

impl From<ServeError> for PlainError {
    fn from(error: ServeError) -> Self {
        Self(error)
    }
}

impl IntoResponse for PlainError {
    fn into_response(self) -> Response {
        let ServeError { owner, kind, message } = self.0;
        let status = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = json!({ "error": { "kind": kind.label(), "owner": owner.label(), "message": message } });
        (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
    }
}
