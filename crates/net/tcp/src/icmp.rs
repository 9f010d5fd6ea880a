//! Errors of ICMP (RFC 792 and 4443): those about segments that this host sent, and those that
//! it sends about datagrams to ports that nobody has and about fragments of which others are missing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memory::{Packet, Pool};
use wire::ip::{Addresses, Protocol};
use wire::{Flow, icmpv4, icmpv6, ipv4, ipv6, tcp};

use crate::emit;
use crate::host;
use crate::key::Key;
use crate::rate::Rate;

/// Errors that a host sends in a second (RFC 1812, section 4.3.2.8; RFC 4443, section 2.4).
const ERRORS: u32 = 100;
/// Bytes of a packet with an error at most (RFC 1812, section 4.3.2.3; RFC 4443, section 3.1).
const LONGEST: [usize; 2] = [576, 1280];

/// How many errors were sent lately.
#[derive(Debug, Clone, Copy, Default)]
pub struct Errors {
    rate: Rate,
    /// Errors that were not sent because there were too many.
    pub limited: u64,
}

impl Errors {
    /// Whether another error may be sent, which it counts.
    fn may_send(&mut self, now_ns: i64) -> bool {
        let may_send = self.rate.allows(ERRORS, now_ns);
        self.limited += u64::from(!may_send);
        may_send
    }

    /// Tells the sender of a packet between `addresses`, which begins with the bytes `about`, what
    /// is wrong. `None` when there were too many errors, or there is no buffer.
    pub fn tell(
        &mut self,
        problem: Problem,
        addresses: Addresses,
        about: &[u8],
        now_ns: i64,
        pool: &mut Pool,
    ) -> Option<Packet> {
        if !self.may_send(now_ns) {
            return None;
        }
        let mut packet = pool.alloc()?;
        if write_error(&mut packet, problem, addresses, about).is_none() {
            pool.free(packet);
            return None;
        }
        Some(packet)
    }
}

/// What a packet's sender is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Nobody has the port of a datagram.
    PortUnreachable,
    /// Fragments did not all come in time.
    ReassemblyTime,
}

impl Problem {
    /// Its type and code over IPv4.
    fn v4(self) -> (u8, u8) {
        match self {
            Problem::PortUnreachable => (icmpv4::UNREACHABLE, icmpv4::PORT_UNREACHABLE),
            Problem::ReassemblyTime => (icmpv4::TIME_EXCEEDED, icmpv4::REASSEMBLY_TIME),
        }
    }

    /// Its type and code over IPv6.
    fn v6(self) -> (u8, u8) {
        match self {
            Problem::PortUnreachable => (icmpv6::UNREACHABLE, icmpv6::PORT_UNREACHABLE),
            Problem::ReassemblyTime => (icmpv6::TIME_EXCEEDED, icmpv6::REASSEMBLY_TIME),
        }
    }
}

/// Whether a sender's address, which is no group's, is one other host's: others are sent no
/// errors (RFC 1122, section 3.2.2). `own` are this host's addresses.
pub fn is_one_host(address: IpAddr, own: &host::Addresses) -> bool {
    match address {
        IpAddr::V4(address) => {
            let is_special = matches!(address.octets()[0], 0 | 127 | 240..);
            !is_special && own.v4.is_none_or(|own| is_host_of_prefix(address, own))
        }
        IpAddr::V6(address) => {
            !address.is_loopback()
                && own.v6.is_none_or(|own| address != own.0 && !is_any_router_of_prefix(address, own))
        }
    }
}

/// Whether an address is not the own one, and not that of a prefix as a whole or of all hosts in
/// it, which prefixes of 31 and 32 bits do not have (RFC 3021).
fn is_host_of_prefix(address: Ipv4Addr, (own, bits): (Ipv4Addr, u8)) -> bool {
    let hosts = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
    let differ = address.to_bits() ^ own.to_bits();
    let is_near = differ & !hosts == 0;
    let host = address.to_bits() & hosts;
    differ != 0 && !(is_near && bits < 31 && (host == 0 || host == hosts))
}

/// Whether an address is that of all routers of a prefix together (RFC 4291, section 2.6.1), which
/// prefixes of 127 and 128 bits do not have (RFC 6164, section 5.1).
fn is_any_router_of_prefix(address: Ipv6Addr, (own, bits): (Ipv6Addr, u8)) -> bool {
    let hosts = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
    bits < 127 && address.to_bits() == own.to_bits() & !hosts
}

