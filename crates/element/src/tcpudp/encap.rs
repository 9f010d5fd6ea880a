//! `UDPIPEncap`: UDP and IP headers in front.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::class::{Headers, both, mandatory, positional};
use graph::value::{Scope, Value};
use graph::{Class, Cx, Each, Fate, PerPacket, Refused};
use memory::Packet;

use super::checksum;
use crate::annotation::Notes;
use crate::ip::header;

/// The class.
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
    handlers: &[
        both("src", "whom it is from"),
        both("sport", "and from which port"),
        both("dst", "whom it is to, or DST_ANNO"),
        both("dport", "and to which port"),
    ],
    drops: &["no headroom", "too long"],
    example: "UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234)",
    see: &["IPEncap", "EtherEncap", "Strip", "FastUDPSource"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let src: Ipv4Addr = conf.mandatory("SRC")?;
        let sport: u16 = conf.mandatory("SPORT")?;
        let dst: String = conf.mandatory("DST")?;
        let dport: u16 = conf.mandatory("DPORT")?;
        let checksum = conf.positional("CHECKSUM")?.unwrap_or(true);
        conf.complete()?;
        let dst = parse_dst(&dst, conf.scope()).ok_or("bad DST")?;
        let ends = [end(Some(src), sport), end(dst, dport)].map(AtomicU64::new);
        Ok(Each::boxed(UdpIpEncap { ends: Arc::new(ends), checksum, number: 0 }))
    },
    ..Class::BASE
};

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

/// See [`CLASS`].
#[derive(Debug, Clone)]
pub struct UdpIpEncap {
    ends: Arc<[AtomicU64; 2]>,
    checksum: bool,
    number: u16,
}

impl UdpIpEncap {
    #[inline]
    fn write_headers(&mut self, packet: &mut Packet) -> Option<()> {
        let [src, dst] = self.ends.each_ref().map(|end| end.load(Ordering::Relaxed));
        let to = if dst & ANNOTATED != 0 { packet.dst_ip() } else { Ipv4Addr::from_bits((dst >> 16) as u32) };
        let length = packet.len();
        let ip = packet.first_chunk_mut::<28>()?;
        ip[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 250, 17, 0, 0]);
        ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&self.number.to_be_bytes());
        self.number = self.number.wrapping_add(1);
        ip[12..16].copy_from_slice(&((src >> 16) as u32).to_be_bytes());
        ip[16..20].copy_from_slice(&to.octets());
        ip[20..22].copy_from_slice(&(src as u16).to_be_bytes());
        ip[22..24].copy_from_slice(&(dst as u16).to_be_bytes());
        ip[24..26].copy_from_slice(&((length - header::LEN) as u16).to_be_bytes());
        ip[26..28].fill(0);
        header::fill_checksum(&mut ip[..header::LEN]);
        header::mark(packet, 0, header::LEN);
        packet.set_dst_ip(to);
        if self.checksum { checksum::set_udp(packet) } else { Some(()) }
    }
}

impl PerPacket for UdpIpEncap {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        if packet.next().is_some() {
            return Fate::drop(1);
        }
        if packet.push_front(header::LEN + 8).is_err() {
            return Fate::drop(0);
        }
        if self.write_headers(packet).is_some() { Fate::ON } else { Fate::drop(1) }
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        let [src, dst] = self.ends.each_ref().map(|end| end.load(Ordering::Relaxed));
        let address = |end: u64| match end & ANNOTATED {
            0 => Ipv4Addr::from_bits((end >> 16) as u32).to_string(),
            _ => "DST_ANNO".into(),
        };
        Ok(match handler {
            "src" => address(src),
            "sport" => (src as u16).to_string(),
            "dst" => address(dst),
            _ => (dst as u16).to_string(),
        })
    }

    fn write(&mut self, _: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        let names = Default::default();
        let scope = Scope { element: "", names: &names };
        let which = usize::from(handler.starts_with('d'));
        let old = self.ends[which].load(Ordering::Relaxed);
        let new = match handler {
            "src" => end(Some(Ipv4Addr::parse(value, &scope)?), old as u16),
            "dst" => end(parse_dst(value, &scope).ok_or("bad DST")?, old as u16),
            _ => old & !0xFFFF | u64::from(u16::parse(value, &scope)?),
        };
        self.ends[which].store(new, Ordering::Relaxed);
        Ok(())
    }

    fn replicate(&self) -> Option<UdpIpEncap> {
        Some(self.clone())
    }
}
