//! `ProtocolTranslator46`, `ProtocolTranslator64`: packets of one version of IP made packets
//! of the other, without state (RFC 2765).

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::class::Headers;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use wire::ip::{Addresses, Protocol, checksum_offset};
use wire::{checksum, icmpv4, icmpv6, ipv4, ipv6, tcp, translation, udp};

use super::ip6;
use graph::annotation::{DST_IP6, PacketAnnotations};
use graph::chain::Bytes;
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
    let ip = ipv4::Header::of(packet).ok_or(BAD)?;
    let (header_len, total) = (ip.header_len(), ip.total_len());
    let is_whole = header_len >= ip_header::LEN && (header_len..=packet.total_len()).contains(&total);
    if ip.version() != 4 || !is_whole {
        return Err(BAD);
    }
    if ip.is_fragment() {
        return Err(UNTRANSLATED);
    }
    let length = total - header_len;
    let (src, dst) = (ip.src().to_ipv6_mapped(), ip.dst().to_ipv6_mapped());
    let (ttl, protocol) = (ip.ttl().wrapping_sub(TTL_LOSS), ip.protocol());
    ip_header::cut(packet, total);
    if !cx.advance(packet, header_len as isize) {
        return Err(BAD);
    }
    let next = match protocol {
        Protocol::ICMP if translation::icmp_to_v6(packet) => Protocol::ICMPV6,
        Protocol::ICMP => return Err(UNTRANSLATED),
        other => other,
    };
    if !cx.has_headroom(packet, ip6::LEN) || packet.push_front(ip6::LEN).is_err() {
        return Err(NO_HEADROOM);
    }
    let (bytes, behind) = packet.first_and_next();
    let (header, payload) = bytes.split_first_chunk_mut::<{ ip6::LEN }>().ok_or(BAD)?;
    let addresses = ipv6::Header::new(header).fill(src, dst, next, length as u16, ttl);
    let _none = fill_checksum(next, (payload, behind), addresses); // of another protocol
    ip_header::mark(packet, 0, ip6::LEN);
    packet.set_bytes_at(DST_IP6, dst.octets());
    Ok(())
}

fn to_v4(cx: &mut Cx<'_>, packet: &mut Packet) -> Result<(), usize> {
    let ip = ipv6::Header::of(packet).ok_or(BAD)?;
    if ip.version() != 6 || packet.total_len() - ip6::LEN < ip.payload_len() {
        return Err(BAD);
    }
    let mapped = |address: Ipv6Addr| address.to_ipv4_mapped().filter(|address| !address.is_unspecified());
    let ends: Option<(Ipv4Addr, Ipv4Addr)> = mapped(ip.src()).zip(mapped(ip.dst()));
    let (src, dst) = ends.ok_or(NOT_MAPPED)?;
    let (length, ttl, next) = (ip.payload_len(), ip.hop_limit(), ip.next_header());
    if length > wire::ip::LONGEST - ip_header::LEN {
        return Err(TOO_LONG);
    }
    ip_header::cut(packet, ip6::LEN + length);
    if !cx.advance(packet, ip6::LEN as isize) {
        return Err(BAD);
    }
    let protocol = match next {
        Protocol::ICMPV6 if translation::icmp_to_v4(packet) => Protocol::ICMP,
        Protocol::ICMPV6 | Protocol::FRAGMENT => return Err(UNTRANSLATED),
        other => other,
    };
    packet.push_front(ip_header::LEN).map_err(|_| BAD)?;
    let (bytes, behind) = packet.first_and_next();
    let (header, payload) = bytes.split_first_chunk_mut::<{ ip_header::LEN }>().ok_or(BAD)?;
    let repr = ipv4::Repr { ttl, dont_fragment: true, ..ipv4::Repr::between(src, dst, protocol, length) };
    let mut ip = ipv4::Header::new(header);
    repr.write(&mut ip);
    let _none = fill_checksum(protocol, (payload, behind), ip.addresses()); // of another protocol
    ip_header::mark(packet, 0, ip_header::LEN);
    packet.set_dst_ip(dst);
    Ok(())
}

/// Fills in the checksum of a payload that begins with its protocol's header; others stay.
fn fill_checksum(
    protocol: Protocol,
    (payload, behind): (&mut [u8], Option<&Packet>),
    addresses: Addresses,
) -> Option<()> {
    let there = Bytes::new(payload, behind).len();
    let (length, header_len) = match protocol {
        Protocol::TCP => (there, tcp::Header::of(&*payload)?.header_len().max(tcp::HEADER_LEN)),
        Protocol::UDP => (udp::Header::of(&*payload)?.total_len(), udp::HEADER_LEN),
        Protocol::ICMP => (there, icmpv4::HEADER_LEN),
        Protocol::ICMPV6 => (there, icmpv6::HEADER_LEN),
        _ => return None,
    };
    let field = |payload: &mut [u8], value: u16| {
        *payload.get_mut(checksum_offset(protocol)?..)?.first_chunk_mut()? = value.to_be_bytes();
        Some(())
    };
    if !(header_len..=there).contains(&length) {
        return None;
    }
    field(payload, 0)?;
    let sum = Bytes::new(payload, behind).sum(length)?;
    match protocol {
        Protocol::ICMP => field(payload, !sum),
        _ => {
            let sum = !checksum::combine(addresses.pseudo_header(protocol, length), sum);
            field(payload, if protocol == Protocol::UDP { checksum::never_zero(sum) } else { sum })
        }
    }
}
