//! Configurable limits of the server.

use std::time::Duration;

use gymkhana_http::{ConnectionLimits, HandleShare, RequestPace, StallBudget};

/// Limit of a request head in bytes.
const MAX_HEAD: usize = 64 << 10;

/// Limits of the server.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Sustained requests per second, per token or per network of anonymous clients.
    pub requests_per_second: f64,
    /// Burst of requests, per token or per network of anonymous clients.
    pub request_burst: f64,
    /// Sustained changes per minute and token.
    pub changes_per_minute: f64,
    /// Burst of changes per token.
    pub change_burst: f64,
    /// Burst of invalid tokens per network; one per minute is allowed in the long run.
    pub invalid_token_burst: f64,
    /// Maximum number of concurrent connections.
    pub max_connections: usize,
    /// Maximum number of concurrent connections per network; ignored behind a proxy.
    pub max_connections_per_network: usize,
    /// Maximum number of concurrent uploads per token.
    pub max_uploads_per_token: usize,
    /// Maximum number of concurrent folder changes; each holds a component in memory.
    pub max_concurrent_changes: usize,
    /// Timeout of a request head, and of the next request on a connection.
    pub header_timeout: Duration,
    /// Stall budget of a client that sends or receives a body.
    pub stall_budget: Duration,
    /// Rate in bytes per second at which a client preserves its stall budget.
    pub min_bytes_per_second: u64,
    /// Trusts the last entry of `X-Forwarded-For`: all clients connect through the operator's reverse proxy.
    pub behind_proxy: bool,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            requests_per_second: 500.0,
            request_burst: 5000.0,
            changes_per_minute: 10.0,
            change_burst: 60.0,
            invalid_token_burst: 10.0,
            max_connections: 4096,
            max_connections_per_network: 256,
            max_uploads_per_token: 16,
            max_concurrent_changes: 4,
            header_timeout: Duration::from_secs(10),
            stall_budget: Duration::from_secs(30),
            min_bytes_per_second: 4096,
            behind_proxy: false,
        }
    }
}

impl ServerLimits {
    /// Limits of the connections; each needs a socket and a file.
    pub(crate) fn connections(&self) -> ConnectionLimits {
        let per_network = if self.behind_proxy { self.max_connections } else { self.max_connections_per_network };
        let limits = ConnectionLimits {
            all: self.max_connections,
            per_network,
            head_time: self.header_timeout,
            head_bytes: MAX_HEAD,
            stall: self.stall(),
            pace: RequestPace::Unlimited,
        };
        limits.within(HandleShare::Half, 2)
    }

    /// Stall budget of one client.
    pub(crate) fn stall(&self) -> StallBudget {
        StallBudget::new(self.stall_budget, self.min_bytes_per_second)
    }
}
