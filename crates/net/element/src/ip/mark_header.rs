//! `MarkIPHeader`: says where the IP header is, without a look at it.

use graph::class::{Headers, positional};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use wire::ipv4;

use crate::kernels::each;
use graph::ip_header;

pub static CLASS: Class = Class {
    name: "MarkIPHeader",
    brief: "says where packets' IP header is",
    doc: "The IP header begins OFFSET bytes into each packet, the transport header where the IP header \
          says it ends. Nothing is checked: packets from strangers go through CheckIPHeader. Packets that \
          end before OFFSET pass unmarked.",
    arguments: &[positional("OFFSET", "bytes in front of the IP header; 0")],
    example: "MarkIPHeader(14)",
    see: &["CheckIPHeader", "StripToNetworkHeader", "StripIPHeader"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(MarkIpHeader)),
    make: |_, conf| {
        let offset = conf.positional("OFFSET")?.unwrap_or(0);
        conf.complete()?;
        Ok(Each::boxed(MarkIpHeader { offset }))
    },
    ..Class::BASE
};

/// A `MarkIPHeader` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct MarkIpHeader {
    offset: usize,
}

impl PerPacket for MarkIpHeader {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        self.fast_path(packet);
        Action::ON
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        if let Some(first) = packet.get(self.offset) {
            let length = ipv4::header_len(*first);
            ip_header::mark(packet, self.offset, length);
        }
        true
    }

    fn replicate(&self) -> Option<MarkIpHeader> {
        Some(self.clone())
    }
}
