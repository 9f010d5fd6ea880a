//! `UDPIPEncap`, `DynamicUDPIPEncap`: UDP and IP headers in front.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::class::{Handlers, Headers, NO_HANDLERS, mandatory, positional, setting};
use graph::element::kernel::Kernel;
use graph::value::{Scope, Value};
use graph::{Action, Class, Cx, Each, PerPacket, Refused};
use memory::Packet;
use wire::ip::{LONGEST, Protocol};
use wire::{ipv4, udp};

use super::checksum;
use super::words::{Port, UdpPort};
use crate::kernels::each;
use graph::annotation::PacketAnnotations;
use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "UDPIPEncap",
    brief: "makes a UDP datagram in an IP packet of each packet",
    doc: "Puts an IP and a UDP header in front, and sets the destination annotation to DST.",
    arguments: &[
        mandatory("SRC", "whom it is from"),
        mandatory("SPORT", "and from which port"),
        mandatory("DST", "whom it is to, or DST_ANNO for what the annotation says"),
        mandatory("DPORT", "and to which port"),
        positional("CHECKSUM", "whether there is a checksum; true"),
    ],
    handlers: &Handlers::<UdpIpEncap>(&[
        setting("src", "whom it is from", |encap| encap.address(0), (0, "SRC")),
        setting("sport", "and from which port", |encap| encap.port(0), (1, "SPORT")),
        setting("dst", "whom it is to; 0.0.0.0 for DST_ANNO", |encap| encap.address(1), (2, "DST")),
        setting("dport", "and to which port", |encap| encap.port(1), (3, "DPORT")),
    ]),
    drops: &[Reason::NoHeadroom, Reason::TooLong],
    example: "UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234)",
    see: &["IPEncap", "EtherEncap", "Strip", "FastUDPSource"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    live: true,
    kernel: Kernel::Inside(each!(UdpIpEncap)),
    make: |_, conf| {
        let src: Ipv4Addr = conf.mandatory("SRC")?;
        let Port(sport): UdpPort = conf.mandatory("SPORT")?;
        let dst: String = conf.mandatory("DST")?;
        let Port(dport): UdpPort = conf.mandatory("DPORT")?;
        let checksum = conf.positional("CHECKSUM")?.unwrap_or(true);
        conf.complete()?;
        let dst = parse_dst(&dst, conf.scope()).ok_or("bad DST")?;
        let ends = [end(Some(src), sport), end(dst, dport)].map(AtomicU64::new);
        Ok(Each::boxed(UdpIpEncap { ends: Arc::new(ends), checksum, number: 0, interval: 0, count: 0 }))
    },
    ..Class::BASE
};

/// The class whose ports count up.
pub static DYNAMIC: Class = Class {
    name: "DynamicUDPIPEncap",
    brief: "makes UDP datagrams whose ports count up",
    doc: "As UDPIPEncap; after INTERVAL packets both ports are the next ones.",
    arguments: &[
        mandatory("SRC", "whom it is from"),
        mandatory("SPORT", "and from which port at first"),
        mandatory("DST", "whom it is to"),
        mandatory("DPORT", "and to which port at first"),
        positional("CHECKSUM", "whether there is a checksum; true"),
        positional("INTERVAL", "after how many packets the ports change; 0 for never"),
    ],
    handlers: NO_HANDLERS,
    example: "DynamicUDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234, true, 10)",
    see: &["UDPIPEncap", "FastUDPFlows"],
    live: false,
    kernel: Kernel::Unwritten,
    make: |_, conf| {
        let src: Ipv4Addr = conf.mandatory("SRC")?;
        let Port(sport): UdpPort = conf.mandatory("SPORT")?;
        let dst: Ipv4Addr = conf.mandatory("DST")?;
        let Port(dport): UdpPort = conf.mandatory("DPORT")?;
        let checksum = conf.positional("CHECKSUM")?.unwrap_or(true);
        let interval: u32 = conf.positional("INTERVAL")?.unwrap_or(0);
        conf.complete()?;
        let ends = [end(Some(src), sport), end(Some(dst), dport)].map(AtomicU64::new);
        Ok(Each::boxed(UdpIpEncap { ends: Arc::new(ends), checksum, number: 0, interval, count: 0 }))
    },
    ..CLASS
};

