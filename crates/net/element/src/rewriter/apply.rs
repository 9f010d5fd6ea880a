//! Packets rewritten: addresses, ports, sequence numbers, and all checksums by what
//! changed (RFC 1624), so that what was wrong stays wrong.

use std::net::Ipv4Addr;

use memory::Packet;
use wire::checksum;

use super::flow_id::FlowId;
use super::flows::{DATA, DONE, Flow, Tracking};
use super::kind::{DCCP, Kind, TCP, UDP};
use super::sequence::Shift;
use crate::annotation::{AGGREGATE, Notes};
use crate::ip::header::{self, u16_at, u32_at};

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

/// Writes two words, and tells a checksum.
pub(super) fn set_u32(bytes: &mut [u8], at: usize, value: u32, sum: &mut u16) {
    set_u16(bytes, at, (value >> 16) as u16, sum);
    set_u16(bytes, at + 2, value as u16, sum);
}

/// A checksum stays what it is when nothing changes.
pub(super) fn changed(sum: u16, from: u16, to: u16) -> u16 {
    if from == to { sum } else { checksum::update(sum, from, to) }
}

pub(super) fn changed_u32(sum: u16, from: u32, to: u32) -> u16 {
    changed(changed(sum, (from >> 16) as u16, (to >> 16) as u16), from as u16, to as u16)
}

/// Rewrites a packet of a flow.
pub(crate) fn apply(packet: &mut Packet, kind: Kind, flow: &mut Flow, back: bool, annotate: Annotate) {
    let to = flow.rewritten(back);
    let Some((ip, payload)) = header::split_mut(packet) else { return };
    let (src, dst) = (u32_at(ip, 12), u32_at(ip, 16));
    // A rewriter of source addresses has no more than one of both.
    let new = match kind {
        Kind::Address if back => (src, to.dst),
        Kind::Address => (to.src, dst),
        _ => (to.src, to.dst),
    };
    let mut sum = u16_at(ip, 10);
    set_u32(ip, 12, new.0, &mut sum);
    set_u32(ip, 16, new.1, &mut sum);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    if header::is_first_fragment(ip) {
        let addresses = |sum| changed_u32(changed_u32(sum, src, new.0), dst, new.1);
        transport(ip, payload, kind, flow, back, &addresses);
    }
    if annotate.destination && (kind != Kind::Address || back) {
        packet.set_dst_ip(Ipv4Addr::from_bits(new.1));
    }
    if annotate.aggregate {
        packet.set_u32_at(AGGREGATE, flow.place() as u32);
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
    kind: Kind,
    flow: &mut Flow,
    back: bool,
    addresses: &dyn Fn(u16) -> u16,
) {
    let to = flow.rewritten(back);
    match kind {
        Kind::Ping => return ping(payload, if back { to.dst_port } else { to.src_port }),
        Kind::Address | Kind::Pair => return resum(ip[9], payload, addresses),
        _ if flow.tracking == Tracking::Tcp && payload.len() < 18 => return,
        _ => {}
    }
    let from = [u16_at(payload, 0), u16_at(payload, 2)];
    resum(ip[9], payload, &|sum| ports_sum(from, to, addresses(sum)));
    payload[..2].copy_from_slice(&to.src_port.to_be_bytes());
    payload[2..4].copy_from_slice(&to.dst_port.to_be_bytes());
    match flow.tracking {
        Tracking::Tcp => tcp(ip, payload, flow, back),
        _ => datagram(flow, back),
    }
}

fn ports_sum([src, dst]: [u16; 2], to: FlowId, sum: u16) -> u16 {
    changed(changed(sum, src, to.src_port), dst, to.dst_port)
}

/// Where a transport header's checksum is, if it has one.
pub(super) fn sum_at(protocol: u8, payload: &[u8]) -> Option<usize> {
    match protocol {
        TCP if payload.len() >= 18 => Some(16),
        UDP if payload.len() >= 8 && u16_at(payload, 6) != 0 => Some(6), // zero is none (RFC 768)
        DCCP if payload.len() >= 8 => Some(6),
        _ => None,
    }
}

/// Changes a transport header's checksum, if it has one.
pub(super) fn resum(protocol: u8, payload: &mut [u8], change: &dyn Fn(u16) -> u16) {
    let Some(at) = sum_at(protocol, payload) else { return };
    let sum = match change(u16_at(payload, at)) {
        0 if protocol == UDP => 0xFFFF,
        sum => sum,
    };
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn ping(payload: &mut [u8], identifier: u16) {
    let mut sum = u16_at(payload, 2);
    set_u16(payload, 4, identifier, &mut sum);
    if sum == 0 && payload[..2].iter().chain(&payload[4..]).all(|byte| *byte == 0) {
        sum = 0xFFFF; // of nothing but zeros (RFC 1624, 3)
    }
    payload[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Three packets, one of them back, make a stream.
fn datagram(flow: &mut Flow, back: bool) {
    flow.marks |= u8::from(back);
    if flow.marks < 6 {
        flow.marks += 2;
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

fn tcp(ip: &[u8], segment: &mut [u8], flow: &mut Flow, back: bool) {
    let (offset, flags) = (usize::from(segment[12] >> 4) * 4, segment[13]);
    let has_data = ip.len() + offset < usize::from(u16_at(ip, 2));
    if flags & RST != 0 {
        flow.marks |= 3 * DONE;
    } else if flags & FIN != 0 {
        flow.marks |= DONE << u8::from(back);
    } else if flags & SYN != 0 || has_data {
        flow.marks &= !(DONE << u8::from(back));
    }
    if has_data {
        flow.marks |= DATA << u8::from(back);
    }
    if let Some(shifts) = flow.shifts.as_deref_mut().filter(|_| (20..=segment.len()).contains(&offset)) {
        let [ours, theirs] = shifts;
        let (own, other) = if back { (theirs, ours) } else { (ours, theirs) };
        own.advance(u32_at(segment, 4));
        number(&mut segment[..offset], own, other);
    }
}

/// Shifts sequence and acknowledgement numbers, those of SACK too (RFC 2018).
fn number(header: &mut [u8], own: &Shift, other: &Shift) {
    let mut sum = u16_at(header, 16);
    if !own.is_none() {
        set_u32(header, 4, own.forth(u32_at(header, 4)), &mut sum);
    }
    if !other.is_none() {
        set_u32(header, 8, other.back(u32_at(header, 8)), &mut sum);
        let options = &mut header[20..];
        let before = checksum::sum(options);
        sack(options, other);
        sum = changed(sum, before, checksum::sum(options));
    }
    header[16..18].copy_from_slice(&sum.to_be_bytes());
}

fn sack(mut options: &mut [u8], shift: &Shift) {
    loop {
        let (kind, length) = match *options {
            [] | [0, ..] => return,
            [1, ..] => (1, 1),
            [kind, length, ..] if length >= 2 => (kind, usize::from(length)),
            _ => return,
        };
        if length > options.len() {
            return;
        }
        let (option, rest) = options.split_at_mut(length);
        if kind == 5 && length % 8 == 2 {
            for edge in option[2..].chunks_exact_mut(4) {
                let number = shift.back(u32_at(edge, 0));
                edge.copy_from_slice(&number.to_be_bytes());
            }
        }
        options = rest;
    }
}
