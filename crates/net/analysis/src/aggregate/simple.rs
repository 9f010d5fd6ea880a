//! `AggregateLength`, `AggregatePaint`: aggregates of what is at hand.

use graph::class::{keyword, positional};
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;

use graph::annotation::{AGGREGATE, EXTRA_LENGTH, PAINT, PacketAnnotations};
use port::Reason;

pub static LENGTH: Class = Class {
    name: "AggregateLength",
    brief: "makes packets' lengths their aggregates",
    doc: "The length counts bytes that were cut off, too. With IP it begins at the IP header; packets of which \
          none is known go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[keyword("IP", "from the IP header on; false")],
    drops: &[Reason::NoIpHeader],
    example: "FromDump(in.pcap) -> AggregateLength -> AggregateCounter -> Discard",
    see: &["AggregateIP", "AggregateCounter"],
    make: |_, conf| {
        let ip = conf.keyword("IP")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(Length(ip)))
    },
    ..Class::BASE
};

pub static PAINTED: Class = Class {
    name: "AggregatePaint",
    brief: "makes packets' colours their aggregates",
    doc: "Takes the lowest BITS of the colour. With INCREMENTAL they are put behind those of the aggregate that \
          the packet has already.",
    arguments: &[positional("BITS", "how many; 8"), keyword("INCREMENTAL", "behind the others; false")],
    example: "Paint(3) -> AggregatePaint -> AggregateCounter",
    see: &["AggregateIP", "AggregateLength", "Paint"],
    make: |_, conf| {
        let bits: i32 = conf.positional("BITS")?.unwrap_or(8);
        let incremental = conf.keyword("INCREMENTAL")?.unwrap_or(false);
        conf.complete()?;
        if !(1..=8).contains(&bits) {
            return Err("bad number of bits".into());
        }
        Ok(Each::boxed(Painted { bits: bits as u32, incremental }))
    },
    ..Class::BASE
};

/// An `AggregateLength` element; [`LENGTH`] says what it does.
#[derive(Debug, Clone)]
pub struct Length(bool);

impl PerPacket for Length {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let offset = match (self.0, packet.header_offset(Header::Network)) {
            (false, _) => 0,
            (true, Some(offset)) => offset,
            (true, None) => return Action::out_or_drop(1, 0),
        };
        let length = packet.total_len() as i64 - offset as i64 + i64::from(packet.u32_at(EXTRA_LENGTH));
        packet.set_u32_at(AGGREGATE, length as u32);
        Action::ON
    }

    fn replicate(&self) -> Option<Length> {
        Some(self.clone())
    }
}

/// An `AggregatePaint` element; [`PAINTED`] says what it does.
#[derive(Debug, Clone)]
pub struct Painted {
    bits: u32,
    incremental: bool,
}

impl PerPacket for Painted {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let colour = u32::from(packet.u8_at(PAINT)) & ((1 << self.bits) - 1);
        let before = if self.incremental { packet.u32_at(AGGREGATE) << self.bits } else { 0 };
        packet.set_u32_at(AGGREGATE, before.wrapping_add(colour));
        Action::ON
    }

    fn replicate(&self) -> Option<Painted> {
        Some(self.clone())
    }
}
