//! Addresses of clients, connected directly or through a reverse proxy.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper::HeaderMap;

/// Request extension: the address at the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Network of an address: an IPv6 customer usually receives a /64 and can use any address in it.
#[must_use]
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

/// Client address reported by the reverse proxy: the last entry of the last `x-forwarded-for` header. Earlier entries
/// come from the client and are not trustworthy.
#[must_use]
pub fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let value = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    let last = value.rsplit(',').next()?.trim();
    last.parse().ok().or_else(|| Some(last.parse::<SocketAddr>().ok()?.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_entry_of_the_last_header_is_used() {
        let address = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            forwarded_for(&headers).map(|address| address.to_string())
        };
        assert_eq!(address(&["10.0.0.1"]).as_deref(), Some("10.0.0.1"));
        assert_eq!(address(&["1.2.3.4, 5.6.7.8 , 10.0.0.2"]).as_deref(), Some("10.0.0.2"));
        assert_eq!(address(&["1.2.3.4", "10.0.0.3:4711"]).as_deref(), Some("10.0.0.3"));
        assert_eq!(address(&["2001:db8::1"]).as_deref(), Some("2001:db8::1"));
        assert_eq!(address(&["[2001:db8::1]:80"]).as_deref(), Some("2001:db8::1"));
        for unusable in [&[][..], &["unknown"], &["1.2.3.4,"]] {
            assert_eq!(address(unusable), None, "{unusable:?}");
        }
    }

    #[test]
    fn mapped_addresses_are_ipv4_and_ipv6_networks_are_64_bits() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("::ffff:127.0.0.1"), "127.0.0.1");
        assert_eq!(network("2001:db8:0:1:ffff::1"), "2001:db8:0:1::");
    }
}
