//! The listener: one address for all endpoints, with authorisation, limits, TLS, metrics and an orderly end.

mod admit;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gymkhana_http::{HostNames, ListenError, Listener, Tls, TlsError, TokenError};
use serde_json::json;
use tower_http::catch_panic::CatchPanicLayer;

use crate::config::{ListenSection, ServeFile};
use crate::endpoints::{self, EndpointError};
use crate::error::{ErrorKind, ServeError};
use crate::plain_error::PlainError;
use crate::session::SessionTable;
use admit::{Admission, admit, refuse_host};

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The address is open to others without protection.
    #[error("cannot listen on {address}: others can reach it, and {missing}")]
    Unprotected {
        /// Address.
        address: SocketAddr,
        /// What is missing, with a hint.
        missing: &'static str,
    },
    /// A token cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// A certificate or key cannot be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The settings of an endpoint are wrong.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// A server bound to an address.
pub struct Server {
    listener: Listener,
    server: gymkhana_http::HttpServer,
    listen: ListenSection,
    sessions: SessionTable,
}

impl Server {
    /// Reads tokens and certificates and binds the address.
    ///
    /// # Errors
    /// If the address cannot be bound, others can reach it without tokens or TLS, or a setting is wrong.
    pub fn start(sessions: SessionTable, config: &ServeFile, address: SocketAddr) -> Result<Self, StartError> {
        let listen = config.listen.clone();
        let tls = listen.tls.as_ref().map(|files| Tls::read(&files.certificate, &files.key)).transpose()?;
        if !address.ip().is_loopback() && !listen.open_to_all {
            let missing = if config.clients.is_empty() {
                "no client has a token\nhint: add sections [clients.NAME], or set listen.open_to_all"
            } else if tls.is_none() && !listen.behind_proxy {
                "tokens would be sent in the clear\nhint: set listen.tls, or listen.behind_proxy for a proxy with TLS"
            } else {
                ""
            };
            if !missing.is_empty() {
                return Err(StartError::Unprotected { address, missing });
            }
        }
        let admission = Arc::new(Admission::new(config)?);
        let router = routes(&sessions, config)?
            .layer(from_fn_with_state(admission, admit))
            .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| panicked()));
        let listener = Listener::bind(address)?;
        let hosts = HostNames::at(listener.address(), listen.behind_proxy, &listen.hosts);
        let server =
            gymkhana_http::HttpServer { refuse: refuse_host, tls, ..gymkhana_http::HttpServer::new(router, hosts) };
        Ok(Self { listener, server, listen, sessions })
    }

    /// Bound address; a requested port 0 is replaced by the assigned port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.server.tls.is_some() { "https" } else { "http" }, self.address())
    }

    /// Serves until `stop` is ready. Requests in progress are then answered, sessions are closed, and their records are
    /// written.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listener, server, listen, sessions } = self;
        listener.serve(server, listen.connections(), stop).await;
        sessions.shut_down().await;
    }
}

/// The routes of the listener and of all endpoints.
fn routes(sessions: &SessionTable, config: &ServeFile) -> Result<Router, EndpointError> {
    let own = Router::new().route("/health", get(health)).route("/metrics", get(metrics)).with_state(sessions.clone());
    Ok(endpoints::router(sessions, config)?.merge(own).fallback(nothing_here).method_not_allowed_fallback(other_method))
}

/// Where to read which addresses there are.
const ENDPOINTS_PAGE: &str =
    "hint: /tasks lists the environments; docs/reference/endpoints.md lists the addresses of each endpoint";

async fn nothing_here(uri: Uri) -> Response {
    let message = format!("there is nothing at `{}`\n{ENDPOINTS_PAGE}", uri.path());
    PlainError(ServeError::agent(ErrorKind::UnknownName, message)).into_response()
}

async fn other_method(method: Method, uri: Uri) -> Response {
    let message = format!("`{}` does not answer to {method}\n{ENDPOINTS_PAGE}", uri.path());
    let mut response = PlainError(ServeError::agent(ErrorKind::Unsupported, message)).into_response();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

async fn health(State(sessions): State<SessionTable>) -> Response {
    let (status, body) = match sessions.unwritable() {
        None => (StatusCode::OK, json!({ "status": "healthy" })),
        // The path of the reason is not for everyone.
        Some(_) => {
            let reason = "records cannot be written";
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "unhealthy", "reason": reason }))
        }
    };
    (status, axum::Json(body)).into_response()
}

async fn metrics(State(sessions): State<SessionTable>) -> Response {
    match sessions.metrics_page() {
        Ok(page) => ([("content-type", crate::metrics::CONTENT_TYPE)], page).into_response(),
        Err(error) => {
            let error = ServeError::host(ErrorKind::Failed, format!("the metrics cannot be written: {error}"));
            PlainError(error).into_response()
        }
    }
}

fn panicked() -> Response {
    PlainError(ServeError::host(ErrorKind::Failed, "the request failed: the host panicked")).into_response()
}
