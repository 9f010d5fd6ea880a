//! Sending what the plain path does not: packets that want an offload, which may need a
//! context descriptor first (82599 datasheet 7.2.3.2.3), and packets of several segments,
//! a descriptor for each (7.2.3.2.4).

use std::sync::atomic::Ordering::Relaxed;

use memory::{Batch, Packet, Pool};

use super::TxQueue;
use crate::intel::layout::TxLayout;
use crate::intel::offload::is_sendable;

impl<L: TxLayout> TxQueue<L> {
    /// Fills the next descriptor.
    fn put(&mut self, words: [u64; 2], packet: Option<Packet>) {
        let (descriptors, packets) = self.ring.slice(self.next, 1);
        descriptors[0].iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        packets[0] = packet;
        self.next = self.next.wrapping_add(1);
    }

    /// Sends the packet in front, which wants an offload or has several
    /// segments: its bytes, or `None` when the ring has no room for it now. A
    /// packet that can never be sent is dropped and counted.
    #[cold]
    pub(super) fn send_special(&mut self, batch: &mut Batch, pool: &mut Pool) -> Option<u64> {
        let packet = batch.first()?;
        let offload = packet.tx_offload();
        let total = packet.total_len() as u64;
        let segments = packet.segments().count();
        let is_done = offload.is_empty() || L::does(offload);
        if !is_done || !is_sendable::<L>(packet, offload, total, segments, self.special.longest) {
            let why = if is_done { &self.special.unsendable } else { &self.special.not_done };
            why.add(1);
            pool.free(batch.pop_front()?);
            return Some(0);
        }
        let bits = L::command(offload, total, packet);
        let context = L::context(offload, total, packet)
            .filter(|&words| !L::CONTEXT_STAYS || self.special.context != Some(words));
        if segments as u32 + u32::from(context.is_some()) > self.room() {
            return None;
        }
        if let Some(words) = context {
            self.put(words, None); // a context has no packet (7.2.3.2.3)
            self.special.context = Some(words);
        }
        let mut rest = batch.pop_front();
        while let Some(mut segment) = rest {
            rest = segment.split_next();
            let end = if rest.is_none() { L::EOP } else { 0 };
            let len = segment.len() as u64;
            self.put([segment.iova(), bits | end | L::buffer(len)], Some(segment));
        }
        Some(total)
    }
}
