//! Receiving from tunnels: a frame of the underlay is recognised as a tunnel's that ends
//! here, its headers are checked and taken away, and what congestion they met goes into the
//! packet inside.

use std::net::IpAddr;
use std::ops::Range;

use fib::Reader;
use fib::exact::Exact;
use memory::{Checksum, Packet};
use wire::ethernet::{self, EtherType};
use wire::flow::MAX_TAGS;
use wire::ip::{Addresses, Protocol as IpProtocol};
use wire::{checksum, ecn, ipv4, ipv6, udp, vlan};

use crate::end::{End, Local};
use crate::hop::look;
use crate::network::Layer;
use crate::protocol::{Carrier, PROTOCOLS, Payload, Recognized, Refusal, recognize_segments};
use crate::reason::{Drops, Reason};

/// What became of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It is a packet of this virtual network now.
    Network(u32),
    /// It is as it was: no tunnel's, or for the control of one.
    Other,
    /// It is as it was, and counted: it must be dropped.
    Drop(Reason),
}

/// One who receives from tunnels; each thread has its own.
#[derive(Debug, Clone)]
pub struct Decapsulator {
    locals: Reader<Exact, u32>,
    ends: Reader<Exact, End>,
    drops: Drops,
}

/// An IP header in front of a tunnel's.
struct Outer {
    addresses: Addresses,
    traffic_class: u8,
    protocol: IpProtocol,
    /// What the IP header carries, in bytes from the frame's start.
    payload: Range<usize>,
}

impl Decapsulator {
    pub(crate) fn new(locals: Reader<Exact, u32>, ends: Reader<Exact, End>) -> Decapsulator {
        Decapsulator { locals, ends, drops: Drops::default() }
    }

    /// What was dropped since the start, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Takes frames of the underlay out of their tunnels. `received` says of each what became
    /// of it.
    ///
    /// # Panics
    /// When `received` is shorter than `packets`.
    pub fn decapsulate(&mut self, packets: &mut [Packet], received: &mut [Received]) {
        let received = &mut received[..packets.len()];
        for (packet, received) in packets.iter_mut().zip(received) {
            *received = match self.decapsulate_one(packet) {
                Ok(network) => Received::Network(network),
                Err(Refusal::NotMine | Refusal::Control) => Received::Other,
                Err(Refusal::Drop(reason)) => {
                    self.drops.count(reason);
                    Received::Drop(reason)
                }
            };
        }
    }

    #[inline]
    fn decapsulate_one(&mut self, packet: &mut Packet) -> Result<u32, Refusal> {
        let at = network_offset(packet)?;
        // Whose a packet is decides who complains of it: the destination comes first.
        let local = destination(packet, at).and_then(|dst| self.locals.fib().lookup(Local::key(dst)));
        let local = *local.ok_or(Refusal::NotMine)?;
        let outer = outer(packet, at)?;
        let (header_len, end, recognized) = self.recognize(packet, &outer, local)?;
        let start = outer.payload.start + header_len;
        let end_of_tunnel = recognized.len.map_or(outer.payload.end, |len| start + len);
        if end_of_tunnel > outer.payload.end {
            return Err(Refusal::Drop(Reason::TunnelMalformed));
        }
        if recognized.is_summed && !checksum::is_right(sum(packet, start..end_of_tunnel, 0)) {
            return Err(Refusal::Drop(Reason::OuterChecksum));
        }
        let inner = start + recognized.header_len..end_of_tunnel;
        check_payload(recognized.payload, end.layer)?;
        carry_congestion(packet, inner.start, outer.traffic_class, end.layer)?;
        strip(packet, inner)?;
        Ok(end.network)
    }

    /// The end of a packet's tunnel: bytes of the carrier's header behind IP's, the end, and
    /// the tunnel's header.
    #[inline]
    fn recognize(
        &mut self,
        packet: &Packet,
        outer: &Outer,
        local: u32,
    ) -> Result<(usize, End, Recognized), Refusal> {
        let (carried, behind) = carrier(packet, outer)?;
        let bytes = packet.get(outer.payload.start + behind..outer.payload.end.min(packet.len()));
        let bytes = bytes.ok_or(Refusal::Drop(Reason::OuterMalformed))?;
        let mut refused = Refusal::NotMine;
        for protocol in PROTOCOLS.iter().filter(|protocol| carries(carried, protocol.carrier)) {
            let recognized = match protocol.carrier {
                Carrier::Segments => recognize_segments(outer.protocol, bytes),
                _ => (protocol.recognize)(bytes),
            };
            match recognized {
                Ok(recognized) => {
                    let remote = outer.addresses.src();
                    let key = End::key_of(protocol, local, recognized.identifier, remote);
                    if let Some(end) = self.ends.fib().lookup(key) {
                        check_udp(packet, outer, carried, end)?;
                        return Ok((behind, *end, recognized));
                    }
                    refused = Refusal::Drop(Reason::UnknownEnd);
                }
                Err(Refusal::NotMine) => {}
                Err(other) if refused == Refusal::NotMine => refused = other,
                Err(_) => {}
            }
        }
        Err(refused)
    }
}

