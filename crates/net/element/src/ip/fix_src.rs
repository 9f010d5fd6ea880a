//! `FixIPSrc`: the router's own packets get the address of the port they leave by.

use std::net::Ipv4Addr;

use graph::class::{Headers, mandatory};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use wire::ipv4;

use crate::kernels::each;
use graph::annotation::{FIX_IP_SRC, PacketAnnotations};
use graph::ip_header;

pub static CLASS: Class = Class {
    name: "FixIPSrc",
    brief: "sets the source address of packets that ask for it",
    doc: "Packets whose annotation says so, those of ICMPError, get IPADDR as their source address, and a \
          new checksum; all others pass untouched.",
    arguments: &[mandatory("IPADDR", "the address of the port behind it")],
    example: "FixIPSrc(10.0.0.1)",
    see: &["ICMPError"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(FixIpSrc)),
    make: |_, conf| {
        let address = conf.mandatory("IPADDR")?;
        conf.complete()?;
        Ok(Each::boxed(FixIpSrc { address }))
    },
    ..Class::BASE
};

/// A `FixIPSrc` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct FixIpSrc {
    address: Ipv4Addr,
}

impl FixIpSrc {
    pub(super) fn of(address: Ipv4Addr) -> FixIpSrc {
        FixIpSrc { address }
    }

    #[cold]
    fn fix(&self, packet: &mut Packet) {
        if let Some((header, _)) = ip_header::split_mut(packet) {
            if let Some(mut ip) = ipv4::Header::of_mut(header) {
                ip.set_src(self.address);
            }
            ipv4::fill_checksum(header);
            packet.set_u8_at(FIX_IP_SRC, 0);
        }
    }
}

impl PerPacket for FixIpSrc {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if packet.u8_at(FIX_IP_SRC) != 0 {
            self.fix(packet);
        }
        Action::ON
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        packet.u8_at(FIX_IP_SRC) == 0
    }

    fn replicate(&self) -> Option<FixIpSrc> {
        Some(self.clone())
    }
}
