//! The listener: one address for all doors, with authorisation, limits, TLS, metrics and an orderly end.

mod admit;
mod connection;
mod tls;
mod tokens;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_http::catch_panic::CatchPanicLayer;

use crate::config::{ListenSection, ServeFile};
use crate::doors::{self, DoorError};
use crate::error::{ErrorKind, ServeError};
use crate::plain_error::PlainError;
use crate::session::SessionTable;
use admit::{Admission, admit};
use connection::Connection;

pub use tls::TlsError;
pub use tokens::TokenError;

/// Length of the accept queue.
const BACKLOG: u32 = 1024;
/// Delay after a failed accept, such as for lack of file handles.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time that requests in progress get at the end.
const LAST_REQUESTS: Duration = Duration::from_secs(30);

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}\nhint: choose an address of this machine and a free port")]
    Listen {
        /// Address.
        address: SocketAddr,
        /// I/O error.
        source: std::io::Error,
    },
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
    /// The settings of a door are wrong.
    #[error(transparent)]
    Door(#[from] DoorError),
}

/// A server bound to an address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    tls: Option<TlsAcceptor>,
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
        let tls = listen.tls.as_ref().map(tls::acceptor).transpose()?;
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
        let admission = Arc::new(Admission::new(config, address)?);
        let router = routes(&sessions, config)?
            .layer(from_fn_with_state(admission, admit))
            .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| panicked()));
        let failed = |source| StartError::Listen { address, source };
        let listener = bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, router, tls, listen, sessions })
    }

    /// Bound address; a requested port 0 is replaced by the assigned port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// Serves until `stop` is ready. Requests in progress are then answered, sessions are closed, and their records are
    /// written.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listener, router, tls, listen, sessions, .. } = self;
        let places = Arc::new(Semaphore::new(listen.max_connections));
        let (ends, ending) = watch::channel(false);
        let mut connections = JoinSet::new();
        let connection = Connection::new(router, tls, &listen, ending);
        let mut stop = std::pin::pin!(stop);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = async {
                // The semaphore is never closed.
                let place = Arc::clone(&places).acquire_owned().await.ok();
                (place, listener.accept().await)
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                (place, accepted) = accepted => match accepted {
                    Ok((stream, _)) => {
                        let connection = connection.clone();
                        connections.spawn(async move {
                            connection.serve(stream).await;
                            drop(place);
                        });
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
                },
            }
        }
        drop(listener);
        // Without receivers there are no connections.
        let _ = ends.send(true);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_REQUESTS, all).await;
        sessions.shut_down().await;
    }
}

/// The routes of the listener and of all doors.
fn routes(sessions: &SessionTable, config: &ServeFile) -> Result<Router, DoorError> {
    let own = Router::new().route("/health", get(health)).route("/metrics", get(metrics)).with_state(sessions.clone());
    Ok(doors::router(sessions, config)?.merge(own))
}

async fn health() -> Response {
    ([("content-type", "application/json")], r#"{"status":"healthy"}"#).into_response()
}

async fn metrics(axum::extract::State(sessions): axum::extract::State<SessionTable>) -> Response {
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

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows an immediate restart on the same port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
