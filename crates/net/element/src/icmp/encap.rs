//! `ICMPIPEncap`: ICMP messages made of packets (RFC 792).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::class::{Headers, both, keyword, mandatory, positional};
use graph::{Class, Cx, Each, Fate, PerPacket, Refused};
use memory::Packet;
use wire::checksum;

use super::kind;
use crate::annotation::Notes;
use crate::ip::header;

/// The class.
pub static CLASS: Class = Class {
    name: "ICMPIPEncap",
    brief: "makes an ICMP message of each packet",
    doc: "Puts an IP and an ICMP header of TYPE and CODE in front. Messages that have one get the IDENTIFIER, \
          and a sequence number that counts from 1.",
    arguments: &[
        mandatory("SRC", "whom it is from"),
        mandatory("DST", "whom it is to"),
        mandatory("TYPE", "the message's type, by name or number"),
        positional("CODE", "its code, by name or number; 0"),
        keyword("IDENTIFIER", "which series of messages this is; 0"),
    ],
    handlers: &[both("src", "whom it is from").marked("."), both("dst", "whom it is to").marked(".")],
    drops: &["no headroom", "too long"],
    example: "ICMPIPEncap(10.0.0.1, 10.0.0.2, unreachable, port)",
    see: &["ICMPPingEncap", "ICMPError", "IPEncap"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let src: Ipv4Addr = conf.mandatory("SRC")?;
        let dst: Ipv4Addr = conf.mandatory("DST")?;
        let kind: String = conf.mandatory("TYPE")?;
        let code: Option<String> = conf.positional("CODE")?;
        let identifier = conf.keyword("IDENTIFIER")?.unwrap_or(0);
        conf.complete()?;
        let kind = kind::number(&kind).ok_or("TYPE: expected ICMP type")?;
        let kind = u8::try_from(kind).map_err(|_| "invalid TYPE")?;
        let code = kind::code(kind, code.as_deref().unwrap_or("0")).ok_or("invalid CODE")?;
        let ends = [src, dst].map(|address| AtomicU32::new(address.to_bits()));
        Ok(Each::boxed(IcmpIpEncap { ends: Arc::new(ends), kind, code, identifier, number: 1 }))
    },
    ..Class::BASE
};

/// See [`CLASS`].
#[derive(Debug, Clone)]
pub struct IcmpIpEncap {
    ends: Arc<[AtomicU32; 2]>,
    kind: u8,
    code: u8,
    identifier: u16,
    number: u16,
}

impl IcmpIpEncap {
    /// Whether messages of this type have an identifier and a number: echoes,
    /// timestamps, information.
    fn is_numbered(&self) -> bool {
        matches!(self.kind, 0 | 8 | 13..=16)
    }

    /// Bytes of the message's header.
    fn header_len(&self) -> usize {
        match self.kind {
            13 | 14 => 20,
            _ => 8,
        }
    }

    fn write_headers(&self, bytes: &mut [u8], [src, dst]: [u32; 2]) {
        let length = bytes.len() as u16;
        let (ip, icmp) = bytes.split_at_mut(header::LEN);
        ip.fill(0);
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        ip[4..6].copy_from_slice(&self.number.to_be_bytes());
        (ip[8], ip[9]) = (255, 1);
        ip[12..16].copy_from_slice(&src.to_be_bytes());
        ip[16..20].copy_from_slice(&dst.to_be_bytes());
        header::fill_checksum(ip);
        icmp[..self.header_len()].fill(0);
        (icmp[0], icmp[1]) = (self.kind, self.code);
        if self.is_numbered() {
            icmp[4..6].copy_from_slice(&self.identifier.to_be_bytes());
            icmp[6..8].copy_from_slice(&self.number.to_be_bytes());
        }
        let sum = checksum::of(icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

impl PerPacket for IcmpIpEncap {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        if packet.next().is_some() {
            return Fate::drop(1);
        }
        if packet.push_front(header::LEN + self.header_len()).is_err() {
            return Fate::drop(0);
        }
        let ends = self.ends.each_ref().map(|end| end.load(Ordering::Relaxed));
        self.write_headers(packet, ends);
        self.number = self.number.wrapping_add(if self.number == 0xFFFF { 2 } else { 1 });
        header::mark(packet, 0, header::LEN);
        packet.set_dst_ip(Ipv4Addr::from_bits(ends[1]));
        Fate::ON
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        let which = usize::from(handler == "dst");
        Ok(Ipv4Addr::from_bits(self.ends[which].load(Ordering::Relaxed)).to_string())
    }

    fn write(&mut self, _: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        let address: Ipv4Addr = value.trim().parse().map_err(|_| "syntax error")?;
        self.ends[usize::from(handler == "dst")].store(address.to_bits(), Ordering::Relaxed);
        Ok(())
    }

    fn replicate(&self) -> Option<IcmpIpEncap> {
        Some(self.clone())
    }
}
