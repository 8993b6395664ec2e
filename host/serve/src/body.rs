//! Reading of request bodies within the listener's limits of size and time.

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use tokio::time::timeout;

use crate::error::{ErrorKind, ServeError};
use crate::plain_error::PlainError;

/// Limits of a request's body, which the listener adds to each request.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// Size in bytes.
    pub bytes: usize,
    /// Time from the head of the request to the end of its body.
    pub time: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes: 8 << 20, time: Duration::from_secs(30) }
    }
}

/// The body of a request, read within [`BodyLimits`]. As an extractor it answers errors as [`PlainError`]; doors whose
/// protocol has another form call [`RequestBody::read`].
#[derive(Debug)]
pub struct RequestBody(pub Bytes);

impl RequestBody {
    /// Reads the body.
    ///
    /// # Errors
    /// If it is too large, too slow or broken off.
    pub async fn read(request: Request) -> Result<Bytes, ServeError> {
        let limits = request.extensions().get::<BodyLimits>().copied().unwrap_or_default();
        let too_large = || {
            let message = format!("the request is larger than {} bytes\nhint: raise listen.body_kib", limits.bytes);
            ServeError::agent(ErrorKind::TooLarge, message)
        };
        let declared = request.headers().get(axum::http::header::CONTENT_LENGTH);
        let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|declared| declared > limits.bytes) {
            return Err(too_large());
        }
        match timeout(limits.time, to_bytes(request.into_body(), limits.bytes)).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                let is_limit = source.as_deref() == Some("length limit exceeded");
                Err(if is_limit { too_large() } else { ServeError::bad_input(format!("the body broke off: {error}")) })
            }
            Err(_) => {
                let message = format!("the body did not arrive within {} s", limits.time.as_secs_f64());
                Err(ServeError::agent(ErrorKind::Deadline, message))
            }
        }
    }
}

impl<S: Sync> FromRequest<S> for RequestBody {
    type Rejection = PlainError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, PlainError> {
        Ok(Self(Self::read(request).await?))
    }
}
