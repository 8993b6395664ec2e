//! Answers: bodies, statuses, and refusals in one line that names the object and the fix.

use std::error::Error;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use crate::log::RequestLogEntry;

/// What is sent.
pub(crate) type Body = BoxBody<Bytes, std::io::Error>;

/// Why something is not done.
#[derive(Debug)]
pub(crate) struct HttpError {
    status: StatusCode,
    /// For the client.
    words: String,
    /// For the log, where it is more.
    cause: Option<String>,
}

impl HttpError {
    pub fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into(), cause: None }
    }

    pub fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such file here")
    }

    pub fn too_many(words: &str) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, words)
    }

    /// A mistake of the client's, in all its words.
    pub fn mistake(status: StatusCode, error: &dyn Error) -> Self {
        Self::new(status, chain(error))
    }

    /// A fault of ours, whose words are the log's alone: they name this machine's paths.
    pub fn fault(error: &dyn Error) -> Self {
        let words = "the registry has a fault; try again later, or tell its maintainer".to_owned();
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, words, cause: Some(chain(error)) }
    }
}

/// An error and its causes, in one line.
fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let said = deeper.to_string();
        if !words.contains(&said) {
            words = format!("{words}: {said}");
        }
        cause = deeper.source();
    }
    words.replace('\n', " ")
}

/// A whole body.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// The answer to what is not done.
pub(crate) fn refuse(refusal: &HttpError, line: &mut RequestLogEntry) -> Response<Body> {
    line.what = Some(refusal.cause.clone().unwrap_or_else(|| refusal.words.clone()));
    let words = format!("{}\n", refusal.words);
    let length = words.len();
    let mut response = Response::new(full(words));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    match refusal.status {
        StatusCode::UNAUTHORIZED => headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
        StatusCode::METHOD_NOT_ALLOWED => headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, PUT")),
        StatusCode::TOO_MANY_REQUESTS => headers.insert(RETRY_AFTER, HeaderValue::from_static("10")),
        _ => None,
    };
    response
}
