//! Classification of IP addresses: public, private, or never allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Public Internet.
    Public,
    /// This machine or a private network: allowed only by an explicit grant.
    Private,
    /// Link-local (cloud metadata services), multicast or reserved: never allowed.
    Never,
}

use Reach::{Never, Private, Public};

/// Metadata services of clouds, which give credentials to every program on a machine, and their operators. They are
/// refused although some lie in public or private networks; those in link-local networks need no entry.
const METADATA: [(IpAddr, u32, &str); 6] = [
    (IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), 32, "Microsoft Azure"),
    (IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), 32, "Alibaba Cloud"),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0)), 32, "Amazon Web Services"),
    (IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), 128, "Google Cloud"),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)), 128, "Oracle Cloud"),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)), 128, "Scaleway"),
];

/// IPv4 networks that are not public, from IANA's special-purpose registry: network, prefix length, class.
const V4: [(Ipv4Addr, u32, Reach); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, Never),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Private),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Private),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Never),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Never),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Never),
    (Ipv4Addr::new(192, 31, 196, 0), 24, Never),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Never),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Never),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Never),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Never),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Never),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Never),
];

/// IPv6 networks; the first match applies, and all other addresses are reserved.
const V6: [(Ipv6Addr, u32, Reach); 8] = [
    (Ipv6Addr::LOCALHOST, 128, Private),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, Private),
    // Protocol assignments, including Teredo, whose embedded addresses cannot be checked.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, Never),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, Never),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, Never),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, Never),
    (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, Public),
    (Ipv6Addr::UNSPECIFIED, 0, Never),
];

/// IPv6 networks with an embedded IPv4 address: network, prefix length, first bit of the embedded address.
const EMBEDDED_V4: [(Ipv6Addr, u32, u32); 4] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 96),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 96, 96),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, 96),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 16),
];

/// Returns the class of an address; an embedded IPv4 address determines the class of its IPv6 address.
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    if metadata_service(address).is_some() {
        return Never;
    }
    match embedded(address) {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

/// Returns the operator of the metadata service at an address, if there is one outside of link-local networks.
#[must_use]
pub(crate) fn metadata_service(address: IpAddr) -> Option<&'static str> {
    let address = embedded(address);
    let is_there = |network: IpAddr, length: u32| match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => inside_v4(address, network, length),
        (IpAddr::V6(address), IpAddr::V6(network)) => inside_v6(address, network, length),
        _ => false,
    };
    METADATA.iter().find(|(network, length, _)| is_there(*network, *length)).map(|(_, _, operator)| *operator)
}

/// Returns the IPv4 address that an IPv6 address embeds; other addresses are unchanged.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if v6 == Ipv6Addr::LOCALHOST || v6 == Ipv6Addr::UNSPECIFIED {
        return address;
    }
    let network = EMBEDDED_V4.iter().find(|(network, length, _)| inside_v6(v6, *network, *length));
    network.map_or(address, |(_, _, begins)| Ipv4Addr::from_bits((v6.to_bits() >> (96 - begins)) as u32).into())
}

fn inside_v4(address: Ipv4Addr, network: Ipv4Addr, length: u32) -> bool {
    (address.to_bits() ^ network.to_bits()).checked_shr(32 - length).unwrap_or(0) == 0
}

fn inside_v6(address: Ipv6Addr, network: Ipv6Addr, length: u32) -> bool {
    (address.to_bits() ^ network.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let network = V4.iter().find(|(network, length, _)| inside_v4(address, *network, *length));
    network.map_or(Public, |(_, _, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let network = V6.iter().find(|(network, length, _)| inside_v6(address, *network, *length));
    network.map_or(Never, |(_, _, reach)| *reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_class_of_the_registries() {
        for (reached, addresses) in [
            (
                Public,
                "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.255.255 172.32.0.1 223.255.255.255 2606:4700::1111",
            ),
            (Public, "::ffff:1.1.1.1 64:ff9b::808:808 2002:808:808::1 2001:4860:4860::8888"),
            (
                Private,
                "127.0.0.1 127.255.255.255 10.1.2.3 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.127.255.255",
            ),
            (
                Private,
                "::1 fc00::1 fdff::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::192.168.0.1 64:ff9b::7f00:1 2002:a00:1::1",
            ),
            (
                Never,
                "0.0.0.0 0.1.2.3 169.254.169.254 192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 224.0.0.1 239.1.1.1",
            ),
            (
                Never,
                "240.0.0.1 255.255.255.255 :: fe80::1 ff02::1 fec0::1 2001:db8::1 2001::1 3fff::1 64:ff9b:1::1 100::1",
            ),
            (Never, "::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 5f00::1 4000::1"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(reach(address.parse().unwrap()), reached, "{address}");
            }
        }
    }
    #[test]
    fn metadata_services_are_refused_and_their_neighbours_are_not() {
        for (address, operator) in [
            ("168.63.129.16", "Microsoft Azure"),
            ("::ffff:168.63.129.16", "Microsoft Azure"),
            ("100.100.100.200", "Alibaba Cloud"),
            ("64:ff9b::100.100.100.200", "Alibaba Cloud"),
            ("fd00:ec2::254", "Amazon Web Services"),
            ("fd00:ec2::23", "Amazon Web Services"),
            ("fd20:ce::254", "Google Cloud"),
            ("fd00:c1::a9fe:a9fe", "Oracle Cloud"),
            ("fd00:42::42", "Scaleway"),
        ] {
            let address = address.parse().unwrap();
            assert_eq!((reach(address), metadata_service(address)), (Never, Some(operator)), "{address}");
        }
        for (address, reached) in [
            ("168.63.129.17", Public),
            ("100.100.100.201", Private),
            ("fd00:ec3::254", Private),
            ("fd20:ce::255", Private),
            ("169.254.169.254", Never),
        ] {
            let address = address.parse().unwrap();
            assert_eq!((reach(address), metadata_service(address)), (reached, None), "{address}");
        }
    }
}