/// Whether a packet that was carried so may be one of a protocol's.
#[inline]
fn carries(carried: Carrier, protocol: Carrier) -> bool {
    carried == protocol || carried == Carrier::Payload && protocol == Carrier::Segments
}

/// Where the IP header of a frame begins.
#[inline]
fn network_offset(frame: &[u8]) -> Result<usize, Refusal> {
    let header = ethernet::Header::of(frame).ok_or(Refusal::NotMine)?;
    let (mut at, mut ethertype) = (ethernet::HEADER_LEN, header.ethertype());
    for _ in 0..MAX_TAGS {
        if !ethertype.is_tag() {
            break;
        }
        let tag = frame.get(at..).and_then(vlan::Header::of).ok_or(Refusal::NotMine)?;
        ethertype = tag.ethertype();
        at += vlan::HEADER_LEN;
    }
    let first = frame.get(at).map(|first| ipv4::version(*first));
    match (ethertype, first) {
        (EtherType::IPV4, Some(4)) | (EtherType::IPV6, Some(6)) => Ok(at),
        _ => Err(Refusal::NotMine),
    }
}

/// The destination of the IP header at `at`.
#[inline]
fn destination(frame: &[u8], at: usize) -> Option<IpAddr> {
    let packet = frame.get(at..)?;
    match packet.first().map(|first| ipv4::version(*first))? {
        4 => ipv4::Header::of(packet).map(|header| header.dst().into()),
        _ => ipv6::Header::of(packet).map(|header| header.dst().into()),
    }
}

/// The IP header at `at`, checked.
#[inline]
fn outer(packet: &Packet, at: usize) -> Result<Outer, Refusal> {
    let bytes = packet.get(at..).unwrap_or_default();
    let there = packet.total_len() - at;
    let malformed = Refusal::Drop(Reason::OuterMalformed);
    if bytes.first().map(|first| ipv4::version(*first)) == Some(6) {
        let header = ipv6::Header::of(bytes).ok_or(malformed)?;
        let payload = at + ipv6::HEADER_LEN..at + ipv6::HEADER_LEN + header.payload_len();
        if payload.end - at > there {
            return Err(malformed);
        }
        if header.next_header() == IpProtocol::FRAGMENT {
            return Err(Refusal::Drop(Reason::OuterFragment));
        }
        return Ok(Outer {
            addresses: header.addresses(),
            traffic_class: header.traffic_class(),
            protocol: header.next_header(),
            payload,
        });
    }
    let header = ipv4::Header::of(bytes).ok_or(malformed)?;
    let (header_len, total_len) = (header.header_len(), header.total_len());
    if header_len < ipv4::HEADER_LEN || total_len < header_len || total_len > there {
        return Err(malformed);
    }
    let is_right = match packet.ip_checksum() {
        Checksum::Good => true,
        _ => checksum::verify(bytes.get(..header_len).ok_or(malformed)?),
    };
    if !is_right {
        return Err(Refusal::Drop(Reason::OuterChecksum));
    }
    if header.is_fragment() {
        return Err(Refusal::Drop(Reason::OuterFragment));
    }
    Ok(Outer {
        addresses: header.addresses(),
        traffic_class: header.traffic_class(),
        protocol: header.protocol(),
        payload: at + header_len..at + total_len,
    })
}

/// What carries a tunnel's header in this packet, and bytes of its header behind IP's.
#[inline]
fn carrier(packet: &Packet, outer: &Outer) -> Result<(Carrier, usize), Refusal> {
    match outer.protocol {
        IpProtocol::UDP => {
            let bytes = packet.get(outer.payload.start..).unwrap_or_default();
            let header = udp::Header::of(bytes).ok_or(Refusal::Drop(Reason::OuterMalformed))?;
            if header.total_len() != outer.payload.len() {
                return Err(Refusal::Drop(Reason::OuterMalformed));
            }
            Ok((Carrier::Udp(header.dst_port()), udp::HEADER_LEN))
        }
        IpProtocol::GRE => Ok((Carrier::Ip(IpProtocol::GRE), 0)),
        IpProtocol::IPV4 | IpProtocol::IPV6 => Ok((Carrier::Payload, 0)),
        IpProtocol::ETHERNET | IpProtocol::ROUTING => Ok((Carrier::Segments, 0)),
        _ => Err(Refusal::NotMine),
    }
}

