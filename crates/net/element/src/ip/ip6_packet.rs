//! Whole IPv6 packets (RFC 8200): `IP6Encap` makes them, `IP6Mirror` sends them back,
//! `SetIP6DSCP` marks them, `IP6Print` shows them.

use std::fmt::Write;
use std::net::Ipv6Addr;

use graph::class::{Handlers, Headers, keyword, mandatory, positional, setting};
use graph::value::{Raw, Value};
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ip::{Ports, Protocol};
use wire::names::PROTOCOLS;
use wire::{ipv6, udp};

use super::ip6::LEN;
use graph::annotation::{DST_IP6, PacketAnnotations};
use graph::chain::Bytes;
use graph::ip_header;
use port::Reason;

const NEEDS: Headers = Headers { needs_network: true, ..Class::BASE.headers };

/// The class of what makes packets.
pub static ENCAP: Class = Class {
    name: "IP6Encap",
    brief: "puts an IPv6 header in front of packets",
    doc: "With `DST_ANNO` packets go to their destination annotation; without, the annotation becomes DST.",
    arguments: &[
        mandatory("PROTO", "what the header says that follows: a number or name"),
        mandatory("SRC", "the source address"),
        mandatory("DST", "the destination address, or `DST_ANNO`"),
        keyword("HLIM", "the hop limit; 250"),
        keyword("CLASS", "the traffic class; 0"),
    ],
    handlers: &Handlers::<Encap>(&[
        setting("src", "the source address", |encap: &Encap| unparse(encap.src), (1, "SRC")).marked("."),
        setting(
            "dst",
            "the destination address, or DST_ANNO",
            |encap: &Encap| encap.dst.map_or("DST_ANNO".into(), unparse),
            (2, "DST"),
        )
        .marked("."),
    ]),
    live: true,
    drops: &[Reason::NoRoom, Reason::TooLong],
    example: "IP6Encap(udp, 2001:db8::1, DST_ANNO)",
    see: &["IPEncap", "CheckIP6Header"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let scope = *conf.scope();
        let protocol: Raw = conf.mandatory("PROTO")?;
        let src: Ipv6Addr = conf.mandatory("SRC")?;
        let dst: Raw = conf.mandatory("DST")?;
        let hops: u8 = conf.keyword("HLIM")?.unwrap_or(250);
        let class: u8 = conf.keyword("CLASS")?.unwrap_or(0);
        conf.complete()?;
        let known = PROTOCOLS.iter().find(|(name, _)| *name == protocol.0).map(|(_, number)| *number);
        let protocol = match known {
            Some(number) => number,
            None => Protocol(u8::parse(&protocol.0, &scope).map_err(|_| "bad IP protocol")?),
        };
        let dst = match dst.0.as_str() {
            "DST_ANNO" => None,
            text => Some(
                Ipv6Addr::parse(text, &scope)
                    .map_err(|_| "DST argument should be IP address or 'DST_ANNO'")?,
            ),
        };
        Ok(Each::boxed(Encap { protocol, src, dst, hops, class }))
    },
    ..Class::BASE
};

/// The class of what sends packets back.
pub static MIRROR: Class = Class {
    name: "IP6Mirror",
    brief: "swaps the addresses of IPv6 packets, and the ports of TCP and UDP",
    doc: "Checksums stay right.",
    drops: &[Reason::NoIpHeader],
    example: "CheckIP6Header(OFFSET 14) -> IP6Mirror",
    see: &["IPMirror", "EtherMirror"],
    headers: NEEDS,
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(Mirror))
    },
    ..Class::BASE
};

/// The class of what marks packets.
pub static DSCP: Class = Class {
    name: "SetIP6DSCP",
    brief: "sets the differentiated services code point of IPv6 packets",
    doc: "The six upper bits of the traffic class become DSCP (RFC 2474).",
    arguments: &[mandatory("DSCP", "0 to 63")],
    handlers: &Handlers::<Dscp>(&[setting(
        "dscp",
        "the code point",
        |dscp: &Dscp| dscp.0.to_string(),
        (0, "DSCP"),
    )
    .marked(".")]),
    drops: &[Reason::NoIpHeader],
    live: true,
    example: "CheckIP6Header -> SetIP6DSCP(46)",
    see: &["SetIPDSCP"],
    headers: NEEDS,
    make: |_, conf| {
        let dscp: u32 = conf.mandatory("DSCP")?;
        conf.complete()?;
        if dscp > 63 {
            return Err("diffserv code point out of range".into());
        }
        Ok(Each::boxed(Dscp(dscp as u8)))
    },
    ..Class::BASE
};

