//! Transmit offloads (82599 datasheet 7.2.3.2.3 and 7.2.4): what a queue keeps for checksums,
//! VLAN tags and segmentation, and which packets a device can send at all. They are sent in
//! `tx/special.rs`.

use std::marker::PhantomData;
use std::sync::Arc;

use memory::{Packet, TxOffload};
use port::Reason;

use super::chip::{Device, Losses};
use super::layout::TxLayout;

/// What sending such packets needs beside the ring.
pub(super) struct Special<L> {
    /// The context descriptor that the device was told last.
    pub(super) context: Option<[u64; 2]>,
    /// The longest frame that the device sends, in bytes.
    pub(super) longest: usize,
    /// Packets that it can never send.
    pub(super) unsendable: Arc<Losses>,
    /// Packets that ask for what it does not do.
    pub(super) not_done: Arc<Losses>,
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

/// Whether the device can send a packet at all (7.2.1, 7.2.4): no empty
/// segment, not too many, not too short or too long, headers inside the first segment.
pub(super) fn is_sendable<L: TxLayout>(
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