/// Writes the packet of an error about another one.
fn write_error(packet: &mut Packet, problem: Problem, of: Addresses, about: &[u8]) -> Option<()> {
    let addresses = emit::addresses(of.dst(), of.src())?;
    let is_v4 = matches!(addresses, Addresses::V4 { .. });
    let (headers, longest) = match is_v4 {
        true => (ipv4::HEADER_LEN + icmpv4::HEADER_LEN, LONGEST[0]),
        false => (ipv6::HEADER_LEN + icmpv6::HEADER_LEN, LONGEST[1]),
    };
    packet.copy_from(&about[..about.len().min(longest - headers)]).ok()?;
    if is_v4 {
        packet.push_front(icmpv4::HEADER_LEN).ok()?.fill(0);
        let mut message = icmpv4::Packet::new_unchecked(&mut packet[..]);
        let (kind, code) = problem.v4();
        message.set_message_type(kind);
        message.set_code(code);
        message.fill_checksum();
        emit::push_ip(packet, addresses, Protocol::ICMP, 0).ok()
    } else {
        packet.push_front(icmpv6::HEADER_LEN).ok()?.fill(0);
        let mut message = icmpv6::Packet::new_unchecked(&mut packet[..]);
        let (kind, code) = problem.v6();
        message.set_message_type(kind);
        message.set_code(code);
        message.fill_checksum(addresses);
        emit::push_ip(packet, addresses, Protocol::ICMPV6, 0).ok()
    }
}

/// A router has dropped a segment that was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooBig {
    /// The connection that it belongs to.
    pub key: Key,
    /// The number of its first byte.
    pub sequence: u32,
    /// The longest packet that the path takes, in bytes; zero from routers that do not tell.
    pub mtu: u32,
}

impl TooBig {
    /// Reads a message in a frame whose layers are `flow`; `None` when it is another one, or
    /// not sound.
    pub fn of(flow: &Flow, frame: &[u8]) -> Option<TooBig> {
        let message = frame.get(flow.l4_offset()..flow.end).filter(|_| !flow.fragment)?;
        match (flow.addresses, flow.protocol) {
            (Addresses::V4 { .. }, Protocol::ICMP) => TooBig::of_v4(message),
            (Addresses::V6 { .. }, Protocol::ICMPV6) => TooBig::of_v6(flow.addresses, message),
            _ => None,
        }
    }

    fn of_v4(message: &[u8]) -> Option<TooBig> {
        let icmp = icmpv4::Packet::new_checked(message).ok()?;
        let is_one = icmp.message_type() == icmpv4::UNREACHABLE && icmp.code() == icmpv4::NEEDS_FRAGMENTS;
        let mtu = icmpv4::Header::of(message).filter(|_| is_one && icmp.verify_checksum())?.mtu();
        let quoted = icmp.data();
        let ip = ipv4::Header::of(quoted).filter(|ip| ip.protocol() == Protocol::TCP)?;
        let segment = quoted.get(ip.header_len()..).filter(|_| !ip.is_fragment())?;
        TooBig::about(ip.src().into(), ip.dst().into(), segment, mtu.into())
    }

    fn of_v6(addresses: Addresses, message: &[u8]) -> Option<TooBig> {
        let icmp = icmpv6::Packet::new_checked(message).ok()?;
        let is_one = icmp.message_type() == icmpv6::TOO_BIG;
        let mtu = icmpv6::Header::of(message).filter(|_| is_one && icmp.verify_checksum(addresses))?.mtu();
        let quoted = icmp.data();
        // This host sends no extension headers with TCP.
        let ip = ipv6::Header::of(quoted).filter(|ip| ip.next_header() == Protocol::TCP)?;
        TooBig::about(ip.src().into(), ip.dst().into(), quoted.get(ipv6::HEADER_LEN..)?, mtu)
    }

    fn about(local: IpAddr, remote: IpAddr, segment: &[u8], mtu: u32) -> Option<TooBig> {
        let segment = tcp::Quoted::of(segment)?;
        let key = Key { local, remote, local_port: segment.src_port(), remote_port: segment.dst_port() };
        Some(TooBig { key, sequence: segment.sequence(), mtu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SECOND_NS;

    #[test]
    fn errors_are_limited_in_each_second() {
        let mut errors = Errors::default();
        let sent = |errors: &mut Errors, now_ns| (0..300).filter(|_| errors.may_send(now_ns)).count();
        assert_eq!((sent(&mut errors, 5 * SECOND_NS), errors.limited), (100, 200));
        assert_eq!((sent(&mut errors, 5 * SECOND_NS + 9), errors.limited), (0, 500));
        assert_eq!((sent(&mut errors, 6 * SECOND_NS), errors.limited), (100, 700));
    }
}
