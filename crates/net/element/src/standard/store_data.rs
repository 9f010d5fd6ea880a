//! `StoreData`: bytes written over those of packets.

use graph::class::{keyword, mandatory, positional};
use graph::element::kernel::Kernel;
use graph::value::Bytes;
use graph::{Action, Class, Cx, Each, PerPacket, chain};
use memory::Packet;
use port::Reason;

use crate::kernels::each;

pub static CLASS: Class = Class {
    name: "StoreData",
    brief: "writes bytes into packets",
    doc: "Writes DATA into each packet from OFFSET on: where MASK has bits, if there is one. What would stand \
          behind the packet's end is left out, unless it may GROW.",
    arguments: &[
        mandatory("OFFSET", "where, in bytes from the packet's start"),
        mandatory("DATA", "what"),
        positional("MASK", "which bits of it; all"),
        keyword("GROW", "whether packets that are too short grow; false"),
    ],
    drops: &[Reason::TooLong],
    example: "StoreData(12, \\<0800>)",
    see: &["Strip", "Clipboard", "StoreIPAddress", "SetIPChecksum"],
    kernel: Kernel::Inside(each!(StoreData)),
    make: |_, conf| {
        let offset = conf.mandatory("OFFSET")?;
        let data = conf.mandatory::<Bytes>("DATA")?.0;
        let mask = conf.positional::<Bytes>("MASK")?.map_or(vec![], |mask| mask.0);
        let grow = conf.keyword("GROW")?.unwrap_or(false);
        conf.complete()?;
        if mask.len() > data.len() {
            return Err("MASK: longer than DATA".into());
        }
        // Bytes that the mask does not reach are written whole.
        let masks = mask.into_iter().chain(std::iter::repeat(0xFF));
        let bytes = data.into_iter().zip(masks).map(|(data, mask)| (data & mask, mask)).collect();
        Ok(Each::boxed(StoreData { offset, bytes, grow }))
    },
    ..Class::BASE
};

/// A `StoreData` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct StoreData {
    offset: usize,
    /// Each byte, and which of its bits count.
    bytes: Box<[(u8, u8)]>,
    grow: bool,
}

impl PerPacket for StoreData {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let end = self.offset.saturating_add(self.bytes.len());
        let missing = if self.grow { end.saturating_sub(packet.total_len()) } else { 0 };
        if missing > 0 && !cx.grow_back(packet, missing) {
            return Action::drop(0);
        }
        chain::change_at(packet, self.offset, &self.bytes, |byte, (data, mask)| *byte = *byte & !mask | data);
        Action::ON
    }

    fn replicate(&self) -> Option<StoreData> {
        Some(self.clone())
    }
}
