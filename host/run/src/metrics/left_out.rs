//! A build without the page for Prometheus.

use std::net::SocketAddr;

use gymkhana_orchestration::{RunError, RunResult};

use super::ReadState;

/// No port: a value of this type does not exist.
pub enum MetricsListener {}

impl MetricsListener {
    /// Refuses the address.
    pub fn bind(address: SocketAddr) -> RunResult<Self> {
        Err(RunError::left_out(format!("--metrics {address} cannot be served"), "the page for Prometheus"))
    }

    /// URL of the page.
    pub fn url(&self) -> String {
        match *self {}
    }

    /// Serves nothing.
    #[allow(clippy::unused_async)]
    pub async fn serve(self, _state: ReadState) {
        match self {}
    }
}
