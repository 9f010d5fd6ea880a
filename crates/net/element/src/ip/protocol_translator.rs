//! `ProtocolTranslator46`, `ProtocolTranslator64`: packets of one version of IP made packets
//! of the other, without state (RFC 2765).

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::class::Headers;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use wire::ip::{Addresses, Protocol};
use wire::{icmpv4, icmpv6, ipv4, ipv6, tcp, translation, udp};

use super::ip6;
use graph::annotation::{DST_IP6, PacketAnnotations};
use graph::ip_header;
use port::Reason;

const FINDS: Headers = Headers { finds_network: true, ..Class::BASE.headers };

/// The class of what makes packets of version 6.
pub static TO_V6: Class = Class {
    name: "ProtocolTranslator46",
    brief: "makes IPv4 packets IPv6 packets",
    doc: "Packets begin with their IPv4 header. Addresses become IPv4-mapped ones (`::ffff:1.0.0.1`), options \
          are left out, the hop limit is the TTL less 191, as in Click. Messages of ICMP become those of \
          ICMPv6 that say the same; what an error quotes stays as it was. Checksums of TCP, UDP and ICMP are \
          filled in anew. ICMP messages that version 6 does not have and fragments are dropped.",
    processing: "h/h",
    drops: &[Reason::BadInput, Reason::NoHeadroom, Reason::TooLong, Reason::AnotherProtocol],
    example: "CheckIPHeader -> ProtocolTranslator46 -> rt6;",
    see: &["ProtocolTranslator64", "CheckIP6Header"],
    headers: FINDS,
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(Translator { translate: to_v6 }))
    },
    ..Class::BASE
};

/// The class of what makes packets of version 4.
pub static TO_V4: Class = Class {
    name: "ProtocolTranslator64",
    brief: "makes IPv6 packets between IPv4-mapped addresses IPv4 packets",
    doc: "Packets begin with their IPv6 header; both addresses are IPv4-mapped (`::ffff:1.0.0.1`), others are \
          dropped. The TTL is the hop limit; routers must not fragment. Messages of ICMPv6 become those of \
          ICMP that say the same; what an error quotes stays as it was. Checksums of TCP, UDP and ICMP are \
          filled in anew. ICMPv6 messages that version 4 does not have, and fragments, are dropped.",
    processing: "h/h",
    drops: &[Reason::BadInput, Reason::NoRoute, Reason::TooLong, Reason::AnotherProtocol],
    example: "CheckIP6Header -> ProtocolTranslator64 -> rt;",
    see: &["ProtocolTranslator46", "CheckIPHeader"],
    headers: FINDS,
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(Translator { translate: to_v4 }))
    },
    ..Class::BASE
};

// Places in the classes' drops.
const BAD: usize = 0;
const NO_HEADROOM: usize = 1;
const NOT_MAPPED: usize = 1;
const TOO_LONG: usize = 2;
const UNTRANSLATED: usize = 3;

/// What is taken from a TTL, as Click does: 191.
const TTL_LOSS: u8 = 0xFF - 0x40;

/// A `ProtocolTranslator46` or `ProtocolTranslator64` element; [`TO_V6`] and [`TO_V4`] say what
/// they do.
#[derive(Clone)]
pub struct Translator {
    translate: fn(&mut Cx<'_>, &mut Packet) -> Result<(), usize>,
}

impl PerPacket for Translator {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        (self.translate)(cx, packet).map_or_else(Action::drop, |()| Action::ON)
    }

    fn replicate(&self) -> Option<Translator> {
        Some(self.clone())
    }
}

