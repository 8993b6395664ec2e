//! HTTP server of a plugin registry: serves the files of a registry folder and accepts releases from publishers.
//!
//! All readable files are files of the folder, which any static web server can serve; this server adds publishing. It
//! trusts no client: tokens are bound to namespaces, and every publishing rule is applied again. It speaks plain HTTP; on
//! the public Internet it belongs behind a reverse proxy that terminates TLS.
//!
//! Routing, body limits, panic isolation and request spans come from axum and tower-http, connections from
//! `gymkhana_http`. The rate limits per token and network are the server's own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod changes;
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

pub use limits::ServerLimits;
pub use publish_tokens::{PublishTokens, TokenFileError};
pub use request_log::{RequestLog, RequestLogEntry};
pub use server::{RegistryServer, ServerStartError};
