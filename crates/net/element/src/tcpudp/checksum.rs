//! `SetUDPChecksum`, `SetTCPChecksum`: checksums made right.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graph::class::{Headers, positional};
use graph::{Class, Cx, Each, Fate, PerPacket};
use memory::Packet;
use wire::checksum;

use crate::ip::header;

/// The class for UDP.
pub static UDP: Class = Class {
    name: "SetUDPChecksum",
    brief: "sets the checksum of UDP datagrams",
    doc: "Packets are whole UDP datagrams in IP. Fragments and packets that are too short go to output 1, \
          or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    drops: &["fragment or short packet"],
    example: "SetUDPChecksum",
    see: &["CheckUDPHeader", "SetIPChecksum", "SetTCPChecksum"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    make: |setup, conf| {
        conf.complete()?;
        Ok(Each::boxed(SetUdpChecksum { warned: setup.common::<Warned>() }))
    },
    ..Class::BASE
};

/// The class for TCP.
pub static TCP: Class = Class {
    name: "SetTCPChecksum",
    brief: "sets the checksum of TCP segments",
    doc: "Packets are TCP segments in IP; those whose lengths contradict each other are dropped.",
    arguments: &[positional("FIXOFF", "whether a wrong data offset is put right; false")],
    drops: &["bad lengths"],
    example: "SetTCPChecksum",
    see: &["CheckTCPHeader", "SetIPChecksum", "SetUDPChecksum"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let fix = conf.positional("FIXOFF")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(SetTcpChecksum { fix }))
    },
    ..Class::BASE
};

/// Where a packet goes in the end: by source routing that is the last address of the
/// route (RFC 793, 3.1).
fn destination(header: &[u8]) -> u32 {
    let mut options = header.get(header::LEN..).unwrap_or(&[]);
    loop {
        let length = match *options {
            [] | [0, ..] => break,
            [1, ..] => 1,
            [_, length, ..] if length >= 2 && usize::from(length) <= options.len() => usize::from(length),
            _ => break,
        };
        let (option, rest) = options.split_at(length);
        if matches!(option, [131 | 137, length, ..] if *length >= 7) {
            return header::u32_at(option, length - 4);
        }
        options = rest;
    }
    header::u32_at(header, 16)
}

/// The sum of the pseudo header of an IPv4 packet whose payload has `length` bytes.
pub(super) fn pseudo_header(header: &[u8], length: usize) -> u16 {
    let (src, dst) = (header::u32_at(header, 12), destination(header));
    checksum::pseudo_header_v4(src.into(), dst.into(), header[9], length as u32)
}

/// The checksum of a segment whose checksum field is zero.
pub(crate) fn of(header: &[u8], segment: &[u8]) -> u16 {
    !checksum::combine(pseudo_header(header, segment.len()), checksum::sum(segment))
}

/// Whether one of a router's elements warned already.
#[derive(Debug, Default)]
struct Warned(AtomicBool);

/// See [`UDP`].
#[derive(Debug, Clone)]
pub struct SetUdpChecksum {
    warned: Arc<Warned>,
}

/// Sets a datagram's checksum; `None` when it is not all there.
pub(super) fn set_udp(packet: &mut Packet) -> Option<()> {
    let (header, rest) = header::split_mut(packet)?;
    if header::u16_at(header, 6) & 0x3FFF != 0 {
        return None;
    }
    let length = usize::from(header::u16_at(rest, 4));
    if rest.len() < length.max(8) {
        return None;
    }
    rest[6..8].fill(0);
    let sum = match of(header, &rest[..length]) {
        0 => 0xFFFF, // zero would say that there is none (RFC 768)
        sum => sum,
    };
    rest[6..8].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

impl PerPacket for SetUdpChecksum {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        if set_udp(packet).is_some() {
            return Fate::ON;
        }
        if cx.outputs() == 1 && !self.warned.0.swap(true, Ordering::Relaxed) {
            cx.say(&format!("{} :: {}: fragment or short packet\n", cx.name(), cx.class()));
        }
        Fate::out_or_drop(1, 0)
    }

    fn replicate(&self) -> Option<SetUdpChecksum> {
        Some(self.clone())
    }
}

/// See [`TCP`].
#[derive(Debug, Clone)]
pub struct SetTcpChecksum {
    fix: bool,
}

impl SetTcpChecksum {
    fn set(&self, packet: &mut Packet) -> Option<()> {
        let (header, rest) = header::split_mut(packet)?;
        let length = usize::from(header::u16_at(header, 2)).checked_sub(header.len())?;
        let segment = rest.get_mut(..length).filter(|segment| segment.len() >= 20)?;
        if self.fix {
            let words = usize::from(segment[12] >> 4);
            let is_fragment = header::u16_at(header, 6) & 0x3FFF != 0;
            let fixed = match words {
                0..5 => 5,
                _ if words * 4 > length && !is_fragment => length / 4,
                _ => words,
            };
            segment[12] = segment[12] & 0xF | (fixed << 4) as u8;
        }
        segment[16..18].fill(0);
        let sum = of(header, segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        Some(())
    }
}

impl PerPacket for SetTcpChecksum {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        if self.set(packet).is_some() {
            return Fate::ON;
        }
        cx.say("SetTCPChecksum: bad lengths\n");
        Fate::drop(0)
    }

    fn replicate(&self) -> Option<SetTcpChecksum> {
        Some(self.clone())
    }
}
