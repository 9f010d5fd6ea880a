//! `TruncateIPPayload`: headers stay, what they carry is cut off.

use graph::class::{keyword, positional};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ip::Protocol;
use wire::{icmpv4, tcp, udp};

use crate::kernels::each;
use graph::annotation::{EXTRA_LENGTH, PacketAnnotations};
use graph::ip_header;

pub static CLASS: Class = Class {
    name: "TruncateIPPayload",
    brief: "cuts off what IPv4 packets carry behind their headers",
    doc: "Packets keep at most LENGTH bytes behind their TCP, UDP or ICMP header, or, without TRANSPORT, \
          behind their IP header; those whose IP header was not found keep LENGTH bytes in all. Headers do not \
          change.",
    arguments: &[
        positional("LENGTH", "bytes to keep behind the headers; 0"),
        positional("TRANSPORT", "whether transport headers are kept as well; true"),
        keyword("EXTRA_LENGTH", "whether the extra length annotation counts what is cut off; true"),
    ],
    example: "CheckIPHeader(14) -> TruncateIPPayload(64) -> Discard",
    see: &["Truncate", "CheckIPHeader"],
    kernel: Kernel::Inside(each!(TruncateIpPayload)),
    make: |_, conf| {
        let length = conf.positional::<u16>("LENGTH")?.unwrap_or(0).into();
        let transport = conf.positional("TRANSPORT")?.unwrap_or(true);
        let note = conf.keyword("EXTRA_LENGTH")?.unwrap_or(true);
        conf.complete()?;
        Ok(Each::boxed(TruncateIpPayload { length, transport, note }))
    },
    ..Class::BASE
};

/// A `TruncateIPPayload` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct TruncateIpPayload {
    length: usize,
    transport: bool,
    note: bool,
}

/// Bytes of a transport header, as far as it is there.
fn transport_len(protocol: Protocol, segment: &[u8]) -> usize {
    match protocol {
        Protocol::TCP => {
            let said = segment.get(tcp::offset::DATA_OFFSET).map_or(0, |byte| tcp::header_len(*byte));
            said.max(tcp::HEADER_LEN)
        }
        Protocol::UDP => udp::HEADER_LEN,
        Protocol::ICMP => segment.first().map_or(0, |kind| icmpv4::header_len(*kind)),
        _ => 0,
    }
}

impl TruncateIpPayload {
    /// How many bytes of the packet stay.
    fn kept(&self, packet: &Packet) -> usize {
        let network = packet.header_offset(Header::Network).and_then(|at| usize::try_from(at).ok());
        let Some((at, whole)) = network.zip(packet.header(Header::Network)) else { return self.length };
        let headers = match ip_header::split(packet) {
            None => ip_header::LEN,
            Some((ip, segment)) if self.transport => {
                ip.len() + transport_len(ip_header::protocol(ip), segment)
            }
            Some((ip, _)) => ip.len(),
        };
        let there = whole.len() + packet.next().map_or(0, Packet::total_len);
        at + (headers + self.length).min(there)
    }
}

impl PerPacket for TruncateIpPayload {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let (kept, there) = (self.kept(packet), packet.total_len());
        if kept < there {
            ip_header::cut(packet, kept);
            if self.note {
                let extra = packet.u32_at(EXTRA_LENGTH).wrapping_add((there - kept) as u32);
                packet.set_u32_at(EXTRA_LENGTH, extra);
            }
        }
        Action::ON
    }

    fn replicate(&self) -> Option<TruncateIpPayload> {
        Some(self.clone())
    }
}
