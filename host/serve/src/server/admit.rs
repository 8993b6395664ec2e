//! Admission of requests: who sends them, and from which web page.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::tokens::{TokenError, Tokens};
use crate::body::BodyLimits;
use crate::client::Client;
use crate::config::ServeFile;
use crate::error::{ErrorKind, ServeError};
use crate::plain_error::PlainError;

/// Paths that need no token: they tell nothing about sessions.
const OPEN_PATHS: [&str; 1] = ["/health"];

/// Rules of admission.
pub(super) struct Admission {
    tokens: Tokens,
    origins: Vec<String>,
    body: BodyLimits,
}

impl Admission {
    /// Reads the tokens.
    ///
    /// # Errors
    /// If a token cannot be used.
    pub(super) fn new(config: &ServeFile) -> Result<Self, TokenError> {
        let tokens = Tokens::read(&config.clients, |name| std::env::var(name).ok())?;
        Ok(Self { tokens, origins: config.listen.origins.clone(), body: config.listen.body() })
    }

    /// The client of a request.
    fn client(&self, request: &Request) -> Result<Client, ServeError> {
        if self.tokens.is_empty() || OPEN_PATHS.contains(&request.uri().path()) {
            return Ok(Client::anyone());
        }
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer ").or(header.strip_prefix("bearer ")));
        token.and_then(|token| self.tokens.client(token)).ok_or_else(|| {
            let message = "the request has no valid token\nhint: send `authorization: Bearer TOKEN`";
            ServeError::agent(ErrorKind::Unauthorized, message)
        })
    }

    /// Whether the request is from no web page, or from one that may send requests. A page of another origin could
    /// otherwise use a server on the visitor's machine.
    fn allows_origin(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = headers.get(ORIGIN) else { return true };
        let Ok(origin) = origin.to_str() else { return false };
        self.origins.iter().any(|allowed| allowed == origin) || is_local(origin)
    }
}

/// Whether an origin is a page of this machine.
fn is_local(origin: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let Some(rest) = rest else { return false };
    let host = match rest.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => rest.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Adds the client and the limits to a request, or refuses it.
pub(super) async fn admit(State(admission): State<Arc<Admission>>, mut request: Request, next: Next) -> Response {
    if !admission.allows_origin(request.headers()) {
        let message = "web pages of this origin may not send requests\nhint: add it to listen.origins";
        let refused = PlainError(ServeError::agent(ErrorKind::Unauthorized, message));
        return (StatusCode::FORBIDDEN, refused).into_response();
    }
    match admission.client(&request) {
        Ok(client) => {
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(admission.body);
            next.run(request).await
        }
        Err(error) => PlainError(error).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_machine_are_local() {
        for local in ["http://localhost", "http://localhost:3000", "https://127.0.0.1:8100", "http://[::1]:80"] {
            assert!(is_local(local), "{local}");
        }
        for other in
            ["null", "http://localhost.example.org", "http://10.0.0.1", "http://[::2]", "file://localhost", "http://"]
        {
            assert!(!is_local(other), "{other}");
        }
    }
}
