//! Error responses: a status and one line of text, optionally followed by a hint line.

use std::error::Error;

use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use gymkhana_registry::ErrorChain;

use crate::request_log::LogDetail;

/// A rejected request.
#[derive(Debug)]
pub(crate) struct HttpError {
    status: StatusCode,
    /// Text of the response body.
    message: String,
    /// More detailed text for the log.
    detail: Option<String>,
}

impl HttpError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), detail: None }
    }

    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no such file")
    }

    pub fn too_many_requests(message: &str) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    /// An error caused by the client; its text is returned.
    pub fn client(status: StatusCode, error: &dyn Error) -> Self {
        Self::new(status, ErrorChain(error).to_string())
    }

    /// An error of the server; its text goes to the log only, because it contains local paths.
    pub fn internal(error: &dyn Error) -> Self {
        let message =
            "internal error of the registry\nhint: try again later, or report this to its maintainer".to_owned();
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, message, detail: Some(ErrorChain(error).to_string()) }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let extra: Option<(HeaderName, &'static str)> = match self.status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "GET, HEAD, PUT")),
            StatusCode::TOO_MANY_REQUESTS => Some((RETRY_AFTER, "10")),
            _ => None,
        };
        let body = format!("{}\n", self.message);
        let mut response = (self.status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response();
        if let Some((name, value)) = extra {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response.extensions_mut().insert(LogDetail(self.detail.unwrap_or(self.message)));
        response
    }
}
