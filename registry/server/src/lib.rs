//! HTTP server of a plugin registry: serves the files of a registry folder and accepts releases from publishers.
//!
//! All readable files are files of the folder, which any static web server can serve; this server adds publishing. It
//! trusts no client: tokens are bound to namespaces, and every publishing rule is applied again. It speaks plain HTTP; on
//! the public Internet it belongs behind a reverse proxy that terminates TLS.
//!
//! Routing, body limits, panic isolation and request spans come from axum and tower-http. Three limits are our own,
//! because those crates do not have them: the stall budget of a connection (`stall_timeout`), the rate limits per token
//! and network (`rate_limit`), and the number of connections per network (`connection_limit`).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod changes;
mod client_address;
mod connection_limit;
mod files;
mod http_error;
mod limits;
mod publish_tokens;
mod rate_limit;
mod release_head;
mod request_log;
mod routes;
mod server;
mod service;
mod stall_timeout;

pub use limits::ServerLimits;
pub use publish_tokens::{PublishTokens, TokenError};
pub use request_log::{RequestLog, RequestLogEntry};
pub use server::{RegistryServer, ServeError};
