//! What a listener serves.

use axum::Router;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;

use crate::host_name::HostNames;
#[cfg(feature = "tls")]
use crate::tls::Tls;

/// Writes a refusal for a request to a path, in the form of the server.
pub type Refuse = fn(&str, StatusCode, &str) -> Response;

/// What a listener serves.
#[derive(Clone)]
pub struct HttpServer {
    /// Routes. Requests have the extension [`crate::Peer`].
    pub router: Router,
    /// Names of the server.
    pub hosts: HostNames,
    /// Form of refusals.
    pub refuse: Refuse,
    /// Certificate and key; plain HTTP without them.
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
}

impl HttpServer {
    /// A server without TLS, whose refusals are plain text.
    #[must_use]
    pub fn new(router: Router, hosts: HostNames) -> Self {
        Self {
            router,
            hosts,
            refuse: |_, status, message| (status, format!("{message}\n")).into_response(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}
