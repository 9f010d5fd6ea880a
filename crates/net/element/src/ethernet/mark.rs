//! `MarkMACHeader`: says where the link header is.

use graph::class::{Headers, positional};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;

use crate::kernels::each;

pub static CLASS: Class = Class {
    name: "MarkMACHeader",
    brief: "says where packets' link header is",
    doc: "The link header begins OFFSET bytes into each packet; with LENGTH, the network header behind it. \
          Nothing is checked.",
    arguments: &[
        positional("OFFSET", "bytes in front of the link header; 0"),
        positional("LENGTH", "bytes of the link header; the network header is not marked"),
    ],
    live: true,
    example: "MarkMACHeader(0, 14)",
    see: &["MarkIPHeader", "EtherEncap"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(MarkMacHeader)),
    make: |_, conf| {
        let offset = conf.positional("OFFSET")?.unwrap_or(0);
        let length = conf.positional("LENGTH")?.unwrap_or(0);
        conf.complete()?;
        if offset > memory::DATA_ROOM || length > memory::DATA_ROOM {
            return Err("OFFSET and LENGTH: packets are not that long".into());
        }
        Ok(Each::boxed(MarkMacHeader { offset, length }))
    },
    ..Class::BASE
};

/// A `MarkMACHeader` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct MarkMacHeader {
    offset: usize,
    length: usize,
}

impl PerPacket for MarkMacHeader {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        packet.set_header(Header::Link, self.offset);
        if self.length > 0 {
            packet.set_header(Header::Network, self.offset + self.length);
        }
        Action::ON
    }

    fn replicate(&self) -> Option<MarkMacHeader> {
        Some(self.clone())
    }
}
