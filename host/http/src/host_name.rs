//! The name by which a request addresses a server, and whether the server has that name.
//!
//! A web page whose name was made to lead to this machine would otherwise have the server's own origin.

use std::net::{IpAddr, SocketAddr};

use hyper::Version;
use hyper::header::HOST;
use hyper::http::request::Parts;

/// Names of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostNames {
    /// Every name: other machines reach the server, by names that it does not know.
    #[default]
    Any,
    /// Names of this machine, and these.
    Local(Vec<String>),
}

/// Why a request's `Host` is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongHost {
    /// There is none, or more than one, or it is not text.
    Malformed,
    /// The server has other names.
    Foreign,
}

impl HostNames {
    /// Names of a server at `address`: those of this machine and `others` if only this machine reaches it directly.
    #[must_use]
    pub fn at(address: SocketAddr, behind_proxy: bool, others: &[String]) -> Self {
        if address.ip().is_loopback() && !behind_proxy { Self::Local(others.to_vec()) } else { Self::Any }
    }

    /// Checks that a request has one host, which is a name of the server. HTTP/1.0 knows requests without one.
    pub(crate) fn check(&self, head: &Parts) -> Result<(), WrongHost> {
        let hosts: Vec<_> = head.headers.get_all(HOST).iter().collect();
        let header = match hosts[..] {
            [] if head.version == Version::HTTP_10 => None,
            [host] => Some(host.to_str().map_err(|_| WrongHost::Malformed)?),
            _ => return Err(WrongHost::Malformed),
        };
        let target = head.uri.authority().map(|authority| authority.as_str());
        let Self::Local(others) = self else { return Ok(()) };
        let is_own = |host: &str| {
            let host = without_port(host);
            is_loopback(host) || others.iter().any(|other| other.eq_ignore_ascii_case(host))
        };
        // A page cannot send requests without a host.
        if header.into_iter().chain(target).all(is_own) { Ok(()) } else { Err(WrongHost::Foreign) }
    }
}

/// The host of a host and port.
#[must_use]
pub fn without_port(authority: &str) -> &str {
    let end = if authority.starts_with('[') { authority.find(']') } else { authority.find(':') };
    authority[..end.unwrap_or(authority.len())].trim_start_matches('[')
}

/// Whether a host is this machine.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: Version, uri: &str, hosts: &[&str]) -> Parts {
        let mut request = hyper::Request::builder().version(version).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn requests_have_one_host() {
        let check = |version, hosts: &[&str]| HostNames::Any.check(&head(version, "/", hosts));
        assert_eq!(check(Version::HTTP_11, &["example.org"]), Ok(()));
        assert_eq!(check(Version::HTTP_10, &[]), Ok(()));
        assert_eq!(check(Version::HTTP_11, &[]), Err(WrongHost::Malformed));
        assert_eq!(check(Version::HTTP_11, &["a", "a"]), Err(WrongHost::Malformed));
        assert_eq!(check(Version::HTTP_10, &["a", "b"]), Err(WrongHost::Malformed));
    }

    #[test]
    fn a_local_server_has_the_names_of_this_machine() {
        let names = HostNames::at("127.0.0.1:80".parse().unwrap(), false, &["host.example".to_owned()]);
        let check = |host: &str| names.check(&head(Version::HTTP_11, "/", &[host]));
        for own in ["127.0.0.1:80", "localhost", "LOCALHOST:1", "[::1]:80", "127.9.9.9", "Host.Example:80"] {
            assert_eq!(check(own), Ok(()), "{own}");
        }
        for other in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]", "[::1"]
        {
            assert_eq!(check(other).is_ok(), other == "[::1", "{other}");
        }
        let absolute = names.check(&head(Version::HTTP_11, "http://evil.example/", &["localhost"]));
        assert_eq!(absolute, Err(WrongHost::Foreign));
    }

    #[test]
    fn other_servers_have_every_name() {
        for (address, behind_proxy) in [("0.0.0.0:80", false), ("127.0.0.1:80", true)] {
            assert_eq!(HostNames::at(address.parse().unwrap(), behind_proxy, &[]), HostNames::Any);
        }
    }
}
