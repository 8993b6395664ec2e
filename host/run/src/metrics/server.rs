//! `--metrics ADDRESS`: a page for Prometheus, served on one address while the run lasts.
//!
//! The server answers one request per connection and then closes it. A client can hold a connection and a few
//! kilobytes for at most [`TIMEOUT`]. [`MAX_CONNECTIONS`] are served concurrently; others wait in the listen queue.
//! Connections are served with hyper directly, because `axum::serve` has none of these limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::{ReadState, exposition};
use gymkhana_orchestration::{Classify, RunResult};

/// Timeout of a connection.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Limit of a connection's read buffer in bytes, and thereby of a request head. hyper accepts no smaller one.
const MAX_HEAD: usize = 8 << 10;

/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 16;

/// Delay after a failed accept, such as for lack of file handles.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A bound port, before it is served.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds the address.
    pub async fn bind(address: SocketAddr) -> RunResult<Self> {
        let taken = || format!("--metrics {address} cannot be bound\nhint: use a local address and a free port");
        let listener = TcpListener::bind(address).await.user_context(taken())?;
        let address = listener.local_addr().user_context(taken())?;
        Ok(Self { listener, address })
    }

    /// URL of the page, with the port that the system chose for port 0.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Serves the page until the future is dropped.
    pub async fn serve(self, state: ReadState) {
        let router = router(state);
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let router = router.clone();
                    connections.spawn(async move {
                        serve_connection(stream, router).await;
                        drop(permit);
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    }
}

/// Answers the request of a connection. A client that disconnects or times out affects only itself.
async fn serve_connection(stream: TcpStream, router: Router) {
    let route = service_fn(|request: Request<Incoming>| router.clone().oneshot(request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(TIMEOUT).max_buf_size(MAX_HEAD).keep_alive(false);
    let connection = builder.serve_connection(TokioIo::new(stream), route);
    let _ = tokio::time::timeout(TIMEOUT, connection).await;
}

fn router(state: ReadState) -> Router {
    Router::new()
        .route("/metrics", get(page))
        .route("/", get(async || "the metrics of this run are at /metrics\n"))
        .fallback(async || (StatusCode::NOT_FOUND, "not found: the page is /metrics\n"))
        .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n"))
        .with_state(state)
}

async fn page(State(state): State<ReadState>) -> Result<impl IntoResponse, (StatusCode, String)> {
    match state().exposition() {
        Ok(text) => Ok(([(CONTENT_TYPE, exposition::CONTENT_TYPE)], text)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the page: {error}\n"))),
    }
}

#[cfg(test)]
mod tests;