fn to_v6(cx: &mut Cx<'_>, packet: &mut Packet) -> Result<(), usize> {
    if packet.next().is_some() {
        return Err(TOO_LONG);
    }
    let ip = ipv4::Packet::new_checked(&**packet).map_err(|_| BAD)?;
    if ip.is_fragment() {
        return Err(UNTRANSLATED);
    }
    let (header_len, length) = (ip.header_len(), ip.total_len() - ip.header_len());
    let (src, dst) = (ip.src().to_ipv6_mapped(), ip.dst().to_ipv6_mapped());
    let (ttl, protocol) = (ip.ttl().wrapping_sub(TTL_LOSS), ip.protocol());
    ip_header::shorten(packet, header_len + length);
    packet.pull_front(header_len).map_err(|_| BAD)?;
    let next = match protocol {
        Protocol::ICMP if translation::icmp_to_v6(packet) => Protocol::ICMPV6,
        Protocol::ICMP => return Err(UNTRANSLATED),
        other => other,
    };
    if !cx.has_headroom(packet, ip6::LEN) || packet.push_front(ip6::LEN).is_err() {
        return Err(NO_HEADROOM);
    }
    let (header, payload) = packet.split_first_chunk_mut::<{ ip6::LEN }>().ok_or(BAD)?;
    let addresses = ipv6::Header::new(header).fill(src, dst, next, length as u16, ttl);
    fill_checksum(next, payload, addresses);
    ip_header::mark(packet, 0, ip6::LEN);
    packet.set_bytes_at(DST_IP6, dst.octets());
    Ok(())
}

fn to_v4(_: &mut Cx<'_>, packet: &mut Packet) -> Result<(), usize> {
    if packet.next().is_some() {
        return Err(TOO_LONG);
    }
    let ip = ipv6::Packet::new_checked(&**packet).map_err(|_| BAD)?;
    let mapped = |address: Ipv6Addr| address.to_ipv4_mapped().filter(|address| !address.is_unspecified());
    let ends: Option<(Ipv4Addr, Ipv4Addr)> = mapped(ip.src()).zip(mapped(ip.dst()));
    let (src, dst) = ends.ok_or(NOT_MAPPED)?;
    let (length, ttl, next) = (ip.payload_len(), ip.hop_limit(), ip.next_header());
    if length > wire::ip::LONGEST - ip_header::LEN {
        return Err(TOO_LONG);
    }
    ip_header::shorten(packet, ip6::LEN + length);
    packet.pull_front(ip6::LEN).map_err(|_| BAD)?;
    let protocol = match next {
        Protocol::ICMPV6 if translation::icmp_to_v4(packet) => Protocol::ICMP,
        Protocol::ICMPV6 | Protocol::FRAGMENT => return Err(UNTRANSLATED),
        other => other,
    };
    packet.push_front(ip_header::LEN).map_err(|_| BAD)?;
    let (header, payload) = packet.split_first_chunk_mut::<{ ip_header::LEN }>().ok_or(BAD)?;
    let repr = ipv4::Repr { ttl, dont_fragment: true, ..ipv4::Repr::between(src, dst, protocol, length) };
    let mut ip = ipv4::Header::new(header);
    repr.write(&mut ip);
    fill_checksum(protocol, payload, ip.addresses());
    ip_header::mark(packet, 0, ip_header::LEN);
    packet.set_dst_ip(dst);
    Ok(())
}

/// Fills in the checksum of a payload that begins with its protocol's header; others stay.
fn fill_checksum(protocol: Protocol, payload: &mut [u8], addresses: Addresses) {
    match protocol {
        Protocol::TCP => {
            if let Ok(mut segment) = tcp::Segment::new_checked(payload) {
                segment.fill_checksum(addresses);
            }
        }
        Protocol::UDP => {
            if let Ok(mut datagram) = udp::Datagram::new_checked(payload) {
                datagram.fill_checksum(addresses);
            }
        }
        Protocol::ICMP if payload.len() >= icmpv4::HEADER_LEN => icmpv4::fill_checksum(payload),
        Protocol::ICMPV6 => {
            if let Ok(mut message) = icmpv6::Packet::new_checked(payload) {
                message.fill_checksum(addresses);
            }
        }
        _ => {}
    }
}
