//! Transmit offloads (82599 datasheet 7.2.3.2.3 and 7.2.4): checksums, VLAN tags and
//! segmentation, and packets of several segments: what the send loop does not see
//! on its plain path.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Batch, Packet, Pool, TxOffload};
use port::Reason;

use super::chip::{Device, Losses};
use super::layout::TxLayout;
use super::tx::TxQueue;

/// What sending such packets needs beside the ring.
pub(super) struct Special<L> {
    /// The context descriptor that the device was told last.
    context: Option<[u64; 2]>,
    /// The longest frame that the device sends, in bytes.
    longest: usize,
    /// Packets that it can never send.
    unsendable: Arc<Losses>,
    /// Packets that ask for what it does not do.
    not_done: Arc<Losses>,
    layout: PhantomData<L>,
}

impl<L> Special<L> {
    pub(super) fn new(device: &Device) -> Special<L> {
        Special {
            context: None,
            longest: device.info.longest,
            unsendable: device.add_losses(Reason::TxUnsendable),
            not_done: device.add_losses(Reason::TxOffload),
            layout: PhantomData,
        }
    }

    /// Packets that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.unsendable.read() + self.not_done.read()
    }
}

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
        if !is_done || !sendable::<L>(packet, offload, total, segments, self.special.longest) {
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

/// Whether the device can send a packet at all (7.2.1, 7.2.4): no empty
/// segment, not too many, not too short or too long, headers inside the first segment.
fn sendable<L: TxLayout>(
    packet: &Packet,
    offload: TxOffload,
    total: u64,
    segments: usize,
    longest: usize,
) -> bool {
    let segmenting = offload.flags & TxOffload::SEGMENT != 0;
    let limit = if segmenting { L::MAX_SEGMENTED } else { longest as u64 };
    let headers_fit = offload.is_empty() || offload.fits(packet.len());
    let cut = !segmenting || (offload.segment_size > 0 && offload.header_len() < total);
    segments <= L::MAX_SEGMENTS
        && total >= L::SHORTEST as u64
        && total <= limit
        && headers_fit
        && cut
        && packet.segments().all(|s| !s.is_empty())
}
