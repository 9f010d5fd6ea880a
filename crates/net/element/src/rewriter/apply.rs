//! Packets rewritten: addresses, ports, sequence numbers, and all checksums by what
//! changed (RFC 1624), so that what was wrong stays wrong.

use std::net::Ipv4Addr;

use memory::Packet;
use wire::icmpv4::offset::CHECKSUM;
use wire::ip::{Ports, Protocol, checksum_offset};
use wire::tcp::{self, Flags};
use wire::{checksum, icmpv4, ipv4, option_list, tcp_option};

use super::flow::{DATA, DONE, Flow, Rare, Tracking};
use super::flow_id::FlowId;
use super::kind::{DCCP, RewriterKind, TCP, UDP, addresses};
use super::sequence::Shift;
use graph::annotation::{AGGREGATE, PacketAnnotations};
use graph::ip_header::{self, u16_at, u32_at};

/// Which annotations follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Annotate {
    /// The next hop's address.
    pub destination: bool,
    /// A byte of a flow's first packet, for those that come back.
    pub reply: Option<usize>,
    /// The aggregate is the flow's number.
    pub aggregate: bool,
}

/// Writes a word, and tells a checksum.
fn set_u16(bytes: &mut [u8], at: usize, value: u16, sum: &mut u16) {
    *sum = changed(*sum, u16_at(bytes, at), value);
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// A checksum stays what it is when nothing changes.
pub(super) fn changed(sum: u16, from: u16, to: u16) -> u16 {
    if from == to { sum } else { checksum::update(sum, from, to) }
}

pub(super) fn changed_u32(sum: u16, from: u32, to: u32) -> u16 {
    changed(changed(sum, (from >> 16) as u16, (to >> 16) as u16), from as u16, to as u16)
}

/// Writes the addresses of an IP header, its checksum with them.
pub(super) fn set_addresses(ip: &mut [u8], (src, dst): (u32, u32)) {
    let Some(mut header) = ipv4::Header::of_mut(ip) else { return };
    let (from, to) = (header.src().to_bits(), header.dst().to_bits());
    let sum = changed_u32(changed_u32(header.checksum(), from, src), to, dst);
    header.set_src(src.into());
    header.set_dst(dst.into());
    header.set_checksum(sum);
}

/// Rewrites a packet of a flow.
pub(crate) fn apply(
    packet: &mut Packet,
    kind: RewriterKind,
    (flow, rare): (&mut Flow, &mut Rare),
    back: bool,
    annotate: Annotate,
) {
    let to = flow.rewritten(back);
    let Some((ip, payload)) = ip_header::split_mut(packet) else { return };
    let (src, dst) = addresses(ip);
    // A rewriter of source addresses has no more than one of both.
    let new = match kind {
        RewriterKind::Address if back => (src, to.dst),
        RewriterKind::Address => (to.src, dst),
        _ => (to.src, to.dst),
    };
    set_addresses(ip, new);
    if ip_header::is_first_fragment(ip) {
        let change = |sum| changed_u32(changed_u32(sum, src, new.0), dst, new.1);
        transport(ip, payload, kind, (flow, rare), back, &change);
    }
    if annotate.destination && (kind != RewriterKind::Address || back) {
        packet.set_dst_ip(Ipv4Addr::from_bits(new.1));
    }
    if annotate.aggregate {
        packet.set_u32_at(AGGREGATE, rare.place() as u32);
    }
    if let Some(at) = annotate.reply.filter(|_| back) {
        packet.set_u8_at(at, flow.annotation);
    }
}

/// Rewrites what follows the IP header. `addresses` tells a checksum of the pseudo
/// header.
fn transport(
    ip: &[u8],
    payload: &mut [u8],
    kind: RewriterKind,
    (flow, rare): (&mut Flow, &mut Rare),
    back: bool,
    addresses: &dyn Fn(u16) -> u16,
) {
    let (to, protocol) = (flow.rewritten(back), ip_header::protocol(ip).0);
    match kind {
        RewriterKind::Ping => return ping(payload, if back { to.dst_port } else { to.src_port }),
        RewriterKind::Address | RewriterKind::Pair => return resum(protocol, payload, addresses),
        _ if flow.tracking == Tracking::Tcp && payload.len() < tcp::offset::URGENT => return,
        _ => {}
    }
    let Some(ports) = Ports::of(payload) else { return };
    let from = [ports.src(), ports.dst()];
    resum(protocol, payload, &|sum| ports_sum(from, to, addresses(sum)));
    if let Some(mut ports) = Ports::of_mut(payload) {
        ports.set_src(to.src_port);
        ports.set_dst(to.dst_port);
    }
    match flow.tracking {
        Tracking::Tcp => tcp(ip, payload, (flow, rare), back),
        _ => datagram(flow, back),
    }
}

fn ports_sum([src, dst]: [u16; 2], to: FlowId, sum: u16) -> u16 {
    changed(changed(sum, src, to.src_port), dst, to.dst_port)
}

/// Where a transport header's checksum is, if it has one.
pub(super) fn sum_at(protocol: u8, payload: &[u8]) -> Option<usize> {
    if !matches!(protocol, TCP | UDP | DCCP) {
        return None;
    }
    let at = checksum_offset(Protocol(protocol))?;
    let field = payload.get(at..)?.first_chunk::<2>()?;
    (protocol != UDP || *field != [0; 2]).then_some(at) // zero is none (RFC 768)
}

/// Changes a transport header's checksum, if it has one.
pub(super) fn resum(protocol: u8, payload: &mut [u8], change: &dyn Fn(u16) -> u16) {
    let Some(at) = sum_at(protocol, payload) else { return };
    let sum = change(u16_at(payload, at));
    let sum = if protocol == UDP { checksum::never_zero(sum) } else { sum };
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn ping(payload: &mut [u8], identifier: u16) {
    let Some(start) = payload.first_chunk_mut::<{ icmpv4::offset::SEQUENCE }>() else { return };
    let mut sum = u16_at(start, CHECKSUM);
    set_u16(start, icmpv4::offset::IDENTIFIER, identifier, &mut sum);
    payload[CHECKSUM..CHECKSUM + 2].fill(0);
    if sum == 0 && payload.iter().all(|byte| *byte == 0) {
        sum = checksum::of(payload); // of nothing but zeros (RFC 1624, 3)
    }
    payload[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Three packets, one of them back, make a stream.
fn datagram(flow: &mut Flow, back: bool) {
    flow.marks |= u8::from(back);
    if flow.marks < 6 {
        flow.marks += 2;
    }
}

fn tcp(ip: &[u8], segment: &mut [u8], (flow, rare): (&mut Flow, &mut Rare), back: bool) {
    let offset = tcp::header_len(segment[tcp::offset::DATA_OFFSET]);
    let flags = Flags(segment[tcp::offset::FLAGS]);
    let has_data = ip.len() + offset < ip_header::total_len(ip);
    if flags.contains(Flags::RST) {
        flow.marks |= 3 * DONE;
    } else if flags.contains(Flags::FIN) {
        flow.marks |= DONE << u8::from(back);
    } else if flags.contains(Flags::SYN) || has_data {
        flow.marks &= !(DONE << u8::from(back));
    }
    if has_data {
        flow.marks |= DATA << u8::from(back);
    }
    let is_whole = (tcp::HEADER_LEN..=segment.len()).contains(&offset);
    if flow.is_shifted
        && is_whole
        && let Some(shifts) = rare.shifts.as_deref_mut()
    {
        let [ours, theirs] = shifts;
        let (own, other) = if back { (theirs, ours) } else { (ours, theirs) };
        own.advance(u32_at(segment, tcp::offset::SEQUENCE));
        number(&mut segment[..offset], own, other);
    }
}

/// Shifts sequence and acknowledgement numbers, those of SACK too (RFC 2018).
fn number(header: &mut [u8], own: &Shift, other: &Shift) {
    let Some((fixed, options)) = header.split_first_chunk_mut() else { return };
    let mut tcp = tcp::Header::new(fixed);
    let mut sum = tcp.checksum();
    if !own.is_none() {
        let (from, to) = (tcp.sequence(), own.forth(tcp.sequence()));
        sum = changed_u32(sum, from, to);
        tcp.set_sequence(to);
    }
    if !other.is_none() {
        let (from, to) = (tcp.acknowledgement(), other.back(tcp.acknowledgement()));
        sum = changed_u32(sum, from, to);
        tcp.set_acknowledgement(to);
        let before = checksum::sum(options);
        sack(options, other);
        sum = changed(sum, before, checksum::sum(options));
    }
    tcp.set_checksum(sum);
}

fn sack(options: &mut [u8], shift: &Shift) {
    let mut at = 0;
    while let Some(Ok(place)) = option_list::next(options, at) {
        at = place.end;
        for edge in tcp_option::sack_edges_mut(&mut options[place]) {
            *edge = shift.back(u32::from_be_bytes(*edge)).to_be_bytes();
        }
    }
}
