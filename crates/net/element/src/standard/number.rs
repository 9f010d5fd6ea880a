//! `NumberPacket`: a number in each packet, to find out what became of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::class::{Handlers, keyword, positional, read};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket, chain};
use memory::Packet;
use port::Reason;

use crate::kernels;

pub static CLASS: Class = Class {
    name: "NumberPacket",
    brief: "writes a number that counts up into packets",
    doc: "The eight bytes at OFFSET become 0 in the first packet, 1 in the next, and so on; threads share the \
          count. Packets that are too short grow.",
    arguments: &[
        positional("OFFSET", "where, in bytes from the packet's start; 40"),
        keyword("NET_ORDER", "whether the most significant byte comes first; false"),
    ],
    handlers: &Handlers::<NumberPacket>(&[read("count", "packets numbered", |number| {
        number.count.load(Ordering::Relaxed).to_string()
    })]),
    drops: &[Reason::TooLong],
    example: "NumberPacket(OFFSET 42)",
    see: &["StoreData", "Counter"],
    kernel: Kernel::Excluded(kernels::ORDER),
    make: |_, conf| {
        let offset: usize = conf.positional("OFFSET")?.unwrap_or(40);
        let net_order = conf.keyword("NET_ORDER")?.unwrap_or(false);
        conf.complete()?;
        if offset > graph::LONGEST {
            return Err("OFFSET: packets are not that long".into());
        }
        Ok(Each::boxed(NumberPacket { offset, net_order, count: Arc::default() }))
    },
    ..Class::BASE
};

/// A `NumberPacket` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct NumberPacket {
    offset: usize,
    net_order: bool,
    count: Arc<AtomicU64>,
}

impl PerPacket for NumberPacket {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let missing = (self.offset + 8).saturating_sub(packet.total_len());
        if missing > 0 && !cx.grow_back(packet, missing) {
            return Action::drop(0);
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed); // only the number matters
        let bytes = if self.net_order { number.to_be_bytes() } else { number.to_le_bytes() };
        chain::write_at(packet, self.offset, &bytes);
        Action::ON
    }

    fn replicate(&self) -> Option<NumberPacket> {
        Some(self.clone())
    }
}
