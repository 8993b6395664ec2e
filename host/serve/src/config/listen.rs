//! `[listen]` and `[clients.NAME]`: the address, its limits, and who may use it.

use std::path::PathBuf;
use std::time::Duration;

use gymkhana_http::{ConnectionLimits, HandleShare, RequestPace, StallBudget};
use gymkhana_orchestration::RunResult;
use serde::{Deserialize, Serialize};

use super::limits::within;
use crate::body::BodyLimits;

/// Limit of a request head in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Rate at which a client that takes its answer keeps its time.
const MIN_BYTES_PER_SECOND: u64 = 4096;

/// `[listen]`: settings of the listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenSection {
    /// Certificate and key; plain HTTP without them.
    pub tls: Option<TlsSection>,
    /// Whether a proxy in front of the server ends TLS.
    pub behind_proxy: bool,
    /// Whether others may connect without a token and without TLS, such as inside a container.
    pub open_to_all: bool,
    /// Origins beside those of this machine whose web pages may send requests, such as `https://example.org`.
    pub origins: Vec<String>,
    /// Names of the server beside those of this machine, under which requests may reach a loopback address.
    pub hosts: Vec<String>,
    /// Connections at the same time, 1 to 1,000,000, and at most half of the process's file handles. For more, those that
    /// wait for a request are closed; three quarters may be from one address.
    pub max_connections: usize,
    /// Size of a request in KiB, 1 to 1,048,576.
    pub body_kib: usize,
    /// Time in seconds for the head of a request, for its body, and for a stalled answer, 0.1 to 3600.
    pub client_seconds: f64,
}

impl Default for ListenSection {
    fn default() -> Self {
        Self {
            tls: None,
            behind_proxy: false,
            open_to_all: false,
            origins: vec![],
            hosts: vec![],
            max_connections: 4096,
            body_kib: 8192,
            client_seconds: 30.0,
        }
    }
}

impl ListenSection {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first value out of range.
    pub(crate) fn check(&self) -> RunResult<()> {
        within("listen.max_connections", self.max_connections, 1..=1_000_000)?;
        within("listen.body_kib", self.body_kib, 1..=1_048_576)?;
        within("listen.client_seconds", self.client_seconds, 0.1..=3600.0)
    }

    pub(crate) fn body(&self) -> BodyLimits {
        BodyLimits { bytes: self.body_kib << 10, time: self.client_time() }
    }

    /// Limits of the connections. One network cannot take all of them, unless it is that of a proxy.
    pub(crate) fn connections(&self) -> ConnectionLimits {
        let all = self.max_connections;
        let limits = ConnectionLimits {
            all,
            per_network: if self.behind_proxy { all } else { all - all / 4 },
            head_time: self.client_time(),
            head_bytes: MAX_HEAD,
            stall: StallBudget::new(self.client_time(), MIN_BYTES_PER_SECOND),
            pace: RequestPace::Unlimited,
        };
        limits.within(HandleShare::Half, 1)
    }

    fn client_time(&self) -> Duration {
        Duration::from_secs_f64(self.client_seconds)
    }
}

/// `listen.tls`: PEM files, whose paths are relative to the working directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// Certificate chain, the server's own first.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// `[clients.NAME]`: a client and the environment variable with its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSection {
    /// Environment variable of the server with the token that the client sends as `authorization: Bearer TOKEN`.
    pub token_env: String,
}
