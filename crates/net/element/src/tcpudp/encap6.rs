//! `UDPIP6Encap`: UDP and IPv6 headers in front (RFC 8200).

use std::net::Ipv6Addr;

use graph::class::{Handlers, Headers, mandatory, setting};
use graph::value::{Scope, Value};
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use wire::ip::Protocol;
use wire::{checksum, ipv6, udp};

use crate::ip::ip6;
use graph::annotation::{DST_IP6, PacketAnnotations};
use graph::chain::Bytes;
use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "UDPIP6Encap",
    brief: "makes a UDP datagram in an IPv6 packet of each packet",
    doc: "Puts an IPv6 and a UDP header with its checksum in front, and sets the destination annotation to \
          DST.",
    arguments: &[
        mandatory("SRC", "whom it is from"),
        mandatory("SPORT", "and from which port"),
        mandatory("DST", "whom it is to, or DST_ANNO for what the annotation says"),
        mandatory("DPORT", "and to which port"),
    ],
    handlers: &Handlers::<UdpIp6Encap>(&[
        setting("src", "whom it is from", |encap| encap.ends.src.to_string(), (0, "SRC")),
        setting("sport", "and from which port", |encap| encap.ends.ports[0].to_string(), (1, "SPORT")),
        setting(
            "dst",
            "whom it is to, or DST_ANNO",
            |encap| encap.ends.dst.map_or("DST_ANNO".into(), |dst| dst.to_string()),
            (2, "DST"),
        ),
        setting("dport", "and to which port", |encap| encap.ends.ports[1].to_string(), (3, "DPORT")),
    ]),
    drops: &[Reason::NoHeadroom, Reason::TooLong],
    live: true,
    example: "UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, 1234)",
    see: &["UDPIPEncap", "CheckIP6Header", "Strip"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let src = conf.mandatory("SRC")?;
        let sport = conf.mandatory("SPORT")?;
        let dst: String = conf.mandatory("DST")?;
        let dport = conf.mandatory("DPORT")?;
        conf.complete()?;
        let dst = parse_dst(&dst, conf.scope()).ok_or("bad DST")?;
        let ends = Ends { src, dst, ports: [sport, dport] };
        Ok(Each::boxed(UdpIp6Encap { ends }))
    },
    ..Class::BASE
};

const HEADERS: usize = ip6::LEN + udp::HEADER_LEN;

#[derive(Debug, Clone, Copy)]
struct Ends {
    src: Ipv6Addr,
    /// `None`: what the annotation says.
    dst: Option<Ipv6Addr>,
    ports: [u16; 2],
}

fn parse_dst(text: &str, scope: &Scope<'_>) -> Option<Option<Ipv6Addr>> {
    match text.trim() {
        "DST_ANNO" => Some(None),
        text => Ipv6Addr::parse(text, scope).ok().map(Some),
    }
}

/// A `UDPIP6Encap` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct UdpIp6Encap {
    ends: Ends,
}

impl UdpIp6Encap {
    fn write_headers(&self, packet: &mut Packet) -> Option<()> {
        let Ends { src, dst, ports } = self.ends;
        let dst = dst.unwrap_or_else(|| Ipv6Addr::from(packet.bytes_at::<16>(DST_IP6)));
        let length = u16::try_from(packet.total_len() - ip6::LEN).ok()?;
        let (bytes, behind) = packet.first_and_next();
        let (ip, bytes) = bytes.split_first_chunk_mut::<{ ip6::LEN }>()?;
        let addresses = ipv6::Header::new(ip).fill(src, dst, Protocol::UDP, length, 0xFF);
        let payload_len = usize::from(length).checked_sub(udp::HEADER_LEN)?;
        let udp = udp::Repr { src_port: ports[0], dst_port: ports[1], payload_len };
        udp.write(&mut udp::Header::of_mut(bytes)?);
        let pseudo = addresses.pseudo_header(Protocol::UDP, length.into());
        let sum = checksum::combine(pseudo, Bytes::new(bytes, behind).sum(length.into())?);
        udp::Header::of_mut(bytes)?.set_checksum(checksum::never_zero(!sum));
        ip_header::mark(packet, 0, ip6::LEN);
        packet.set_bytes_at(DST_IP6, dst.octets());
        Some(())
    }
}

impl PerPacket for UdpIp6Encap {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if !cx.has_headroom(packet, HEADERS) {
            return Action::drop(0);
        }
        if packet.push_front(HEADERS).is_err() {
            return Action::drop(0);
        }
        if self.write_headers(packet).is_some() { Action::ON } else { Action::drop(1) }
    }

    fn replicate(&self) -> Option<UdpIp6Encap> {
        Some(self.clone())
    }
}
