//! The identity of a client, which owns its sessions.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use hyper::StatusCode;
use hyper::http::request::Parts;

/// Name of the client of a server without tokens.
const ANYONE: &str = "anyone";

/// A client: the name of its token, or `anyone` on a server without tokens. A server's admission adds it to the extensions
/// of each request; handlers take it as an extractor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Client(Arc<str>);

impl Client {
    /// The client of this token's name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The client of a server without tokens.
    #[must_use]
    pub fn anyone() -> Self {
        Self::new(ANYONE)
    }

    /// Its name, in logs and metrics.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let missing = "the request has no client: its route is outside of the server's admission\n";
        parts.extensions.get().cloned().ok_or((StatusCode::INTERNAL_SERVER_ERROR, missing))
    }
}
