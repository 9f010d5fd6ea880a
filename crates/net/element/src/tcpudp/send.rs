//! `TCPIPSend`: TCP segments, whenever a handler asks for them.

use std::net::Ipv4Addr;

use graph::class::{Handlers, Headers, write};
use graph::value::{Scope, Value, unsigned};
use graph::{Class, Cx, Element, Refused};
use wire::ip::Protocol;
use wire::{ipv4, tcp};

use super::words::{TcpPort, Words};
use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "TCPIPSend",
    brief: "sends TCP segments when a handler is written",
    doc: "Write `SADDR SPORT DADDR DPORT SEQNO ACKNO FLAGS [COUNT [STOP]]` to `send`: COUNT segments without \
          data leave, and with STOP the router stops then.",
    ports: "0/1",
    processing: "h/h",
    handlers: &Handlers::<TcpIpSend>(&[write(
        "send",
        "`SADDR SPORT DADDR DPORT SEQNO ACKNO FLAGS [COUNT [STOP]]`: sends segments",
        TcpIpSend::send,
    )]),
    drops: &[Reason::NoBuffers],
    example: "s :: TCPIPSend -> Discard; Script(write s.send 1.0.0.1 10 2.0.0.2 20 1 0 2)",
    see: &["TCPRewriter", "FastTCPFlows"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        conf.complete()?;
        Ok(Box::new(TcpIpSend))
    },
    ..Class::BASE
};

/// The most segments at a time.
const MOST: u32 = 1 << 20;

/// An address, or the number that Click wants in its place: the bytes as x86 keeps them.
struct Address([u8; 4]);

impl Value for Address {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Address, String> {
        let number = unsigned(text).and_then(|number| u32::try_from(number).ok());
        match number {
            Some(number) => Ok(Address(number.to_le_bytes())),
            None => Ipv4Addr::parse(text, scope).map(|address| Address(address.octets())),
        }
    }
}

/// A `TCPIPSend` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct TcpIpSend;

/// A segment without data.
fn segment(src: (Address, u16), dst: (Address, u16), numbers: [u32; 2], flags: u8) -> Vec<u8> {
    let tcp = tcp::Repr {
        src_port: src.1,
        dst_port: dst.1,
        sequence: numbers[0],
        acknowledgement: numbers[1],
        flags: tcp::Flags(flags),
        window: 32_120,
        ..tcp::Repr::default()
    };
    let ip = ipv4::Repr {
        ttl: 255,
        dont_fragment: true,
        ..ipv4::Repr::between(src.0.0.into(), dst.0.0.into(), Protocol::TCP, tcp.header_len())
    };
    let mut bytes = vec![0; ip_header::LEN + tcp.header_len()];
    let mut packet = ipv4::Packet::new_unchecked(&mut bytes[..]);
    ip.emit(&mut packet);
    let addresses = packet.addresses();
    let mut segment = tcp::Segment::new_unchecked(packet.payload_mut());
    tcp.emit(&mut segment);
    segment.fill_checksum(addresses);
    bytes
}

impl TcpIpSend {
    fn send(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let mut words = Words::new(value, cx.scope());
        let src = (words.mandatory::<Address>("SRC"), words.mandatory::<TcpPort>("SPORT"));
        let dst = (words.mandatory::<Address>("DST"), words.mandatory::<TcpPort>("DPORT"));
        let numbers = (words.mandatory("SEQNO"), words.mandatory("ACKNO"), words.mandatory("FLAGS"));
        let (count, stop) = (words.next("COUNT").unwrap_or(1).min(MOST), words.next("STOP").unwrap_or(false));
        words.complete()?;
        let ((Some(src), Some(sport)), (Some(dst), Some(dport))) = (src, dst) else { return Ok(()) };
        let (Some(sequence), Some(acknowledged), Some(flags)) = numbers else { return Ok(()) };
        let bytes = segment((src, sport.0), (dst, dport.0), [sequence, acknowledged], flags);
        for _ in 0..count {
            let Some(mut packet) = cx.packet(&bytes) else {
                cx.count_drops(0, 1);
                continue;
            };
            ip_header::mark(&mut packet, 0, ip_header::LEN);
            cx.emit(0, packet);
        }
        if stop {
            cx.stop();
        }
        Ok(())
    }
}

impl Element for TcpIpSend {}
