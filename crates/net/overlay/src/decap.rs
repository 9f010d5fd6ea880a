//! Receiving from tunnels: a frame of the underlay is recognised as a tunnel's that ends
//! here, its headers are checked and taken away, and what congestion they met goes into the
//! packet inside.

use std::ops::Range;

use fib::Reader;
use fib::exact::Exact;
use memory::{Checksum, Packet};
use wire::ethernet::{self, EtherType};
use wire::flow::MAX_TAGS;
use wire::ip::{Addresses, Protocol as IpProtocol};
use wire::{checksum, ecn, ipv4, ipv6, udp, vlan};

use crate::end::{End, Local, LocalView};
use crate::hop::look;
use crate::network::Layer;
use crate::protocol::{Carrier, PROTOCOLS, Payload, Protocol, Recognized, Refusal, recognize_segments};
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
    locals: Reader<Exact, LocalView>,
    ends: Reader<Exact, End>,
    drops: Drops,
}

/// An IP header in front of a tunnel's, and what it says that follows; not checked yet.
struct Outer {
    addresses: Addresses,
    traffic_class: u8,
    protocol: IpProtocol,
    carrier: Carrier,
    /// Where the IP header begins.
    network: usize,
    /// What the IP header carries, in bytes from the frame's start.
    payload: Range<usize>,
    is_fragment: bool,
}

impl Decapsulator {
    pub(crate) fn new(locals: Reader<Exact, LocalView>, ends: Reader<Exact, End>) -> Decapsulator {
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
        // What is for another address, or for a protocol that does not end here, is nobody's
        // to complain of: it is left alone, whatever it is.
        let outer = outer(packet, at).ok_or(Refusal::NotMine)?;
        let local = self.locals.fib().lookup(Local::key(outer.addresses.dst()));
        let local = *local.ok_or(Refusal::NotMine)?;
        if !PROTOCOLS.iter().any(|protocol| ends_here(protocol, local, &outer)) {
            return Err(Refusal::NotMine);
        }
        check_outer(packet, &outer)?;
        let (behind, end, recognized) = self.recognize(packet, &outer, local)?;
        let start = outer.payload.start + behind;
        let end_of_tunnel = recognized.len.map_or(outer.payload.end, |len| start + len);
        if end_of_tunnel > outer.payload.end {
            return Err(Refusal::Drop(Reason::TunnelMalformed));
        }
        if recognized.is_summed && !checksum::is_right(sum(packet, start..end_of_tunnel, 0)) {
            return Err(Refusal::Drop(Reason::OuterChecksum));
        }
        let inner = start + recognized.header_len..end_of_tunnel;
        check_payload(packet, &inner, recognized.payload, end.layer)?;
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
        local: LocalView,
    ) -> Result<(usize, End, Recognized), Refusal> {
        let behind = if matches!(outer.carrier, Carrier::Udp(_)) { udp::HEADER_LEN } else { 0 };
        let bytes = packet.get(outer.payload.start + behind..outer.payload.end.min(packet.len()));
        let bytes = bytes.ok_or(Refusal::Drop(Reason::OuterMalformed))?;
        let (src, dst) = (outer.addresses.src(), outer.addresses.dst());
        let mut refused = Refusal::NotMine;
        for protocol in PROTOCOLS.iter().filter(|protocol| ends_here(protocol, local, outer)) {
            let recognized = match protocol.carrier {
                Carrier::Segments => recognize_segments(outer.protocol, bytes),
                _ => (protocol.recognize)(bytes),
            };
            match recognized {
                Ok(recognized)
                    if protocol.carrier == Carrier::Payload
                        && recognized.payload.ip_protocol() != Some(outer.protocol) =>
                {
                    refused = Refusal::Drop(Reason::WrongPayload);
                }
                Ok(recognized) => {
                    let key = End::key_of(protocol, local.number, recognized.identifier, src);
                    // The number of a local address may have been another's a moment ago.
                    if let Some(end) = self.ends.fib().lookup(key).filter(|end| end.local == dst) {
                        check_udp(packet, outer, end)?;
                        return Ok((behind, *end, recognized));
                    }
                    if refused == Refusal::NotMine {
                        refused = Refusal::Drop(Reason::UnknownEnd);
                    }
                }
                Err(Refusal::NotMine) => {}
                Err(other) if refused == Refusal::NotMine => refused = other,
                Err(_) => {}
            }
        }
        Err(refused)
    }
}

