//! The keys of packets: which flow, which destination, which rule, and the frames that have
//! them.

use std::net::Ipv4Addr;

use fib::lpm::{Address, Route};
use fib::synthetic::{Random, table4};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{MacAddress, ipv4, udp};

/// Bytes of a frame, without CRC.
pub(crate) const LENGTH: usize = 60;
/// Next hops of tables of routes.
pub(super) const HOPS: u32 = 64;
/// Addresses that packets to routes go to, one after the other.
const ADDRESSES: usize = 1 << 20;
/// The seed of tables of routes.
const SEED: u64 = 1;
/// The first of the addresses that rules name.
const FIRST: u32 = 0x0A00_0001;
/// Ports of the keys' datagrams.
const PORT: u16 = 1024;

/// A frame without CRC, of one length for all keys.
pub(crate) type Frame = [u8; LENGTH];

/// What tells one packet from another.
pub(super) enum Keys {
    /// Flows between hosts of 192.168.0.0/16 and four nets.
    Flows(u64),
    /// Addresses that lie in the routes of a table.
    Addresses(Vec<u32>),
    /// Sources, one for each rule, with a destination port of its own.
    Rules(u64),
}

impl Keys {
    /// `flows`, `prefixes` or `rules`, so many.
    pub(super) fn new(name: &str, count: u64) -> Option<Keys> {
        Some(match name {
            "flows" => Keys::Flows(count),
            "prefixes" => Keys::Addresses(addresses(&routes4(count), ADDRESSES)),
            "rules" => Keys::Rules(count),
            _ => return None,
        })
    }

    /// Packets that have to come until each key came once.
    pub(super) fn round(&self) -> u64 {
        match self {
            Keys::Flows(count) | Keys::Rules(count) => *count,
            Keys::Addresses(_) => 0,
        }
    }

    /// The packet of this number: before the first round is over with the key of the number,
    /// from then on with a random one. Addresses are random from the beginning.
    pub(super) fn write(&self, number: u64, random: &mut Random, frame: &mut Frame) -> u32 {
        let key = |count: u64, random: &mut Random| match number < count {
            true => number,
            false => random.below(count),
        };
        let (from, to) = match self {
            Keys::Flows(count) => flow(key(*count, random)),
            Keys::Addresses(all) => ((FIRST, PORT), (all[number as usize % all.len()], PORT)),
            Keys::Rules(count) => {
                let rule = key(*count, random);
                ((source(rule), PORT), (FIRST, port(rule)))
            }
        };
        write(from, to, frame);
        to.0
    }
}

/// The ends of a flow.
fn flow(n: u64) -> ((u32, u16), (u32, u16)) {
    // Another number for each flow, so that neighbours part.
    let mixed = (n as u32).wrapping_mul(0x9E37_79B1);
    let from = 0xC0A8_0001 + (mixed >> 16) % 0xFFFD;
    let to = 0x0A00_0000 + ((n as u32 & 3) << 16) + 1 + (mixed >> 8 & 0x7FFF);
    ((from, 1024 + (n % 60_000) as u16), (to, 1024 + (n / 60_000) as u16))
}

/// The source address of a rule.
pub(super) fn source(rule: u64) -> u32 {
    FIRST + rule as u32
}

/// The destination port of a rule.
pub(super) fn port(rule: u64) -> u16 {
    PORT + rule as u16
}

/// A UDP datagram between two addresses and ports.
pub(crate) fn write(from: (u32, u16), to: (u32, u16), frame: &mut Frame) {
    let (link, rest) = frame.split_at_mut(ethernet::HEADER_LEN);
    let (dst, src) = (MacAddress([2, 0, 0, 0, 0, 2]), MacAddress([2, 0, 0, 0, 0, 1]));
    let repr = ethernet::Repr { dst, src, ethertype: EtherType::IPV4 };
    repr.emit(&mut ethernet::Frame::new_unchecked(link));
    let payload = rest.len() - ipv4::HEADER_LEN;
    let ends = (Ipv4Addr::from_bits(from.0), Ipv4Addr::from_bits(to.0));
    let ip = ipv4::Repr::between(ends.0, ends.1, Protocol::UDP, payload);
    ip.emit(&mut ipv4::Packet::new_unchecked(&mut *rest));
    let datagram = udp::Repr { src_port: from.1, dst_port: to.1, payload_len: payload - udp::HEADER_LEN };
    datagram.emit(&mut udp::Datagram::new_unchecked(&mut rest[ipv4::HEADER_LEN..]));
}

/// A table of so many IPv4 routes, like that of a router in the default-free zone.
pub(super) fn routes4(count: u64) -> Vec<Route<u32>> {
    table4(count as usize, HOPS, SEED)
}

/// The same of IPv6.
pub(super) fn routes6(count: u64) -> Vec<Route<u128>> {
    fib::synthetic::table6(count as usize, HOPS, SEED)
}

/// Random addresses in random routes.
pub(super) fn addresses<A: Within>(routes: &[Route<A>], count: usize) -> Vec<A> {
    let mut random = Random::new(SEED + 1);
    let mut one = || {
        let route = &routes[random.below(routes.len() as u64) as usize];
        A::within(route, random.next_u128())
    };
    (0..count).map(|_| one()).collect()
}

/// An address that can lie in a route.
pub(super) trait Within: Address {
    /// The address in `route` whose other bits are those of `bits`.
    fn within(route: &Route<Self>, bits: u128) -> Self;
}

impl Within for u32 {
    fn within(route: &Route<u32>, bits: u128) -> u32 {
        route.prefix | bits as u32 & u32::MAX.checked_shr(route.len.into()).unwrap_or(0)
    }
}

impl Within for u128 {
    fn within(route: &Route<u128>, bits: u128) -> u128 {
        route.prefix | bits & u128::MAX.checked_shr(route.len.into()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_flow_and_every_rule_is_another_and_comes_once_in_the_first_round() {
        for (keys, count) in [(Keys::Flows(200_000), 200_000), (Keys::Rules(10_000), 10_000)] {
            let (mut random, mut seen, mut frame) = (Random::new(1), HashSet::new(), [0; LENGTH]);
            for number in 0..count {
                keys.write(number, &mut random, &mut frame);
                // Addresses and ports.
                seen.insert(frame[ethernet::HEADER_LEN + 12..].to_vec());
            }
            assert_eq!(seen.len() as u64, count);
            keys.write(count, &mut random, &mut frame);
            assert!(!seen.insert(frame[ethernet::HEADER_LEN + 12..].to_vec()), "a key of the first round");
        }
    }

    #[test]
    fn addresses_lie_in_routes_of_the_table() {
        let routes = routes4(100);
        let lies_in = |address: &u32| {
            let holds = |route: &Route<u32>| Within::within(route, (*address).into()) == *address;
            routes.iter().any(holds)
        };
        assert!(addresses(&routes, 1000).iter().all(lies_in));
    }
}
