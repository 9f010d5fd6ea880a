//! `AggregateIP`: aggregates of header fields.

use graph::class::{Handlers, keyword, mandatory, read};
use graph::value::Raw;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ip::Protocol;
use wire::{ipv4, tcp, udp};

use super::field::{Field, Part};
use graph::annotation::{AGGREGATE, PacketAnnotations};
use graph::ip_header::is_first_fragment;
use port::Reason;

pub static CLASS: Class = Class {
    name: "AggregateIP",
    brief: "makes a field of a header the aggregate",
    doc: "FIELD is a header and a name (`ip tos`, `tcp sport`, `icmp type`), or a header, `transp` or `data` and \
          a place in it: `ip[12]`, `transp[0:2]`, `tcp{107}` in bits, `ip[2-3]`. A prefix `/8` takes the first \
          bits of it, a mask `& 0xF0` some in a row. A field lies within one word of 32 bits. Packets that do \
          not have it go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        mandatory("FIELD", "which field"),
        keyword("INCREMENTAL", "puts it behind the aggregate that the packet has already; false"),
        keyword("UNSHIFT_IP_ADDR", "a part of an address stays at its place in it; false"),
    ],
    handlers: &Handlers::<AggregateIp>(&[
        read("header", "the header it is in", |aggregate| aggregate.field.part.name()),
        read("bit_offset", "its first bit", |aggregate| aggregate.field.offset.to_string()),
        read("bit_length", "how many bits", |aggregate| aggregate.field.length.to_string()),
        read("field", "the field", |aggregate| aggregate.field.to_string()),
    ]),
    drops: &[Reason::NoSuchField],
    example: "FromDump(in.pcap, FORCE_IP true) -> AggregateIP(ip dst/24) -> AggregateCounter -> Discard",
    see: &["AggregateLength", "AggregateIPFlows", "AggregateCounter", "AggregatePaint"],
    make: |_, conf| {
        let Raw(text) = conf.mandatory("FIELD")?;
        let incremental = conf.keyword("INCREMENTAL")?.unwrap_or(false);
        let unshift = conf.keyword("UNSHIFT_IP_ADDR")?.unwrap_or(false);
        conf.complete()?;
        let text = String::from_utf8_lossy(&graph::lang::args::unquote(&text)).into_owned();
        let field = Field::parse(&text)?;
        let last = field.offset + field.length - 1;
        if field.offset / 32 != last / 32 {
            return Err("field specification does not fit within a single word".into());
        }
        if field.length == 32 && incremental {
            return Err("'INCREMENTAL' is incompatible with field length 32".into());
        }
        let mut mask = u32::MAX >> (32 - field.length);
        let mut shift = 31 - last % 32;
        if unshift && field.part == Part::Ip && (96..160).contains(&field.offset) {
            (mask, shift) = (mask << shift, 0);
        }
        Ok(Each::boxed(AggregateIp { field, incremental, mask, shift }))
    },
    ..Class::BASE
};

/// An `AggregateIP` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct AggregateIp {
    field: Field,
    incremental: bool,
    mask: u32,
    shift: u32,
}

impl AggregateIp {
    /// The header, and what follows.
    fn part<'a>(&self, packet: &'a Packet) -> Option<&'a [u8]> {
        let ip = packet.header(Header::Network)?;
        if self.field.part == Part::Ip {
            return Some(ip);
        }
        let protocol = Protocol(*ip.get(ipv4::offset::PROTOCOL)?);
        let right = match self.field.part {
            Part::Protocol(own) => protocol == own,
            Part::Transport => true,
            _ => matches!(protocol, Protocol::TCP | Protocol::UDP),
        };
        let transport = packet.header(Header::Transport).filter(|_| right && is_first_fragment(ip))?;
        match (self.field.part, protocol) {
            (Part::Payload, Protocol::TCP) => {
                transport.get(tcp::header_len(*transport.get(tcp::offset::DATA_OFFSET)?)..)
            }
            (Part::Payload, _) => transport.get(udp::HEADER_LEN..),
            _ => Some(transport),
        }
    }
}

impl PerPacket for AggregateIp {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let at = (self.field.offset / 32 * 4) as usize;
        let word = self.part(packet).and_then(|part| part.get(at..)?.first_chunk().copied());
        let Some(word) = word else { return Action::out_or_drop(1, 0) };
        let value = u32::from_be_bytes(word) >> self.shift & self.mask;
        let before = match self.incremental {
            true => packet.u32_at(AGGREGATE).unbounded_shl(self.field.length),
            false => 0,
        };
        packet.set_u32_at(AGGREGATE, before.wrapping_add(value));
        Action::ON
    }

    fn replicate(&self) -> Option<AggregateIp> {
        Some(self.clone())
    }
}
