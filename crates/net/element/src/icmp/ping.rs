//! `ICMPPingResponder`, `ICMPPingEncap`: echo requests and their answers (RFC 792).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::class::{Handlers, Headers, both, keyword, mandatory};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket, Refused};
use memory::Packet;
use wire::ip::{LONGEST, Protocol};
use wire::{icmpv4, ipv4};

use crate::kernels::each;
use graph::annotation::{PAINT, PacketAnnotations};
use graph::chain::Bytes;
use graph::ip_header;
use port::Reason;

/// The class of what answers.
pub static RESPONDER: Class = Class {
    name: "ICMPPingResponder",
    brief: "answers ICMP echo requests",
    doc: "An echo request becomes its reply: addresses exchanged, a full time to live, checksums right. All \
          other packets go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    drops: &[Reason::NoEchoRequest],
    example: "CheckIPHeader(14) -> CheckICMPHeader -> ICMPPingResponder -> rt;",
    see: &["ICMPPingEncap", "ICMPError", "IPMirror"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(PingResponder)),
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(PingResponder))
    },
    ..Class::BASE
};

/// The class of what makes requests of packets.
pub static ENCAP: Class = Class {
    name: "ICMPPingEncap",
    brief: "makes an ICMP echo request of each packet",
    doc: "Puts an IP and an ICMP header in front; the sequence number counts from 1.",
    arguments: &[
        mandatory("SRC", "whom it is from"),
        mandatory("DST", "whom it is to"),
        keyword("IDENTIFIER", "which series of requests this is; 0"),
    ],
    handlers: &Handlers::<PingEncap>(&[
        both(
            "src",
            "whom it is from",
            |encap: &PingEncap| encap.end(SRC),
            |encap, _, value| encap.set_end(SRC, value),
        )
        .marked("."),
        both(
            "dst",
            "whom it is to",
            |encap: &PingEncap| encap.end(DST),
            |encap, _, value| encap.set_end(DST, value),
        )
        .marked("."),
    ]),
    drops: &[Reason::NoHeadroom, Reason::TooLong],
    example: "RatedSource(RATE 1) -> ICMPPingEncap(10.0.0.1, 10.0.0.2) -> rt;",
    see: &["ICMPPingResponder", "ICMPPingSource", "IPEncap"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let src: Ipv4Addr = conf.mandatory("SRC")?;
        let dst: Ipv4Addr = conf.mandatory("DST")?;
        let identifier = conf.keyword("IDENTIFIER")?.unwrap_or(0);
        conf.complete()?;
        let ends = [src, dst].map(|address| AtomicU32::new(address.to_bits()));
        Ok(Each::boxed(PingEncap { ends: Arc::new(ends), identifier, number: 1 }))
    },
    ..Class::BASE
};

/// An `ICMPPingResponder` element; [`RESPONDER`] says what it does.
#[derive(Debug, Clone)]
pub struct PingResponder;

impl PingResponder {
    fn answer(packet: &mut Packet) -> Option<Ipv4Addr> {
        let (header, message) = ip_header::split_mut(packet)?;
        let mut ip = ipv4::Header::of_mut(header)?;
        if !neighbor::reply_to_echo_v4(&mut ip, message, 255) {
            return None;
        }
        ip.update_fragment_word(0);
        Some(ip.dst())
    }
}

impl PerPacket for PingResponder {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(dst) = PingResponder::answer(packet) else { return Action::out_or_drop(1, 0) };
        packet.set_dst_ip(dst);
        packet.set_u8_at(PAINT, 0);
        packet.annotations_mut().timestamp_ns = cx.now_ns();
        Action::ON
    }

    fn replicate(&self) -> Option<PingResponder> {
        Some(self.clone())
    }
}

/// An `ICMPPingEncap` element; [`ENCAP`] says what it does.
#[derive(Debug, Clone)]
pub struct PingEncap {
    ends: Arc<[AtomicU32; 2]>,
    identifier: u16,
    number: u16,
}

/// Writes an echo request's headers in front of its data; `None` where these are not all there.
pub(super) fn write_request(
    packet: &mut Packet,
    [src, dst]: [u32; 2],
    ttl: u8,
    identifier: u16,
    number: u16,
) -> Option<()> {
    let payload_len = packet.total_len().checked_sub(ip_header::LEN)?;
    let (bytes, behind) = packet.first_and_next();
    let ip = ipv4::Repr {
        ttl,
        identification: number,
        ..ipv4::Repr::between(src.into(), dst.into(), Protocol::ICMP, payload_len)
    };
    ip.emit(&mut ipv4::Packet::new_unchecked(&mut *bytes));
    let message = bytes.get_mut(ip_header::LEN..)?;
    let mut icmp = icmpv4::Header::of_mut(message)?;
    icmp.set_message_type(icmpv4::ECHO_REQUEST);
    icmp.set_code(0);
    icmp.set_identifier(identifier);
    icmp.set_sequence(number);
    icmp.set_checksum(0);
    let sum = !Bytes::new(message, behind).sum(payload_len)?;
    icmpv4::Header::of_mut(message)?.set_checksum(sum);
    Some(())
}

/// Places of the addresses.
const SRC: usize = 0;
const DST: usize = 1;

impl PingEncap {
    fn end(&self, which: usize) -> String {
        Ipv4Addr::from_bits(self.ends[which].load(Ordering::Relaxed)).to_string()
    }

    fn set_end(&self, which: usize, value: &str) -> Result<(), Refused> {
        let address: Ipv4Addr = value.trim().parse().map_err(|_| "syntax error")?;
        self.ends[which].store(address.to_bits(), Ordering::Relaxed);
        Ok(())
    }
}

impl PerPacket for PingEncap {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if !cx.has_headroom(packet, ip_header::LEN + icmpv4::HEADER_LEN) {
            return Action::drop(0);
        }
        if packet.total_len() > LONGEST - ip_header::LEN - icmpv4::HEADER_LEN {
            return Action::drop(1);
        }
        if packet.push_front(ip_header::LEN + icmpv4::HEADER_LEN).is_err() {
            return Action::drop(0);
        }
        let ends = self.ends.each_ref().map(|end| end.load(Ordering::Relaxed));
        if write_request(packet, ends, 255, self.identifier, self.number).is_none() {
            return Action::drop(0);
        }
        self.number = self.number.wrapping_add(if self.number == 0xFFFF { 2 } else { 1 });
        ip_header::mark(packet, 0, ip_header::LEN);
        packet.set_dst_ip(Ipv4Addr::from_bits(ends[1]));
        Action::ON
    }

    fn replicate(&self) -> Option<PingEncap> {
        Some(self.clone())
    }
}
