//! `SetIPChecksum`, `IPMirror`, `SetRandIPAddress`: small ones.

use std::net::Ipv4Addr;
use std::sync::Arc;

use graph::class::{Handlers, Headers, mandatory, positional, read};
use graph::element::kernel::Kernel;
use graph::value::Prefix4;
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;
use memory::annotation::Header;
use wire::ip::{Ports, Protocol};
use wire::{ipv4, tcp, udp};

use crate::kernels::each;
use graph::annotation::PacketAnnotations;
use graph::{ip_header, random};
use port::Reason;

/// The class of what makes checksums right.
pub static CHECKSUM: Class = Class {
    name: "SetIPChecksum",
    brief: "sets the IPv4 header's checksum",
    doc: "The header is where it was found, or else at the start of the packet. Packets whose header is not \
          all there are dropped. Elements that change a header keep its checksum right themselves; this is \
          for changes by Align, StoreData and the like.",
    handlers: &Handlers::<SetIpChecksum>(&[read("drops", "packets dropped", |set| {
        set.drops.sum().to_string()
    })]),
    drops: &[Reason::BadInput],
    example: "SetIPChecksum",
    see: &["CheckIPHeader", "SetUDPChecksum", "SetTCPChecksum"],
    kernel: Kernel::Inside(each!(SetIpChecksum)),
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(SetIpChecksum { drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// The class of what exchanges addresses.
pub static MIRROR: Class = Class {
    name: "IPMirror",
    brief: "exchanges the source and destination of IPv4 packets",
    doc: "Exchanges addresses, for TCP and UDP the ports, and for TCP sequence and acknowledgement number; \
          no checksum changes by it. The annotation follows the destination.",
    arguments: &[positional("DST_ANNO", "whether the destination annotation is set; true")],
    drops: &[Reason::NoIpHeader],
    example: "IPMirror",
    see: &["EtherMirror", "ICMPPingResponder"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(IpMirror)),
    make: |_, conf| {
        let annotate = conf.positional("DST_ANNO")?.unwrap_or(true);
        conf.complete()?;
        Ok(Each::boxed(IpMirror { annotate }))
    },
    ..Class::BASE
};

/// The class of what sets random destinations.
pub static RANDOM: Class = Class {
    name: "SetRandIPAddress",
    brief: "sets the destination annotation to random addresses of a prefix",
    doc: "With LIMIT, so many addresses are chosen at first and used over and over. StoreIPAddress writes \
          them into packets.",
    arguments: &[
        mandatory("PREFIX", "the addresses to choose from"),
        positional("LIMIT", "how many different ones, -1 for any number; -1"),
    ],
    example: "SetRandIPAddress(10.0.0.0/8, 1000)",
    see: &["SetIPAddress", "StoreIPAddress"],
    make: |_, conf| {
        let prefix: Prefix4 = conf.mandatory("PREFIX")?;
        let limit = conf.positional::<i64>("LIMIT")?.unwrap_or(-1);
        conf.complete()?;
        if limit > 1 << 20 {
            return Err("LIMIT: at most 1048576".into());
        }
        let chosen = (0..limit).map(|_| pick(prefix)).collect();
        Ok(Each::boxed(SetRandIpAddress { prefix, chosen }))
    },
    ..Class::BASE
};

/// A `SetIPChecksum` element; [`CHECKSUM`] says what it does.
#[derive(Debug)]
pub struct SetIpChecksum {
    drops: PerThreadCounter,
}

impl SetIpChecksum {
    /// Sets the checksum; `None` when the header is not all there.
    pub(crate) fn set(packet: &mut Packet) -> Option<()> {
        let bytes = match packet.has_header(Header::Network) {
            true => packet.header_mut(Header::Network)?,
            false => &mut packet[..],
        };
        let length = ipv4::header_len(*bytes.first()?);
        ipv4::fill_checksum(bytes.get_mut(..length).filter(|header| header.len() >= ip_header::LEN)?);
        Some(())
    }
}

impl PerPacket for SetIpChecksum {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if SetIpChecksum::set(packet).is_some() {
            return Action::ON;
        }
        if self.drops.own() == 0 {
            cx.say("SetIPChecksum: bad input packet\n");
        }
        self.drops.add(1);
        Action::drop(0)
    }

    fn replicate(&self) -> Option<SetIpChecksum> {
        Some(SetIpChecksum { drops: self.drops.for_another() })
    }
}

/// An `IPMirror` element; [`MIRROR`] says what it does.
#[derive(Debug, Clone)]
pub struct IpMirror {
    annotate: bool,
}

/// The sequence number and the acknowledgement in a TCP header.
const NUMBERS: std::ops::Range<usize> = tcp::offset::SEQUENCE..tcp::offset::DATA_OFFSET;

impl PerPacket for IpMirror {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some((header, payload)) = ip_header::split_mut(packet) else { return Action::drop(0) };
        let Some(mut ip) = ipv4::Header::of_mut(header) else { return Action::drop(0) };
        ip.swap_addresses();
        let (dst, protocol) = (ip.dst(), ip.protocol());
        let has_ports = matches!(protocol, Protocol::TCP | Protocol::UDP) && !ip.is_later_fragment();
        if has_ports && payload.len() >= udp::HEADER_LEN {
            if let Some(mut ports) = Ports::of_mut(payload) {
                ports.swap();
            }
            if let (Protocol::TCP, Some(numbers)) = (protocol, payload.get_mut(NUMBERS)) {
                numbers.rotate_left(numbers.len() / 2);
            }
        }
        if self.annotate {
            packet.set_dst_ip(dst);
        }
        Action::ON
    }

    fn replicate(&self) -> Option<IpMirror> {
        Some(self.clone())
    }
}

/// A `SetRandIPAddress` element; [`RANDOM`] says what it does.
#[derive(Debug, Clone)]
pub struct SetRandIpAddress {
    prefix: Prefix4,
    chosen: Arc<[Ipv4Addr]>,
}

fn pick(prefix: Prefix4) -> Ipv4Addr {
    let random = Ipv4Addr::from_bits(random::next() as u32);
    random & !prefix.mask | prefix.address & prefix.mask
}

impl PerPacket for SetRandIpAddress {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let address = match self.chosen.len() {
            0 => pick(self.prefix),
            count => self.chosen[random::below(count as u64) as usize],
        };
        packet.set_dst_ip(address);
        Action::ON
    }

    fn replicate(&self) -> Option<SetRandIpAddress> {
        Some(self.clone())
    }
}
