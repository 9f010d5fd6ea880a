//! Frames between packets and the kernel's rings: what may be sent, and copies in
//! both directions. One buffer holds most frames; longer ones are chains.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use memory::{DATA_ROOM, Packet, Pool};
use wire::{ethernet, vlan};

use crate::counters::TxCounters;

/// Bytes of an 802.1Q tag, which come on top of the longest frame.
pub(crate) const TAG: usize = vlan::HEADER_LEN;

/// The longest frame a port sends, which follows the interface's MTU.
#[derive(Debug, Clone)]
pub(crate) struct Longest(Arc<AtomicUsize>);

impl Longest {
    pub(crate) fn new(len: usize) -> Longest {
        Longest(Arc::new(AtomicUsize::new(len)))
    }

    pub(crate) fn set(&self, len: usize) {
        // Relaxed: the length stands for itself alone.
        self.0.store(len, Relaxed);
    }

    pub(crate) fn read(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Whether a packet can be sent where no offload is; counts why not.
#[inline]
pub(crate) fn check(packet: &Packet, longest: usize, counters: &TxCounters) -> Option<usize> {
    let len = packet.total_len();
    if !packet.tx_offload().is_empty() {
        counters.offload.add(1);
    } else if len < ethernet::HEADER_LEN || packet.len() < ethernet::HEADER_LEN {
        counters.runt.add(1);
    } else if len > longest && !(len <= longest + TAG && is_tagged(packet)) {
        counters.oversize.add(1);
    } else {
        return Some(len);
    }
    None
}

/// Whether a frame carries a VLAN tag.
#[inline]
pub(crate) fn is_tagged(frame: &[u8]) -> bool {
    ethernet::Header::of(frame).is_some_and(|header| header.ethertype().is_tag())
}

/// Whether a frame of `len` bytes, tagged or not, is one the port was opened for.
#[inline]
pub(crate) fn fits(len: usize, tagged: bool, max_frame: usize) -> bool {
    len <= max_frame || tagged && len <= max_frame + TAG
}

/// Empty packets enough for `len` bytes, as one chain; `None` when the pool has
/// too few.
pub(crate) fn room(pool: &mut Pool, len: usize) -> Option<Packet> {
    let mut packet = pool.alloc()?;
    let mut left = len.saturating_sub(DATA_ROOM);
    while left > 0 {
        let Some(next) = pool.alloc() else {
            pool.free(packet);
            return None;
        };
        packet.append(next);
        left = left.saturating_sub(DATA_ROOM);
    }
    Some(packet)
}

/// Makes the segments of `packet`, which [`room`] gave, hold `len` bytes, and
/// shows each its part: where in the frame it begins.
pub(crate) fn fill(packet: &mut Packet, len: usize, mut copy: impl FnMut(usize, &mut [u8])) {
    let (mut at, mut segment) = (0, Some(packet));
    while let Some(this) = segment {
        let part = (len - at).min(DATA_ROOM);
        if this.set_len(part).is_ok() {
            copy(at, this);
        }
        at += part;
        segment = this.next_mut();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use memory::{Backing, Dma, TxOffload};

    use super::*;

    fn pool(count: usize) -> Pool {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        Pool::new(&dma, count).unwrap()
    }

    #[test]
    fn what_cannot_be_sent_is_counted_by_its_reason() {
        let (mut pool, counters) = (pool(4), TxCounters::default());
        let mut packet = pool.alloc().unwrap();
        let mut tried = |len: usize, kind: [u8; 2]| {
            packet.copy_from(&vec![0; len]).unwrap();
            if let Some(place) = packet.get_mut(12..14) {
                place.copy_from_slice(&kind);
            }
            check(&packet, 1514, &counters)
        };
        assert_eq!(tried(14, [8, 0]), Some(14));
        assert_eq!(tried(1514, [8, 0]), Some(1514));
        assert_eq!(tried(1518, [0x81, 0]), Some(1518), "the tag comes on top");
        assert_eq!(tried(1518, [0x88, 0xA8]), Some(1518));
        assert_eq!(tried(1515, [8, 0]), None);
        assert_eq!(tried(1519, [0x81, 0]), None);
        assert_eq!(tried(13, [8, 0]), None);
        assert_eq!(tried(0, [8, 0]), None);
        packet.copy_from(&[0; 60]).unwrap();
        packet.set_tx_offload(TxOffload { flags: TxOffload::IP_CHECKSUM, ..TxOffload::default() });
        assert_eq!(check(&packet, 1514, &counters), None);
        let counted = [&counters.oversize, &counters.runt, &counters.offload].map(|count| count.read());
        assert_eq!((counted, counters.stats().unsendable), ([2, 2, 1], 5));
    }

    #[test]
    fn long_frames_are_chains_and_a_short_pool_gives_back() {
        let mut pool = pool(4);
        let mut packet = room(&mut pool, 5000).unwrap();
        fill(&mut packet, 5000, |at, part| part.iter_mut().zip(at..).for_each(|(b, n)| *b = n as u8));
        let lens: Vec<_> = packet.segments().map(Packet::len).collect();
        assert_eq!(lens, [2048, 2048, 904]);
        let bytes: Vec<u8> = packet.segments().flat_map(|s| s.iter().copied()).collect();
        assert!(bytes.iter().enumerate().all(|(n, &b)| b == n as u8));
        assert!(room(&mut pool, 2049).is_none());
        assert_eq!(pool.available(), 1);
        pool.free(packet);
        assert_eq!(pool.available(), 4);
    }
}
