//! Admission of requests: who sends them, and from which web page.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gymkhana_http::{Client, ClientTokens, TokenError, is_loopback, without_port};

use crate::body::BodyLimits;
use crate::config::ServeFile;
use crate::endpoints::mcp;
use crate::error::{ErrorKind, ServeError};
use crate::plain_error::PlainError;

/// Paths that need no token: they tell nothing about sessions.
const OPEN_PATHS: [&str; 1] = ["/health"];

/// Rules of admission.
pub(super) struct Admission {
    tokens: ClientTokens,
    origins: Vec<String>,
    body: BodyLimits,
}

impl Admission {
    /// Reads the tokens.
    ///
    /// # Errors
    /// If a token cannot be used.
    pub(super) fn new(config: &ServeFile) -> Result<Self, TokenError> {
        let clients = config.clients.iter().map(|(name, client)| (name.as_str(), client.token_env.as_str()));
        let tokens = ClientTokens::read("clients", clients, |name| std::env::var(name).ok())?;
        Ok(Self { tokens, origins: config.listen.origins.clone(), body: config.listen.body() })
    }

    /// The client of a request.
    fn client(&self, request: &Request) -> Result<Client, ServeError> {
        if OPEN_PATHS.contains(&request.uri().path()) {
            return Ok(Client::anyone());
        }
        self.tokens.client(request.headers()).ok_or_else(|| {
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
    rest.is_some_and(|rest| is_loopback(without_port(rest)))
}

/// A refusal, in the protocol's form where the path tells the protocol.
fn refused(path: &str, status: StatusCode, error: ServeError) -> Response {
    if path.ends_with("/mcp") {
        mcp::refusal(status, &error)
    } else {
        let mut response = PlainError(error).into_response();
        *response.status_mut() = status;
        response
    }
}

/// A refusal by the listener: the request names another server, or none.
pub(super) fn refuse_host(path: &str, status: StatusCode, message: &str) -> Response {
    let hint = if status == StatusCode::FORBIDDEN { "\nhint: add it to listen.hosts" } else { "" };
    let message = message.lines().next().unwrap_or(message);
    refused(path, status, ServeError::agent(ErrorKind::Unauthorized, format!("{message}{hint}")))
}

/// Adds the client and the limits to a request, or refuses it.
pub(super) async fn admit(State(admission): State<Arc<Admission>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let forbidden = |message| refused(path, StatusCode::FORBIDDEN, ServeError::agent(ErrorKind::Unauthorized, message));
    if !admission.allows_origin(request.headers()) {
        return forbidden("web pages of this origin may not send requests\nhint: add it to listen.origins");
    }
    match admission.client(&request) {
        Ok(client) => {
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(admission.body);
            next.run(request).await
        }
        Err(error) => {
            let mut response = refused(path, StatusCode::UNAUTHORIZED, error);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
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