/// Bytes of both headers.
const HEADERS: usize = ip_header::LEN + udp::HEADER_LEN;
/// In the place of an address: what the annotation says.
const ANNOTATED: u64 = 1 << 48;

/// An address and a port as one value, for threads to read at once.
fn end(address: Option<Ipv4Addr>, port: u16) -> u64 {
    address.map_or(ANNOTATED, |address| u64::from(address.to_bits()) << 16) | u64::from(port)
}

/// `Some(None)` is `DST_ANNO`.
fn parse_dst(text: &str, scope: &Scope<'_>) -> Option<Option<Ipv4Addr>> {
    match text.trim() {
        "DST_ANNO" => Some(None),
        text => Ipv4Addr::parse(text, scope).ok().map(Some),
    }
}

/// A `UDPIPEncap` or `DynamicUDPIPEncap` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct UdpIpEncap {
    ends: Arc<[AtomicU64; 2]>,
    checksum: bool,
    number: u16,
    /// After how many packets the ports change, and how many there were since.
    interval: u32,
    count: u32,
}

impl UdpIpEncap {
    #[inline]
    fn write_headers(&mut self, packet: &mut Packet) -> Option<()> {
        let [src, dst] = self.ends.each_ref().map(|end| end.load(Ordering::Relaxed));
        let to = if dst & ANNOTATED != 0 { packet.dst_ip() } else { Ipv4Addr::from_bits((dst >> 16) as u32) };
        let length = packet.total_len();
        let headers = packet.first_chunk_mut::<HEADERS>()?;
        let (ip, udp) = headers.split_first_chunk_mut()?;
        let (mut ip, mut udp) = (ipv4::Header::new(ip), udp::Header::of_mut(udp)?);
        let from = Ipv4Addr::from_bits((src >> 16) as u32);
        let whole = ipv4::Repr::between(from, to, Protocol::UDP, length - ip_header::LEN);
        ipv4::Repr { ttl: 250, identification: self.number, ..whole }.write(&mut ip);
        let payload_len = length - ip_header::LEN - udp::HEADER_LEN;
        udp::Repr { src_port: src as u16, dst_port: dst as u16, payload_len }.write(&mut udp);
        self.number = self.number.wrapping_add(1);
        ip_header::mark(packet, 0, ip_header::LEN);
        packet.set_dst_ip(to);
        if self.checksum { checksum::set_udp(packet) } else { Some(()) }
    }

    /// The address of the source (0) or the destination (1).
    fn address(&self, end: usize) -> String {
        match self.ends[end].load(Ordering::Relaxed) {
            end if end & ANNOTATED == 0 => Ipv4Addr::from_bits((end >> 16) as u32).to_string(),
            _ => "0.0.0.0".into(),
        }
    }

    /// The port of one of them.
    fn port(&self, end: usize) -> String {
        (self.ends[end].load(Ordering::Relaxed) as u16).to_string()
    }
}

impl PerPacket for UdpIpEncap {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if !cx.has_headroom(packet, HEADERS) {
            return Action::drop(0);
        }
        if packet.next().is_some() && packet.total_len() > LONGEST - HEADERS {
            return Action::drop(1);
        }
        if packet.push_front(HEADERS).is_err() {
            return Action::drop(0);
        }
        if self.write_headers(packet).is_none() {
            return Action::drop(1);
        }
        self.count = self.count.wrapping_add(1);
        if self.count == self.interval {
            self.count = 0;
            for end in self.ends.iter() {
                let old = end.load(Ordering::Relaxed);
                end.store(old & !0xFFFF | u64::from((old as u16).wrapping_add(1)), Ordering::Relaxed);
            }
        }
        Action::ON
    }

    fn reconfigure(&mut self, _: &mut Cx<'_>, new: UdpIpEncap) -> Result<(), Refused> {
        *self = UdpIpEncap { number: self.number, ..new };
        Ok(())
    }

    fn replicate(&self) -> Option<UdpIpEncap> {
        (self.interval == 0).then(|| self.clone())
    }
}