/// Checks the checksum of UDP, which is left out over IPv4 and may be left out over IPv6 only
/// where that was agreed on (RFC 6936, section 5).
#[inline]
fn check_udp(packet: &Packet, outer: &Outer, carried: Carrier, end: &End) -> Result<(), Refusal> {
    if !matches!(carried, Carrier::Udp(_)) {
        return Ok(());
    }
    let bytes = packet.get(outer.payload.start..).unwrap_or_default();
    let header = udp::Header::of(bytes).ok_or(Refusal::Drop(Reason::OuterMalformed))?;
    match header.checksum() {
        0 if end.zero_checksum || matches!(outer.addresses, Addresses::V4 { .. }) => return Ok(()),
        0 => return Err(Refusal::Drop(Reason::ZeroChecksum)),
        _ if packet.l4_checksum() == Checksum::Good => return Ok(()),
        _ => {}
    }
    let pseudo = outer.addresses.pseudo_header(IpProtocol::UDP, outer.payload.len());
    match checksum::is_right(sum(packet, outer.payload.clone(), pseudo)) {
        true => Ok(()),
        false => Err(Refusal::Drop(Reason::OuterChecksum)),
    }
}

/// The sum of these bytes of a packet, over all of its segments, and of `first`.
fn sum(packet: &Packet, range: Range<usize>, first: u16) -> u16 {
    let mut sum = checksum::Partial::new(first);
    let (mut skip, mut left) = (range.start, range.len());
    for segment in packet.segments() {
        let bytes = segment.get(skip..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(left)];
        sum.add(bytes);
        skip = skip.saturating_sub(segment.len());
        left -= bytes.len();
    }
    sum.sum()
}

/// Whether a network has such packets.
#[inline]
fn check_payload(payload: Payload, layer: Layer) -> Result<(), Refusal> {
    let is_right = match layer {
        Layer::Ethernet => payload == Payload::Ethernet,
        Layer::Ip => matches!(payload, Payload::Ipv4 | Payload::Ipv6),
        Layer::Service => payload == Payload::Nsh,
    };
    if is_right { Ok(()) } else { Err(Refusal::Drop(Reason::WrongPayload)) }
}

/// Carries the congestion that the outer header met into the packet inside (RFC 6040).
#[inline]
fn carry_congestion(packet: &mut Packet, inner: usize, outer: u8, layer: Layer) -> Result<(), Refusal> {
    // The other two change nothing, whatever is inside.
    if !matches!(outer & ecn::MASK, ecn::CE | ecn::ECT_1) || layer == Layer::Service {
        return Ok(());
    }
    let Some(bytes) = packet.get_mut(inner..) else { return Ok(()) };
    let Some(known) = look(bytes, layer) else { return Ok(()) };
    let Some(at) = known.network_offset else { return Ok(()) }; // no IP, and nobody to tell
    let class = ecn::decapsulate(known.traffic_class, outer).ok_or(Refusal::Drop(Reason::Congestion))?;
    if class == known.traffic_class {
        return Ok(());
    }
    let header = &mut bytes[usize::from(at)..];
    if known.is_v6 {
        if let Some(mut header) = ipv6::Header::of_mut(header) {
            let label = header.flow_label();
            header.set_version(class, label);
        }
    } else if let Some(mut header) = ipv4::Header::of_mut(header) {
        header.update_traffic_class(class);
    }
    Ok(())
}

/// Takes away what is not the packet inside: the headers, and the padding behind it.
#[inline]
fn strip(packet: &mut Packet, inner: Range<usize>) -> Result<(), Refusal> {
    let malformed = |_| Refusal::Drop(Reason::TunnelMalformed);
    if inner.start > inner.end {
        return Err(Refusal::Drop(Reason::TunnelMalformed));
    }
    // A chain is longer than an Ethernet frame's padding: only one segment has any.
    if packet.next().is_none() && inner.end < packet.len() {
        packet.set_len(inner.end).map_err(malformed)?;
    }
    packet.pull_front(inner.start).map_err(malformed)?;
    packet.clear_annotations();
    Ok(())
}
