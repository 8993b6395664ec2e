//! HTTP clients that do not follow redirects; those for plugins ignore proxies and connect only to checked addresses.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{ClientBuilder, redirect};

use crate::{Reachable, check};

pub use ::http::{Method, StatusCode, header};
pub use reqwest::{Client, Error, RequestBuilder, Response};

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout between two reads of a download.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The client cannot be set up, for example because the root certificates cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up an HTTP client\nhint: install the system's root certificates (package ca-certificates)")]
pub struct ClientError(#[from] Error);

/// Time after which the client gave a server up, of an error that is a timeout.
pub(crate) fn bound_of(error: &Error) -> Duration {
    if error.is_connect() { CONNECT_TIMEOUT } else { READ_TIMEOUT }
}

/// Common settings of all clients.
fn builder() -> ClientBuilder {
    // This fails if a provider is already installed, which suffices.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().redirect(redirect::Policy::none()).connect_timeout(CONNECT_TIMEOUT)
}

/// Creates a client for downloads that the user requests. It uses the proxies of the environment, except for servers on
/// this machine (`here`).
///
/// # Errors
/// If the client cannot be set up.
pub fn fetching_client(here: bool) -> Result<Client, ClientError> {
    let builder = builder().read_timeout(READ_TIMEOUT);
    Ok(if here { builder.no_proxy() } else { builder }.build()?)
}

/// Creates a client that connects only to checked addresses.
///
/// # Errors
/// If the client cannot be set up.
pub fn checked_client(reachable: Reachable) -> Result<Client, ClientError> {
    Ok(builder().no_proxy().dns_resolver(CheckingResolver(reachable)).build()?)
}

/// Resolver that checks every address of a name; the client connects to the checked addresses without resolving again.
struct CheckingResolver(Reachable);

impl Resolve for CheckingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reachable = self.0;
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &addresses {
                check(address.ip(), reachable, name.as_str())?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
