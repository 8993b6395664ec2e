//! Reading of request bodies within the listener's limits of size and time.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use gymkhana_http::{BodyError, read_body};

pub use gymkhana_http::BodyLimits;

use crate::error::{ErrorKind, ServeError};
use crate::plain_error::PlainError;

/// Limits of requests that no listener has admitted, as in tests of routes.
const DEFAULT: BodyLimits = BodyLimits { bytes: 8 << 20, time: Duration::from_secs(30) };

/// The body of a request, read within [`BodyLimits`]. As an extractor it answers errors as [`PlainError`]; endpoints
/// whose protocol has another form call [`RequestBody::read`].
#[derive(Debug)]
pub struct RequestBody(pub Bytes);

impl RequestBody {
    /// Reads the body.
    ///
    /// # Errors
    /// If it is too large, too slow or broken off.
    pub async fn read(request: Request) -> Result<Bytes, ServeError> {
        let limits = request.extensions().get::<BodyLimits>().copied().unwrap_or(DEFAULT);
        read_body(request.into_body(), limits).await.map_err(|error| match error {
            BodyError::TooLarge(_) => {
                ServeError::agent(ErrorKind::TooLarge, format!("{error}\nhint: raise listen.body_kib"))
            }
            BodyError::TooSlow(_) => ServeError::agent(ErrorKind::Deadline, error.to_string()),
            BodyError::BrokeOff(_) => ServeError::bad_input(error.to_string()),
        })
    }
}

impl<S: Sync> FromRequest<S> for RequestBody {
    type Rejection = PlainError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, PlainError> {
        Ok(Self(Self::read(request).await?))
    }
}
