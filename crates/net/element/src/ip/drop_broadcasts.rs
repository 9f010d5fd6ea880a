//! `DropBroadcasts`: link-level broadcasts are not routed.

use graph::class::{Handlers, read};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;
use memory::annotation::Reach;
use port::Reason;

use crate::kernels::each;

pub static CLASS: Class = Class {
    name: "DropBroadcasts",
    brief: "drops packets that came as link-level broadcasts",
    doc: "Packets that a port, or HostEtherFilter, marked as broadcast or multicast go to output 1, or are \
          dropped: a router must not forward them (RFC 1812, 5.3.4).",
    ports: "1/1-2",
    processing: "a/ah",
    handlers: &Handlers::<DropBroadcasts>(&[read("drops", "broadcasts", |drop| {
        drop.drops.sum().to_string()
    })]),
    drops: &[Reason::Broadcast],
    example: "StaticIPLookup(10.0.0.0/8 0) -> DropBroadcasts",
    see: &["HostEtherFilter", "FromDevice"],
    kernel: Kernel::Inside(each!(DropBroadcasts)),
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(DropBroadcasts { drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// A `DropBroadcasts` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct DropBroadcasts {
    drops: PerThreadCounter,
}

impl PerPacket for DropBroadcasts {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match packet.annotations().reach {
            Reach::Broadcast | Reach::Multicast => {
                if self.drops.own() == 0 {
                    cx.say("DropBroadcasts: dropped a packet\n");
                }
                self.drops.add(1);
                Action::out_or_drop(1, 0)
            }
            _ => Action::ON,
        }
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        !matches!(packet.annotations().reach, Reach::Broadcast | Reach::Multicast)
    }

    fn replicate(&self) -> Option<DropBroadcasts> {
        Some(DropBroadcasts { drops: self.drops.for_another() })
    }
}
