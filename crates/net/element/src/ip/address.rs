//! `GetIPAddress`, `SetIPAddress`, `StoreIPAddress`: addresses between packets and
//! annotations.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::class::{Handlers, both, keyword, mandatory, positional};
use graph::element::kernel::Kernel;
use graph::value::unsigned;
use graph::{Action, Class, ConfFault, Cx, Each, PerPacket};
use memory::Packet;
use wire::ip::Protocol;
use wire::{checksum, ipv4, tcp, udp};

use crate::kernels::each;
use graph::annotation::{AnnotationOffset, DST_IP, PacketAnnotations};
use graph::ip_header;
use port::Reason;

/// The class of what reads an address from a packet.
pub static FROM_PACKET: Class = Class {
    name: "GetIPAddress",
    brief: "sets the destination annotation from an address in the packet",
    doc: "The four bytes at OFFSET, or the IP header's source or destination, become the annotation that \
          lookups go by.",
    arguments: &[
        positional("OFFSET", "where the address is, in bytes from the start of the packet"),
        positional("ANNO", "which annotation, of four bytes; DST_IP"),
        keyword("IP", "`src` or `dst`: an address of the IP header instead"),
    ],
    drops: &[Reason::TooShort],
    example: "GetIPAddress(16)",
    see: &["SetIPAddress", "StoreIPAddress", "StaticIPLookup"],
    kernel: Kernel::Inside(each!(GetIpAddress)),
    make: |_, conf| {
        let offset: Option<isize> = conf.positional("OFFSET")?;
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        let to = conf.positional("ANNO")?.unwrap_or(AnnotationOffset(DST_IP));
        let field: Option<String> = conf.keyword("IP")?;
        conf.complete()?;
        let from = match (offset, field.as_deref()) {
            (Some(offset), None) => From::Offset(offset),
            (None, Some("src")) => From::Header(ipv4::offset::SRC),
            (None, Some("dst")) => From::Header(ipv4::offset::DST),
            (None, Some(_)) => return Err("bad IP".into()),
            _ => return Err("set one of OFFSET, IP".into()),
        };
        Ok(Each::boxed(GetIpAddress { from, to }))
    },
    ..Class::BASE
};

/// The class of what sets an address.
pub static CONSTANT: Class = Class {
    name: "SetIPAddress",
    brief: "sets the destination annotation to an address",
    doc: "Each packet's annotation becomes IPADDR, whatever the packet says.",
    arguments: &[
        mandatory("IPADDR", "the address"),
        keyword("ANNO", "which annotation, of four bytes; DST_IP"),
    ],
    handlers: &Handlers::<SetIpAddress>(&[both(
        "addr",
        "the address",
        |set| Ipv4Addr::from_bits(set.address.load(Ordering::Relaxed)).to_string(),
        |set, _, value| {
            let address: Ipv4Addr = value.trim().parse().map_err(|_| "expected IP address")?;
            set.address.store(address.to_bits(), Ordering::Relaxed); // a lone value
            Ok(())
        },
    )]),
    live: true,
    example: "SetIPAddress(10.0.0.1)",
    see: &["GetIPAddress", "StoreIPAddress"],
    kernel: Kernel::Inside(each!(SetIpAddress)),
    make: |_, conf| {
        let address: Ipv4Addr = conf.mandatory("IPADDR")?;
        let to = conf.keyword("ANNO")?.unwrap_or(AnnotationOffset(DST_IP));
        conf.complete()?;
        Ok(Each::boxed(SetIpAddress { address: Arc::new(AtomicU32::new(address.to_bits())), to }))
    },
    ..Class::BASE
};

/// The class of what writes an address into a packet.
pub static INTO_PACKET: Class = Class {
    name: "StoreIPAddress",
    brief: "writes the destination annotation, or an address, into the packet",
    doc: "With one argument the destination annotation is written, if there is one, with two the address. \
          `src` and `dst` mean the fields of the IP header; checksums of IP, TCP and UDP are kept right \
          then. Packets that are too short go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        positional("ADDR", "the address; the destination annotation"),
        mandatory("OFFSET", "bytes from the start of the packet, or `src`, or `dst`"),
    ],
    drops: &[Reason::TooShort],
    example: "StoreIPAddress(30)",
    see: &["GetIPAddress", "SetIPAddress"],
    kernel: Kernel::Inside(each!(StoreIpAddress)),
    make: |_, conf| {
        let with_address = conf.arguments().len() > 1;
        let address = with_address.then(|| conf.mandatory("ADDR")).transpose()?;
        let offset: String = conf.mandatory("OFFSET")?;
        conf.complete()?;
        let number = || unsigned(&offset).and_then(|n| usize::try_from(n).ok());
        let to = match offset.to_lowercase().as_str() {
            "src" => From::Header(ipv4::offset::SRC),
            "dst" => From::Header(ipv4::offset::DST),
            _ => From::Offset(
                number().ok_or_else(|| ConfFault::new("type mismatch: OFFSET requires integer"))?,
            ),
        };
        Ok(Each::boxed(StoreIpAddress { address, to }))
    },
    ..Class::BASE
};

