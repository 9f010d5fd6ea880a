//! Transmit offloads (82599 datasheet 7.2.3.2.3 and 7.2.4): checksums, VLAN tags and
//! segmentation, and packets of several segments. A context descriptor tells
//! the device where the headers end; it holds until the next one.

use std::sync::atomic::Ordering::Relaxed;

use memory::{Batch, Packet, Pool, TxOffload};

use super::layout::*;
use super::tx::TxQueue;

/// The most descriptors one packet may take (7.2.1: 40 with segmentation).
const MAX_SEGMENTS: usize = 38;
/// The most that can be cut into segments: PAYLEN has 18 bits.
const MAX_SEGMENTED: u64 = (1 << 18) - 1;

/// What the device was last told of headers.
#[derive(Debug, Default)]
pub(super) struct Context(Option<[u64; 2]>);

/// The words of the context descriptor for an offload.
fn context_words(offload: TxOffload) -> [u64; 2] {
    let has = |flag| offload.flags & flag != 0;
    let low = u64::from(offload.l3_len)
        | u64::from(offload.l2_len) << CONTEXT_MACLEN_SHIFT
        | u64::from(offload.vlan) << CONTEXT_VLAN_SHIFT;
    let mut high = TX_CONTEXT;
    if !has(TxOffload::IPV6) {
        high |= CONTEXT_IPV4;
    }
    if has(TxOffload::TCP_CHECKSUM) || has(TxOffload::SEGMENT) {
        high |= CONTEXT_TCP;
    }
    if has(TxOffload::SEGMENT) {
        high |= u64::from(offload.l4_len) << CONTEXT_L4LEN_SHIFT;
        high |= u64::from(offload.segment_size) << CONTEXT_MSS_SHIFT;
    }
    [low, high]
}

/// The bits every data descriptor of such a packet carries.
fn data_bits(offload: TxOffload, total: u64) -> u64 {
    let has = |flag| offload.flags & flag != 0;
    let mut bits = TX_DATA;
    let mut payload = total;
    if has(TxOffload::VLAN) {
        bits |= TX_VLAN;
    }
    if has(TxOffload::IP_CHECKSUM) {
        bits |= TX_IP_CHECKSUM;
    }
    if has(TxOffload::TCP_CHECKSUM) || has(TxOffload::UDP_CHECKSUM) {
        bits |= TX_L4_CHECKSUM;
    }
    if has(TxOffload::SEGMENT) {
        bits |= TX_SEGMENT | TX_L4_CHECKSUM;
        if !has(TxOffload::IPV6) {
            bits |= TX_IP_CHECKSUM;
        }
        // With segmentation PAYLEN counts what is behind the headers (7.2.3.2.4).
        payload -= headers(offload);
    }
    bits | payload << TX_PAYLEN_SHIFT
}

fn headers(offload: TxOffload) -> u64 {
    u64::from(offload.l2_len) + u64::from(offload.l3_len) + u64::from(offload.l4_len)
}

impl TxQueue {
    /// Fills the next descriptor.
    fn put(&mut self, words: [u64; 2], packet: Option<Packet>) {
        let (descriptors, packets) = self.ring.stretch(self.next, 1);
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
        if !sendable(packet, offload, total, segments, self.shared.facts.longest) {
            self.stats.unsendable += 1;
            pool.free(batch.pop_front()?);
            return Some(0);
        }
        let words = (!offload.is_empty()).then(|| context_words(offload));
        let context = words.filter(|&words| self.context.0 != Some(words));
        if segments as u32 + u32::from(context.is_some()) > self.room() {
            return None;
        }
        if let Some(words) = context {
            self.put(words, None); // a context has no packet (7.2.3.2.3)
            self.context.0 = Some(words);
        }
        let bits = data_bits(offload, total);
        let mut rest = batch.pop_front();
        while let Some(mut segment) = rest {
            rest = segment.split_next();
            let end = if rest.is_none() { TX_EOP } else { 0 };
            let len = segment.len() as u64;
            self.put([segment.iova(), bits | end | len], Some(segment));
        }
        Some(total)
    }
}

/// Whether the device can send a packet at all (7.2.1, 7.2.4): no empty
/// segment, not too many, not too long, headers inside the first segment.
fn sendable(packet: &Packet, offload: TxOffload, total: u64, segments: usize, longest: usize) -> bool {
    let segmenting = offload.flags & TxOffload::SEGMENT != 0;
    let limit = if segmenting { MAX_SEGMENTED } else { longest as u64 };
    let headers_fit = offload.is_empty() || headers(offload) <= packet.len() as u64;
    let cut = !segmenting || (offload.segment_size > 0 && headers(offload) < total);
    segments <= MAX_SEGMENTS
        && total <= limit
        && headers_fit
        && cut
        && packet.segments().all(|s| !s.is_empty())
}
