//! Admission of requests: who sends them, to which name of the server, and from which web page.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::tokens::{TokenError, Tokens};
use crate::body::BodyLimits;
use crate::client::Client;
use crate::config::ServeFile;
use crate::doors::mcp;
use crate::error::{ErrorKind, ServeError};
use crate::plain_error::PlainError;

/// Paths that need no token: they tell nothing about sessions.
const OPEN_PATHS: [&str; 1] = ["/health"];

/// Rules of admission.
pub(super) struct Admission {
    tokens: Tokens,
    origins: Vec<String>,
    /// Names of the server beside those of this machine; `None` if all are accepted.
    hosts: Option<Vec<String>>,
    body: BodyLimits,
}

impl Admission {
    /// Reads the tokens. The server listens at `address`.
    ///
    /// # Errors
    /// If a token cannot be used.
    pub(super) fn new(config: &ServeFile, address: SocketAddr) -> Result<Self, TokenError> {
        let tokens = Tokens::read(&config.clients, |name| std::env::var(name).ok())?;
        let listen = &config.listen;
        let hosts = (address.ip().is_loopback() && !listen.behind_proxy).then(|| listen.hosts.clone());
        Ok(Self { tokens, origins: listen.origins.clone(), hosts, body: listen.body() })
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

    /// Whether the request names this server. A web page whose name was made to lead to this machine would otherwise have
    /// the server's own origin.
    fn allows_host(&self, headers: &HeaderMap) -> bool {
        let (Some(hosts), Some(host)) = (&self.hosts, headers.get(HOST)) else { return true };
        let Ok(host) = host.to_str() else { return false };
        let host = without_port(host);
        is_loopback(host) || hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
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

/// The host of a host and port.
fn without_port(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whether a host is this machine.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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

/// Adds the client and the limits to a request, or refuses it.
pub(super) async fn admit(State(admission): State<Arc<Admission>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let forbidden = |message| refused(path, StatusCode::FORBIDDEN, ServeError::agent(ErrorKind::Unauthorized, message));
    if !admission.allows_host(request.headers()) {
        return forbidden("the server has another name than the request's `Host`\nhint: add it to listen.hosts");
    }
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
