//! Configurable limits of the server.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File handles reserved for uses other than connections.
const RESERVED_HANDLES: u64 = 128;

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
    /// Reduces the number of connections to the available file handles (two per connection: socket and file), after
    /// raising the soft limit of the process as far as the hard limit allows.
    #[must_use]
    pub(crate) fn within_file_handles(self) -> Self {
        let wanted = 2 * self.max_connections as u64 + RESERVED_HANDLES;
        let limit = getrlimit(Resource::Nofile);
        let hard = limit.maximum.unwrap_or(u64::MAX);
        let soft = limit.current.unwrap_or(u64::MAX);
        let raised = Rlimit { current: Some(wanted.min(hard)), maximum: limit.maximum };
        let available =
            if soft < wanted && setrlimit(Resource::Nofile, raised).is_ok() { wanted.min(hard) } else { soft };
        let connections = (available.saturating_sub(RESERVED_HANDLES) / 2).max(1);
        let max_connections = self.max_connections.min(usize::try_from(connections).unwrap_or(usize::MAX));
        Self { max_connections, ..self }
    }
}
