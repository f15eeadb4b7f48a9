//! Which addresses belong to the public internet. A worker stands inside a shop's network, so a URL that leads to another address
//! could reach what only insiders may: metadata services, databases, the operator's own machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The special IPv4 blocks of the IANA registry: address, prefix length, what it is.
const V4: [(Ipv4Addr, u32, &str); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by carriers"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmark"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
    (Ipv4Addr::BROADCAST, 32, "broadcast"),
];

/// What lies within 2000::/3 and is not public all the same. All else outside 2000::/3 is refused as a whole.
const V6: [(Ipv6Addr, u32, &str); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved for protocols"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
];

/// Names for the best known blocks outside 2000::/3, so that the refusal says more than "not global".
const V6_NAMED: [(Ipv6Addr, u32, &str); 8] = [
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 32, "translated IPv4"),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 32, "discard"),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, "segment routing"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
];

/// What an address is, if it is not public.
pub(super) fn why_not_public(address: IpAddr) -> Option<&'static str> {
    // `::ffff:127.0.0.1` reaches 127.0.0.1.
    match address.to_canonical() {
        IpAddr::V4(v4) => V4
            .iter()
            .find(|(net, len, _)| prefix(v4.to_bits(), *len) == prefix(net.to_bits(), *len))
            .map(|found| found.2),
        IpAddr::V6(v6) => {
            let within = |(net, len, _): &&(Ipv6Addr, u32, &'static str)| {
                v6.to_bits() >> (128 - len) == net.to_bits() >> (128 - len)
            };
            if v6.segments()[0] & 0xe000 == 0x2000 {
                V6.iter().find(within).map(|found| found.2)
            } else {
                Some(V6_NAMED.iter().find(within).map_or("not global", |found| found.2))
            }
        }
    }
}

fn prefix(bits: u32, len: u32) -> u32 {
    bits >> (32 - len)
}