/// Where in a packet an address is.
#[derive(Debug, Clone, Copy)]
enum From {
    Offset(usize),
    Header(usize),
}

/// A `GetIPAddress` element; [`FROM_PACKET`] says what it does.
#[derive(Debug, Clone)]
pub struct GetIpAddress {
    from: From,
    to: AnnotationOffset<4>,
}

impl PerPacket for GetIpAddress {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.fast_path(packet) { Action::ON } else { Action::drop(0) }
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        let (bytes, at) = match self.from {
            From::Offset(at) => (Some(&packet[..]), at),
            From::Header(at) => (packet.header(memory::annotation::Header::Network), at),
        };
        let found = bytes.and_then(|bytes| bytes.get(at..)?.first_chunk::<4>().copied());
        let Some(address) = found else { return false };
        packet.set_bytes_at(self.to.0, address);
        true
    }

    fn replicate(&self) -> Option<GetIpAddress> {
        Some(self.clone())
    }
}

/// A `SetIPAddress` element; [`CONSTANT`] says what it does.
#[derive(Debug, Clone)]
pub struct SetIpAddress {
    address: Arc<AtomicU32>,
    to: AnnotationOffset<4>,
}

impl PerPacket for SetIpAddress {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        packet.set_bytes_at(self.to.0, self.address.load(Ordering::Relaxed).to_be_bytes());
        Action::ON
    }

    fn replicate(&self) -> Option<SetIpAddress> {
        Some(self.clone())
    }
}

/// A `StoreIPAddress` element; [`INTO_PACKET`] says what it does.
#[derive(Debug, Clone)]
pub struct StoreIpAddress {
    address: Option<Ipv4Addr>,
    to: From,
}

impl StoreIpAddress {
    fn store(&self, packet: &mut Packet) -> Option<()> {
        let address = self.address.unwrap_or_else(|| packet.dst_ip());
        match self.to {
            From::Offset(at) => {
                let wanted = self.address.is_some() || !address.is_unspecified();
                *packet.get_mut(at..)?.first_chunk_mut().filter(|_| wanted)? = address.octets();
            }
            From::Header(at) => replace_address(packet, at, address)?,
        }
        Some(())
    }
}

/// Changes an address of an IP header, and all checksums that cover it.
pub(crate) fn replace_address(packet: &mut Packet, at: usize, address: Ipv4Addr) -> Option<()> {
    let bytes = packet.header_mut(memory::annotation::Header::Network)?;
    // The addresses are there even where the header's options are cut off.
    let length = ipv4::header_len(*bytes.first()?);
    let (header, rest) = bytes.split_at_mut_checked(ip_header::LEN).filter(|_| length >= ip_header::LEN)?;
    let payload = rest.get_mut(length - ip_header::LEN..).unwrap_or_default();
    let mut ip = ipv4::Header::of_mut(header)?;
    let from = match at {
        ipv4::offset::SRC => ip.src(),
        _ => ip.dst(),
    };
    match at {
        ipv4::offset::SRC => ip.update_src(address),
        _ => ip.update_dst(address),
    }
    let changed = |sum| checksum::update_u32(sum, from.to_bits(), address.to_bits());
    match ip.protocol() {
        _ if ip.is_later_fragment() => {}
        Protocol::TCP => {
            if let Some(mut tcp) = tcp::Header::of_mut(payload) {
                tcp.set_checksum(changed(tcp.checksum()));
            }
        }
        Protocol::UDP => {
            if let Some(mut udp) = udp::Header::of_mut(payload).filter(|udp| udp.checksum() != 0) {
                udp.set_checksum(checksum::never_zero(changed(udp.checksum())));
            }
        }
        _ => {}
    }
    Some(())
}

impl PerPacket for StoreIpAddress {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match self.store(packet) {
            Some(()) => Action::ON,
            None => Action::out_or_drop(1, 0),
        }
    }

    fn replicate(&self) -> Option<StoreIpAddress> {
        Some(self.clone())
    }
}
