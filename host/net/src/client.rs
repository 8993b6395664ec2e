//! HTTP clients, without redirects of their own: for guests without proxies and only to addresses that were looked at.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, redirect};
use url::{Host, Url};

use crate::address::{Reach, reach};
use crate::secret::Secret;

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(10);
/// How long a file that is fetched may stand still.
const READING: Duration = Duration::from_secs(60);

/// The client cannot be set up: the machine's certificates cannot be read, for instance.
#[derive(Debug, thiserror::Error)]
#[error("no HTTP client can be set up; install the system's package of root certificates, such as ca-certificates")]
pub struct ClientError(#[from] reqwest::Error);

/// What every client has in common.
fn builder() -> ClientBuilder {
    // Fails if a provider is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().redirect(redirect::Policy::none()).connect_timeout(CONNECTING)
}

/// A client for what the user asks for: through the proxies that the environment names, but not to this machine.
pub fn fetching_client(here: bool) -> Result<Client, ClientError> {
    let builder = builder().read_timeout(READING);
    Ok(if here { builder.no_proxy() } else { builder }.build()?)
}

/// A client that connects only to addresses that were checked, and to no others.
pub fn checked_client(reachable: Reachable) -> Result<Client, ClientError> {
    Ok(builder().no_proxy().dns_resolver(Checked(reachable)).build()?)
}

/// Where a request may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reachable {
    /// Into the open Internet.
    pub public: bool,
    /// To this machine and private networks.
    pub private: bool,
}

/// Where such a server may be: a key is sent unencrypted only to this machine and private networks.
#[must_use]
pub fn reachable(url: &Url, key: Option<&Secret>) -> Reachable {
    Reachable { public: key.is_none() || url.scheme() == "https", private: true }
}

/// An address that nobody, or nobody without a grant, may be sent to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The address is private and the rule does not allow private addresses.
    #[error("`{0}` lies on this machine or in a private network; to allow it, set `private = true` in its rule")]
    Private(String),
    /// The address is public and the request would carry a secret without encryption.
    #[error("`{0}` lies in the open Internet, where a secret must not be sent unencrypted; use https")]
    Public(String),
    /// The address is link-local, multicast, reserved or unspecified.
    #[error("`{0}` lies where no plugin may be sent: it is link-local, multicast, reserved or none at all")]
    Never(String),
}

/// Whether a request may be sent to an address; `host` is what it is called.
pub fn check(address: IpAddr, reachable: Reachable, host: &str) -> Result<(), Forbidden> {
    match reach(address) {
        Reach::Public if reachable.public => Ok(()),
        Reach::Private if reachable.private => Ok(()),
        Reach::Public => Err(Forbidden::Public(host.to_owned())),
        Reach::Private => Err(Forbidden::Private(host.to_owned())),
        Reach::Never => Err(Forbidden::Never(host.to_owned())),
    }
}

/// The same for an address that stands in a URL itself: that is never resolved.
pub fn check_literal(url: &Url, reachable: Reachable) -> Result<(), Forbidden> {
    let address: IpAddr = match url.host() {
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    check(address, reachable, &address.to_string())
}

/// Resolves a name once and looks at every address; the client connects to these and asks nobody again.
struct Checked(Reachable);

impl Resolve for Checked {
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

/// What went wrong at the bottom of it.
pub fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.is_timeout() { "it took too long".to_owned() } else { cause.to_string() }
}
