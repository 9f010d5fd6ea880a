//! `SetPacketType`: to whom a packet is said to have come.

use graph::class::mandatory;
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Reach;

use crate::kernels::each;

pub static CLASS: Class = Class {
    name: "SetPacketType",
    brief: "says to whom packets came",
    doc: "Marks packets as HOST, BROADCAST, MULTICAST, OTHERHOST or OUTGOING, whatever their header says. \
          DropBroadcasts and ICMPError go by it.",
    arguments: &[mandatory("TYPE", "the mark")],
    live: true,
    example: "SetPacketType(HOST)",
    see: &["HostEtherFilter", "DropBroadcasts"],
    kernel: Kernel::Inside(each!(SetPacketType)),
    make: |_, conf| {
        let text: String = conf.mandatory("TYPE")?;
        conf.complete()?;
        let reach = match text.to_ascii_uppercase().as_str() {
            "HOST" | "LOOPBACK" => Reach::Host,
            "BROADCAST" => Reach::Broadcast,
            "MULTICAST" => Reach::Multicast,
            "OTHERHOST" => Reach::OtherHost,
            "OUTGOING" => Reach::Outgoing,
            _ => return Err(format!("unrecognized packet type '{text}'").into()),
        };
        Ok(Each::boxed(SetPacketType(reach)))
    },
    ..Class::BASE
};

/// A `SetPacketType` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct SetPacketType(Reach);

impl PerPacket for SetPacketType {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        packet.annotations_mut().reach = self.0;
        Action::ON
    }

    fn replicate(&self) -> Option<SetPacketType> {
        Some(self.clone())
    }
}