/// Whether a packet may be one of a protocol's that ends at its destination.
#[inline]
fn ends_here(protocol: &Protocol, local: LocalView, outer: &Outer) -> bool {
    let is_segment = outer.carrier == Carrier::Payload && protocol.carrier == Carrier::Segments;
    local.protocols & 1 << protocol.number != 0 && (outer.carrier == protocol.carrier || is_segment)
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

/// The IP header at `at`, as it stands; `None` when it is not there, or carries what no
/// tunnel does.
#[inline]
fn outer(packet: &Packet, at: usize) -> Option<Outer> {
    let bytes = packet.get(at..)?;
    if bytes.first().map(|first| ipv4::version(*first)) == Some(6) {
        return outer_v6(bytes, at);
    }
    let header = ipv4::Header::of(bytes)?;
    let (header_len, total_len) = (header.header_len(), header.total_len());
    let payload = at + header_len..at + total_len;
    Some(Outer {
        addresses: header.addresses(),
        traffic_class: header.traffic_class(),
        protocol: header.protocol(),
        carrier: carrier(header.protocol(), bytes.get(header_len..), header.is_later_fragment())?,
        network: at,
        payload,
        is_fragment: header.is_fragment(),
    })
}

/// An IPv6 header, with options for every router and for the destination skipped (RFC 2473,
/// section 4.1.1: Linux sends a limit of encapsulations).
#[inline]
fn outer_v6(bytes: &[u8], at: usize) -> Option<Outer> {
    let header = ipv6::Header::of(bytes)?;
    let (mut protocol, mut start) = (header.next_header(), ipv6::HEADER_LEN);
    for _ in 0..ipv6::MAX_EXTENSIONS {
        if !matches!(protocol, IpProtocol::HOP_BY_HOP | IpProtocol::DESTINATION) {
            break;
        }
        let extension = ipv6::Extension::of(bytes.get(start..)?)?;
        (protocol, start) = (extension.next_header(), start + extension.header_len());
    }
    // Fragments are for the host: a tunnel's carrier is no fragment header.
    Some(Outer {
        addresses: header.addresses(),
        traffic_class: header.traffic_class(),
        protocol,
        carrier: carrier(protocol, bytes.get(start..), false)?,
        network: at,
        payload: at + start..at + ipv6::HEADER_LEN + header.payload_len(),
        is_fragment: false,
    })
}

/// What carries a tunnel's header in a packet of this protocol. A later fragment has no port:
/// the host puts such packets together, or nobody does.
#[inline]
fn carrier(protocol: IpProtocol, payload: Option<&[u8]>, is_later_fragment: bool) -> Option<Carrier> {
    match protocol {
        IpProtocol::UDP if is_later_fragment => None,
        IpProtocol::UDP => Some(Carrier::Udp(udp::Header::of(payload?)?.dst_port())),
        IpProtocol::GRE => Some(Carrier::Ip(IpProtocol::GRE)),
        IpProtocol::IPV4 | IpProtocol::IPV6 => Some(Carrier::Payload),
        IpProtocol::ETHERNET | IpProtocol::ROUTING => Some(Carrier::Segments),
        _ => None,
    }
}

/// Checks the outer headers of a packet that is a tunnel's which ends here.
#[inline]
fn check_outer(packet: &Packet, outer: &Outer) -> Result<(), Refusal> {
    let malformed = Refusal::Drop(Reason::OuterMalformed);
    let there = packet.total_len();
    if outer.payload.start > outer.payload.end || outer.payload.end > there {
        return Err(malformed);
    }
    if matches!(outer.addresses, Addresses::V4 { .. }) {
        if outer.payload.start - outer.network < ipv4::HEADER_LEN {
            return Err(malformed);
        }
        let header = packet.get(outer.network..outer.payload.start).ok_or(malformed)?;
        if packet.ip_checksum() != Checksum::Good && !checksum::verify(header) {
            return Err(Refusal::Drop(Reason::OuterChecksum));
        }
    }
    if outer.is_fragment {
        return Err(Refusal::Drop(Reason::OuterFragment));
    }
    if let Carrier::Udp(_) = outer.carrier {
        let header = packet.get(outer.payload.start..).and_then(udp::Header::of).ok_or(malformed)?;
        if header.total_len() != outer.payload.len() {
            return Err(malformed);
        }
    }
    Ok(())
}

/// Checks the checksum of UDP, which is left out over IPv4 and may be left out over IPv6 only
/// where that was agreed on (RFC 6936, section 5).
#[inline]
fn check_udp(packet: &Packet, outer: &Outer, end: &End) -> Result<(), Refusal> {
    if !matches!(outer.carrier, Carrier::Udp(_)) {
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

/// Whether a network has such packets, and this is one: of the version that was said, with
/// its header whole in the first buffer.
#[inline]
fn check_payload(
    packet: &Packet,
    inner: &Range<usize>,
    payload: Payload,
    layer: Layer,
) -> Result<(), Refusal> {
    let is_right = match layer {
        Layer::Ethernet => payload == Payload::Ethernet,
        Layer::Ip => matches!(payload, Payload::Ipv4 | Payload::Ipv6),
        Layer::Service => payload == Payload::Nsh,
    };
    let bytes = packet.get(inner.start..inner.end.min(packet.len()));
    match is_right && bytes.is_some_and(|bytes| payload.is_whole(bytes)) {
        true => Ok(()),
        false => Err(Refusal::Drop(Reason::WrongPayload)),
    }
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

/// Takes away what is not the packet inside: the headers, and what is behind it; and what was
/// said of the packet that had them.
#[inline]
fn strip(packet: &mut Packet, inner: Range<usize>) -> Result<(), Refusal> {
    let malformed = |_| Refusal::Drop(Reason::TunnelMalformed);
    if packet.next().is_some() {
        cut_chain(packet, inner.end);
    } else if inner.end < packet.len() {
        packet.set_len(inner.end).map_err(malformed)?;
    }
    packet.pull_front(inner.start).map_err(malformed)?;
    packet.forget_rx_words();
    packet.clear_annotations();
    Ok(())
}

/// Takes away what is behind the first `len` bytes of a packet in several buffers.
#[cold]
fn cut_chain(packet: &mut Packet, len: usize) {
    let (mut last, mut left) = (packet, len);
    while left > last.len() && last.next().is_some() {
        left -= last.len();
        last = last.next_mut().expect("just seen");
    }
    let _ = last.set_len(left.min(last.len())); // shorter always fits
    drop(last.split_next());
}
