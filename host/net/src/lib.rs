//! HTTP clients of the host: address policy, rules of allow-lists, secrets, retries and a JSON client.
//!
//! Addresses are validated after DNS resolution and the connection is made to the validated address, so DNS rebinding
//! cannot bypass the filter. Redirects are left to the caller, which checks every target.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
#[cfg(feature = "client")]
pub mod http;
// Without HTTP clients.
#[cfg(not(feature = "client"))]
#[path = "http_left_out.rs"]
pub mod http;
mod json_client;
mod redactor;
mod retry;
mod rule;
mod secret;

use std::net::IpAddr;

use url::{Host, Url};

use crate::address::metadata_service;
use crate::http::Error;

pub use address::{Reach, reach};
pub use http::{ClientError, checked_client, fetching_client};
pub use json_client::{JsonClient, JsonClientError, RawBody, Received, Repeated, RequestPolicy, StatusSink};
pub use retry::{Failed, GaveUp, Retry};
pub use rule::{Rule, RuleError, SecretHeader};
pub use secret::Secret;

/// Classes of addresses that a request may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reachable {
    /// The public Internet.
    pub public: bool,
    /// This machine and private networks.
    pub private: bool,
}

/// Returns the addresses allowed for a server: an unencrypted key is sent only to this machine and private networks.
#[must_use]
pub fn reachable(url: &Url, key: Option<&Secret>) -> Reachable {
    Reachable { public: key.is_none() || url.scheme() == "https", private: true }
}

/// An address that a request may not reach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The address is private and the rule does not allow private addresses.
    #[error("`{0}` is on this machine or in a private network; to allow it, set `private = true` in its rule")]
    Private(String),
    /// The address is public and the request would carry a secret without encryption.
    #[error("`{0}` is in the public Internet, where a secret must not be sent unencrypted; use https")]
    Public(String),
    /// The address is a cloud's metadata service, which gives away credentials.
    #[error("`{host}` is not allowed for plugins: it is the metadata service of {operator}")]
    Metadata {
        /// Name or address.
        host: String,
        /// Operator of the service.
        operator: &'static str,
    },
    /// The address is link-local, multicast, reserved or unspecified.
    #[error("`{0}` is not allowed for plugins: it is link-local, multicast, reserved or unspecified")]
    Never(String),
}

/// Checks an address; errors name it `host`.
///
/// # Errors
/// If a request may not reach it.
pub fn check(address: IpAddr, reachable: Reachable, host: &str) -> Result<(), Forbidden> {
    match reach(address) {
        Reach::Public if reachable.public => Ok(()),
        Reach::Private if reachable.private => Ok(()),
        Reach::Public => Err(Forbidden::Public(host.to_owned())),
        Reach::Private => Err(Forbidden::Private(host.to_owned())),
        Reach::Never => Err(match metadata_service(address) {
            Some(operator) => Forbidden::Metadata { host: host.to_owned(), operator },
            None => Forbidden::Never(host.to_owned()),
        }),
    }
}

/// Checks a literal address in a URL, which is never resolved.
///
/// # Errors
/// If a request may not reach it.
pub fn check_literal(url: &Url, reachable: Reachable) -> Result<(), Forbidden> {
    let address: IpAddr = match url.host() {
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    check(address, reachable, &address.to_string())
}

/// Returns the innermost cause of an error.
pub fn root_cause(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match error.is_timeout() {
        true => format!("it did not answer for {} s", http::bound_of(error).as_secs()),
        false => cause.to_string(),
    }
}
