//! `--metrics ADDRESS`: a page for Prometheus, served on one address while the run lasts.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use gymkhana_http::{ConnectionLimits, HandleShare, HostNames, HttpServer, RequestPace, StallBudget};

use super::{ReadState, exposition};
use gymkhana_orchestration::{Classify, RunResult};

/// Timeout of a client.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Limits of the connections.
const LIMITS: ConnectionLimits = ConnectionLimits {
    all: 16,
    per_network: 16,
    head_time: TIMEOUT,
    head_bytes: 8 << 10,
    stall: StallBudget::new(TIMEOUT, 4096),
    // A reader needs some at a time; a flood of strangers takes little of a run's time.
    pace: RequestPace::All(Duration::from_millis(2)),
};

/// A bound port, before it is served.
pub struct MetricsListener(gymkhana_http::Listener);

impl MetricsListener {
    /// Binds the address. Must be called in a tokio runtime.
    pub fn bind(address: SocketAddr) -> RunResult<Self> {
        let taken = || format!("--metrics {address} cannot be bound\nhint: use a local address and a free port");
        gymkhana_http::Listener::bind(address).map(Self).user_context(taken())
    }

    /// URL of the page, with the port that the system chose for port 0.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.0.address())
    }

    /// Serves the page until the future is dropped.
    pub async fn serve(self, state: ReadState) {
        let hosts = HostNames::at(self.0.address(), false, &[]);
        let limits = LIMITS.within(HandleShare::Eighth, 1);
        self.0.serve(HttpServer::new(router(state), hosts), limits, std::future::pending()).await;
    }
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
