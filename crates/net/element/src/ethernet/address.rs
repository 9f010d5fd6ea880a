//! `EtherMirror`, `EtherRewrite`: a frame's addresses, exchanged or replaced.

use graph::class::{Handlers, mandatory, setting};
use graph::element::kernel::Kernel;
use graph::value::Ethernet;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use port::Reason;
use wire::ethernet::{ADDRESSES_LEN, Addresses};

use super::encap::{self, SharedHeader};
use crate::kernels::each;

/// The class of what exchanges addresses.
pub static MIRROR: Class = Class {
    name: "EtherMirror",
    brief: "exchanges the source and destination address of Ethernet frames",
    doc: "Packets begin with their Ethernet header. Shorter ones are dropped.",
    drops: &[Reason::TooShort],
    example: "FromDevice(p) -> EtherMirror -> ToDevice(p)",
    see: &["EtherRewrite", "EtherEncap", "IPMirror"],
    kernel: Kernel::Inside(each!(EtherMirror)),
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(EtherMirror))
    },
    ..Class::BASE
};

/// The class of what replaces addresses.
pub static REWRITE: Class = Class {
    name: "EtherRewrite",
    brief: "replaces the addresses of Ethernet frames",
    doc: "Works on the link header, which is at the start of the packet where nobody said otherwise.",
    arguments: &[mandatory("SRC", "the source address"), mandatory("DST", "the destination address")],
    handlers: &Handlers::<EtherRewrite>(&[
        setting("src", "the source address", |rewrite| rewrite.header.src(), (0, "SRC")),
        setting("dst", "the destination address", |rewrite| rewrite.header.dst(), (1, "DST")),
    ]),
    drops: &[Reason::TooShort],
    live: true,
    example: "EtherRewrite(0:0:c0:ae:67:ef, 0:0:c0:4b:ad:d3)",
    see: &["EtherEncap", "EtherMirror"],
    kernel: Kernel::Inside(each!(EtherRewrite)),
    make: |_, conf| {
        let src: Ethernet = conf.mandatory("SRC")?;
        let dst: Ethernet = conf.mandatory("DST")?;
        conf.complete()?;
        Ok(Each::boxed(EtherRewrite { header: SharedHeader::new(encap::header(dst, src, 0)) }))
    },
    ..Class::BASE
};

/// An `EtherMirror` element; [`MIRROR`] says what it does.
#[derive(Debug, Clone)]
pub struct EtherMirror;

impl PerPacket for EtherMirror {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(mut addresses) = Addresses::of_mut(packet) else { return Action::drop(0) };
        addresses.swap();
        Action::ON
    }

    fn replicate(&self) -> Option<EtherMirror> {
        Some(self.clone())
    }
}

/// An `EtherRewrite` element; [`REWRITE`] says what it does.
#[derive(Debug, Clone)]
pub struct EtherRewrite {
    header: SharedHeader,
}

impl PerPacket for EtherRewrite {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let link = match packet.has_header(Header::Link) {
            true => packet.header_mut(Header::Link).unwrap_or_default(),
            false => &mut packet[..],
        };
        let Some(addresses) = link.first_chunk_mut::<ADDRESSES_LEN>() else { return Action::drop(0) };
        *addresses = *self.header.bytes().first_chunk().expect("a header begins with its addresses");
        Action::ON
    }

    fn replicate(&self) -> Option<EtherRewrite> {
        Some(self.clone())
    }
}
