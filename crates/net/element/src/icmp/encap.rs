//! `ICMPIPEncap`: ICMP messages made of packets (RFC 792).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::class::{Handlers, Headers, both, keyword, mandatory, positional};
use graph::{Action, Class, Cx, Each, PerPacket, Refused};
use memory::Packet;
use wire::ip::{LONGEST, Protocol};
use wire::{icmpv4, ipv4};

use super::kind;
use graph::annotation::PacketAnnotations;
use graph::chain::Bytes;
use graph::ip_header;
use port::Reason;

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
    handlers: &Handlers::<IcmpIpEncap>(&[
        both(
            "src",
            "whom it is from",
            |encap: &IcmpIpEncap| encap.end(SRC),
            |encap, _, value| encap.set_end(SRC, value),
        )
        .marked("."),
        both(
            "dst",
            "whom it is to",
            |encap: &IcmpIpEncap| encap.end(DST),
            |encap, _, value| encap.set_end(DST, value),
        )
        .marked("."),
    ]),
    drops: &[Reason::NoHeadroom, Reason::TooLong],
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

/// Places of the addresses.
const SRC: usize = 0;
const DST: usize = 1;

/// An `ICMPIPEncap` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct IcmpIpEncap {
    ends: Arc<[AtomicU32; 2]>,
    kind: u8,
    code: u8,
    identifier: u16,
    number: u16,
}

impl IcmpIpEncap {
    /// Bytes of the message's header, as Click has it: it knows nothing of masks.
    fn header_len(&self) -> usize {
        match self.kind {
            icmpv4::TIMESTAMP | icmpv4::TIMESTAMP_REPLY => icmpv4::TIMESTAMP_LEN,
            _ => icmpv4::HEADER_LEN,
        }
    }

    /// Writes both headers; `None` where there is no room for them.
    fn write_headers(&self, packet: &mut Packet, [src, dst]: [u32; 2]) -> Option<()> {
        let payload_len = packet.total_len().checked_sub(ip_header::LEN)?;
        let (bytes, behind) = packet.first_and_next();
        let ip = ipv4::Repr {
            ttl: 255,
            identification: self.number,
            ..ipv4::Repr::between(src.into(), dst.into(), Protocol::ICMP, payload_len)
        };
        ip.emit(&mut ipv4::Packet::new_unchecked(&mut *bytes));
        let message = bytes.get_mut(ip_header::LEN..)?;
        message.get_mut(..self.header_len())?.fill(0);
        let mut icmp = icmpv4::Header::of_mut(message)?;
        icmp.set_message_type(self.kind);
        icmp.set_code(self.code);
        if icmpv4::is_numbered(self.kind) {
            icmp.set_identifier(self.identifier);
            icmp.set_sequence(self.number);
        }
        let sum = !Bytes::new(message, behind).sum(payload_len)?;
        icmpv4::Header::of_mut(message)?.set_checksum(sum);
        Some(())
    }

    fn end(&self, which: usize) -> String {
        Ipv4Addr::from_bits(self.ends[which].load(Ordering::Relaxed)).to_string()
    }

    fn set_end(&self, which: usize, value: &str) -> Result<(), Refused> {
        let address: Ipv4Addr = value.trim().parse().map_err(|_| "syntax error")?;
        self.ends[which].store(address.to_bits(), Ordering::Relaxed);
        Ok(())
    }
}

impl PerPacket for IcmpIpEncap {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if !cx.has_headroom(packet, ip_header::LEN + self.header_len()) {
            return Action::drop(0);
        }
        if packet.total_len() > LONGEST - ip_header::LEN - self.header_len() {
            return Action::drop(1);
        }
        if packet.push_front(ip_header::LEN + self.header_len()).is_err() {
            return Action::drop(0);
        }
        let ends = self.ends.each_ref().map(|end| end.load(Ordering::Relaxed));
        if self.write_headers(packet, ends).is_none() {
            return Action::drop(0);
        }
        self.number = self.number.wrapping_add(if self.number == 0xFFFF { 2 } else { 1 });
        ip_header::mark(packet, 0, ip_header::LEN);
        packet.set_dst_ip(Ipv4Addr::from_bits(ends[1]));
        Action::ON
    }

    fn replicate(&self) -> Option<IcmpIpEncap> {
        Some(self.clone())
    }
}
