//! What tells flows apart: a protocol, two hosts and their ports, of a packet or of the one that
//! an ICMP error is about.

use std::cmp::Reverse;

use memory::Packet;
use memory::annotation::Header;
use wire::ip::{Ports, Protocol};
use wire::tcp::Flags;
use wire::{icmpv4, ipv4, tcp};

use graph::ip_header::{LEN, is_first_fragment, is_fragment, u32_at};

pub(super) const TCP: u8 = Protocol::TCP.0;
pub(super) const UDP: u8 = Protocol::UDP.0;
const ICMP: u8 = Protocol::ICMP.0;
/// Buckets of a new hash table of Click's.
const BUCKETS: u32 = 63;

/// A protocol and two hosts, the lower address first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Hosts {
    pub(super) protocol: u8,
    pub(super) a: u32,
    pub(super) b: u32,
}

impl Hosts {
    /// When it is its turn, among those that came as the first, second, ...: TCP before
    /// UDP, in the order in which Click's hash table has them when it is small.
    pub(super) fn rank(&self, number: u64) -> (u8, u32, Reverse<u64>) {
        let (one, other) = (self.a.swap_bytes(), self.b.swap_bytes());
        let (low, high) = (one.min(other), one.max(other));
        let hash = (low << 12).wrapping_add(high).wrapping_add(low >> 20 & 0x1F);
        (self.protocol, hash % BUCKETS, Reverse(number))
    }
}

/// What a packet says of its flow.
pub(super) struct Seen {
    pub(super) hosts: Hosts,
    /// Ports in the order of the hosts; `None` behind the first fragment.
    pub(super) ports: Option<(u16, u16)>,
    /// From the higher address to the lower.
    pub(super) flipped: bool,
    /// It is an ICMP error.
    pub(super) error: bool,
    pub(super) fragment: bool,
    pub(super) syn: bool,
}

/// The IP header inside an ICMP error.
fn embedded(icmp: &[u8]) -> Option<&[u8]> {
    let inner = icmp.get(icmpv4::HEADER_LEN..)?;
    let length = ipv4::header_len(*inner.first()?);
    (icmpv4::is_error(*icmp.first()?) && length >= LEN && inner.len() >= length).then_some(inner)
}

/// The header that tells the flow: the packet's own, or the one an error is about.
pub(super) fn telling(packet: &Packet, icmp: bool) -> Option<(&[u8], bool)> {
    let ip = packet.header(Header::Network).filter(|ip| ip.len() >= LEN)?;
    if ip[ipv4::offset::PROTOCOL] == ICMP && icmp && is_first_fragment(ip) {
        return packet.header(Header::Transport).and_then(embedded).map(|inner| (inner, true));
    }
    Some((ip, false))
}

/// What a packet says, if it is of a flow or, with `icmp`, about one.
pub(super) fn parse(packet: &Packet, icmp: bool) -> Option<Seen> {
    let (ip, error) = telling(packet, icmp)?;
    let (protocol, from, to) =
        (ip[ipv4::offset::PROTOCOL], u32_at(ip, ipv4::offset::SRC), u32_at(ip, ipv4::offset::DST));
    if !matches!(protocol, TCP | UDP) || (from, to) == (0, 0) {
        return None;
    }
    let hosts = Hosts { protocol, a: from.min(to), b: from.max(to) };
    // An error goes the way of the packet that it is about.
    let mut flipped = hosts.a != from;
    let mut ports = None;
    let transport = ip.get(ipv4::header_len(ip[0])..).unwrap_or(&[]);
    if is_first_fragment(ip) {
        let ports_there = Ports::of(transport)?;
        let (sport, dport) = (ports_there.src(), ports_there.dst());
        flipped ^= from == to && sport > dport;
        ports = Some(if flipped { (dport, sport) } else { (sport, dport) });
    }
    let fragment = is_fragment(ip);
    let syn = protocol == TCP
        && !error
        && transport.get(tcp::offset::FLAGS).is_some_and(|flags| Flags(*flags).contains(Flags::SYN));
    Some(Seen { hosts, ports, flipped, error, fragment, syn })
}
