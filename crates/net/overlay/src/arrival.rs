//! The outer headers of a received frame: where its IP header is, what that carries, and
//! whether both are right.

use std::ops::Range;

use memory::{Checksum, Packet};
use port::Reason;
use wire::ethernet::{self, EtherType};
use wire::flow::MAX_TAGS;
use wire::ip::{Addresses, Protocol as IpProtocol};
use wire::{MacAddress, checksum, ipv4, ipv6, udp, vlan};

use crate::end::End;
use crate::protocol::{Carrier, Refusal};

/// An IP header in front of a tunnel's, and what it says that follows; not checked yet.
pub(crate) struct Outer {
    pub(crate) addresses: Addresses,
    pub(crate) traffic_class: u8,
    pub(crate) protocol: IpProtocol,
    pub(crate) carrier: Carrier,
    /// Where the IP header begins.
    pub(crate) network: usize,
    /// What the IP header carries, in bytes from the frame's start.
    pub(crate) payload: Range<usize>,
    pub(crate) is_fragment: bool,
}

/// Which frames that come by a port of the underlay are for this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entrance {
    /// The Ethernet address that neighbours are told.
    pub mac: MacAddress,
    /// The ID of the VLAN.
    pub vlan: Option<u16>,
}

impl Entrance {
    /// Where the IP header begins of a frame to this port in its VLAN, under no other tag. A frame to
    /// a group of stations is none: its packet is not taken (RFC 1122, section 3.3.6).
    #[inline(always)]
    pub(crate) fn network_offset(&self, frame: &[u8]) -> Result<usize, Refusal> {
        let header = ethernet::Header::of(frame).ok_or(Refusal::NotMine)?;
        if header.dst() != self.mac {
            return Err(Refusal::NotMine);
        }
        let ethertype = header.ethertype();
        if self.vlan.is_none() && !ethertype.is_tag() {
            return ip_at(frame, ethernet::HEADER_LEN, ethertype);
        }
        // A tag of the VLAN 0 has a priority and no VLAN (IEEE 802.1Q, section 6.8).
        let tag = frame.get(ethernet::HEADER_LEN..).and_then(vlan::Header::of).ok_or(Refusal::NotMine)?;
        match ethertype == EtherType::VLAN && tag.id() == self.vlan.unwrap_or(0) {
            true => ip_at(frame, ethernet::HEADER_LEN + vlan::HEADER_LEN, tag.ethertype()),
            false => Err(Refusal::NotMine),
        }
    }
}

/// Where the IP header of a frame begins, whoever it is for and in whatever VLAN.
#[inline(always)]
pub(crate) fn network_offset(frame: &[u8]) -> Result<usize, Refusal> {
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
    ip_at(frame, at, ethertype)
}

/// `at`, where an IP header of the version that the frame says begins there.
#[inline(always)]
fn ip_at(frame: &[u8], at: usize, ethertype: EtherType) -> Result<usize, Refusal> {
    let first = frame.get(at).map(|first| ipv4::version(*first));
    match (ethertype, first) {
        (EtherType::IPV4, Some(4)) | (EtherType::IPV6, Some(6)) => Ok(at),
        _ => Err(Refusal::NotMine),
    }
}

/// The IP header at `at`, as it stands; `None` when it is not there, or carries what no
/// tunnel does.
#[inline(always)]
pub(crate) fn outer(packet: &Packet, at: usize) -> Option<Outer> {
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
#[inline(always)]
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
#[inline(always)]
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
#[inline(always)]
pub(crate) fn check_outer(packet: &Packet, outer: &Outer) -> Result<(), Refusal> {
    let malformed = Refusal::Drop(Reason::OverlayOuterMalformed);
    let there = packet.total_len();
    if outer.payload.start > outer.payload.end || outer.payload.end > there {
        return Err(malformed);
    }
    if matches!(outer.addresses, Addresses::V4 { .. }) {
        if outer.payload.start - outer.network < ipv4::HEADER_LEN {
            return Err(malformed);
        }
        let header = packet.get(outer.network..outer.payload.start).ok_or(malformed)?;
        if packet.ip_checksum() != Checksum::Good && !is_summed_right(header) {
            return Err(Refusal::Drop(Reason::OverlayOuterChecksum));
        }
    }
    if outer.is_fragment {
        return Err(Refusal::Drop(Reason::OverlayOuterFragment));
    }
    if let Carrier::Udp(_) = outer.carrier {
        let header = packet.get(outer.payload.start..).and_then(udp::Header::of).ok_or(malformed)?;
        if header.total_len() != outer.payload.len() {
            return Err(malformed);
        }
    }
    Ok(())
}

/// Whether the checksum of an IPv4 header is right. Of one without options the length is known
/// beforehand, which makes it a few additions.
#[inline(always)]
fn is_summed_right(header: &[u8]) -> bool {
    match <&[u8; ipv4::HEADER_LEN]>::try_from(header) {
        Ok(header) => ipv4::Header::new(header).verify_checksum(),
        Err(_) => checksum::verify(header),
    }
}

/// Checks the port and the checksum of UDP's header in front of `payload`, in a packet whose IP
/// header begins at `network`. The checksum is left out over IPv4, and may be left out over IPv6
/// only where that was agreed on (RFC 6936, section 5).
#[inline(always)]
pub(crate) fn check_udp(
    packet: &Packet,
    network: usize,
    payload: Range<usize>,
    end: &End,
) -> Result<(), Refusal> {
    let start = payload.start - udp::HEADER_LEN;
    let header = packet.get(start..).and_then(udp::Header::of);
    let header = header.ok_or(Refusal::Drop(Reason::OverlayOuterMalformed))?;
    if end.port != Some(header.dst_port()) {
        return Err(Refusal::Drop(Reason::OverlayUnknownEnd));
    }
    match header.checksum() {
        0 if end.zero_checksum || end.local.is_ipv4() => Ok(()),
        0 => Err(Refusal::Drop(Reason::OverlayZeroChecksum)),
        _ if packet.l4_checksum() == Checksum::Good => Ok(()),
        _ => verify_udp(packet, network, payload),
    }
}

/// Verifies the checksum of UDP's header in front of `payload`.
#[inline(never)]
fn verify_udp(packet: &Packet, network: usize, payload: Range<usize>) -> Result<(), Refusal> {
    let start = payload.start - udp::HEADER_LEN;
    let outer = outer(packet, network).ok_or(Refusal::Drop(Reason::OverlayOuterMalformed))?;
    let pseudo = outer.addresses.pseudo_header(IpProtocol::UDP, payload.end - start);
    match checksum::is_right(sum(packet, start..payload.end, pseudo)) {
        true => Ok(()),
        false => Err(Refusal::Drop(Reason::OverlayOuterChecksum)),
    }
}

/// The sum of these bytes of a packet, over all of its segments, and of `first`.
#[inline(never)]
pub(crate) fn sum(packet: &Packet, range: Range<usize>, first: u16) -> u16 {
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