/// The class of what shows packets.
pub static PRINT: Class = Class {
    name: "IP6Print",
    brief: "prints IPv6 packets for people to read",
    doc: "Prints addresses, payload length, next header and hop limit. The packets go on unchanged.",
    arguments: &[
        positional("LABEL", "begins each line; nothing"),
        keyword("CONTENTS", "shows the packet's bytes; false"),
        keyword("NBYTES", "bytes shown; 1500"),
    ],
    drops: &[Reason::NotConnected],
    example: "MarkIP6Header(14) -> IP6Print(in) -> Discard",
    see: &["IPPrint", "Print"],
    make: |_, conf| {
        let label = conf.positional("LABEL")?.unwrap_or_default();
        let contents = conf.keyword("CONTENTS")?.unwrap_or(false);
        let most = conf.keyword("NBYTES")?.unwrap_or(1500);
        conf.complete()?;
        Ok(Each::boxed(Print { label, most: if contents { most } else { 0 }, contents }))
    },
    ..Class::BASE
};

/// An address as Click writes it: one that is IPv4's in its last bytes as such.
pub(super) fn unparse(address: Ipv6Addr) -> String {
    match address.octets() {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] if !address.is_unspecified() => {
            format!("::{a}.{b}.{c}.{d}")
        }
        _ => address.to_string(),
    }
}

/// An `IP6Encap` element; [`ENCAP`] says what it does.
#[derive(Debug, Clone)]
pub struct Encap {
    protocol: Protocol,
    src: Ipv6Addr,
    /// `None`: that of the annotation.
    dst: Option<Ipv6Addr>,
    hops: u8,
    class: u8,
}

impl PerPacket for Encap {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Ok(length) = u16::try_from(packet.total_len()) else { return Action::drop(1) };
        let dst = self.dst.unwrap_or_else(|| packet.bytes_at::<16>(DST_IP6).into());
        if !cx.has_headroom(packet, LEN) {
            return Action::drop(0);
        }
        let room = packet.push_front(LEN).ok().and_then(ipv6::Header::of_mut);
        let Some(mut ip) = room else { return Action::drop(0) };
        let header = ipv6::Repr {
            src: self.src,
            dst,
            next_header: self.protocol,
            hop_limit: self.hops,
            traffic_class: self.class,
            flow_label: 0,
            payload_len: length.into(),
        };
        header.write(&mut ip);
        packet.set_bytes_at(DST_IP6, dst.octets());
        ip_header::mark(packet, 0, LEN);
        Action::ON
    }

    fn replicate(&self) -> Option<Encap> {
        Some(self.clone())
    }
}

/// An `IP6Mirror` element; [`MIRROR`] says what it does.
#[derive(Debug, Clone)]
pub struct Mirror;

impl PerPacket for Mirror {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let ip = packet.header_mut(Header::Network).and_then(ipv6::Header::of_mut);
        let Some(mut ip) = ip else { return Action::drop(0) };
        ip.swap_addresses();
        if matches!(ip.next_header(), Protocol::TCP | Protocol::UDP)
            && let Some(segment) = packet.header_mut(Header::Transport)
            && segment.len() >= udp::HEADER_LEN
            && let Some(mut ports) = Ports::of_mut(segment)
        {
            ports.swap();
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Mirror> {
        Some(Mirror)
    }
}

/// A `SetIP6DSCP` element; [`DSCP`] says what it does.
#[derive(Debug)]
pub struct Dscp(u8);

impl PerPacket for Dscp {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let header = packet.header_mut(Header::Network).and_then(|ip| ip.first_chunk_mut());
        let Some(start) = header else { return Action::drop(0) };
        ipv6::set_dscp(start, self.0);
        Action::ON
    }
}

/// An `IP6Print` element; [`PRINT`] says what it does.
#[derive(Debug, Clone)]
pub struct Print {
    label: String,
    contents: bool,
    most: usize,
}

impl Print {
    fn lines(&self, packet: &Packet) -> Option<String> {
        let ip = ipv6::Header::of(packet.header(Header::Network)?)?;
        let label = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        let mut out = format!(
            "{label}{} -> {} plen {}, next {}, hlim {}\n",
            unparse(ip.src()),
            unparse(ip.dst()),
            ip.payload_len(),
            ip.next_header().0,
            ip.hop_limit()
        );
        if self.contents {
            out.push_str("  ");
            for (i, byte) in Bytes::of(packet).front(self.most).iter().enumerate() {
                let _ = write!(out, "{byte:02x}");
                match i % 24 {
                    23 => out.push_str("\n  "),
                    place if place % 4 == 3 => out.push(' '),
                    _ => {}
                }
            }
            out.push('\n');
        }
        Some(out)
    }
}

impl PerPacket for Print {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if let Some(lines) = self.lines(packet) {
            cx.say(&lines);
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Print> {
        Some(self.clone())
    }
}
