//! The memory of a queue pair, which the kernel calls UMEM: a pool's buffers, so
//! that what the kernel fills is a packet of ours as it stands.
//!
//! The kernel counts addresses from the start of the memory and leaves 256 bytes
//! free in front of the data (`XDP_PACKET_HEADROOM`): our headroom and the first
//! [`SHIFT`] bytes of the data room. Buffers are no power of two apart, so chunks
//! are "unaligned" (Linux 5.4). A buffer is the kernel's from the fill ring to the
//! receive ring, and from the transmit to the completion ring; all the while its
//! packet stands in a table of the queue's, and nobody else can reach it.

use memory::backing::HUGE_PAGE;
use memory::{Dma, HEADROOM, Packet, Pool};

use port::Result;

/// Bytes the kernel leaves free in front of the data.
const FRONT: usize = 256;
/// How far behind its usual place the data of a received packet begins.
pub(super) const SHIFT: usize = FRONT - HEADROOM;
/// The longest frame in one buffer.
pub(super) const DATA_ROOM: usize = memory::DATA_ROOM - SHIFT;
/// From one buffer to the next. Their metadata lie elsewhere, where the kernel has no say.
pub(super) const CHUNK: usize = HEADROOM + memory::DATA_ROOM;
/// How many buffers a hugepage has.
const PER_PAGE: usize = HUGE_PAGE / CHUNK;
const PAGE: usize = 4096;
/// Offsets are in the lower bits; the upper ones are an offset to add
/// (`XSK_UNALIGNED_BUF_OFFSET_SHIFT`).
const OFFSET_BITS: u32 = 48;
/// Packets in an application's hand.
const HAND: usize = 2 * memory::Batch::MAX;

/// Where buffers lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Umem {
    /// The first byte, on a page of its own, and how many.
    pub(super) start: usize,
    pub(super) len: usize,
    buffers: usize,
}

/// A pool for a queue pair's rings, and as many of its buffers as the transmit
/// ring has entries.
pub(super) fn of(dma: &Dma, rx_ring: usize, tx_ring: usize) -> Result<(Umem, Pool, Vec<Packet>)> {
    // In the kernel's hands; copies to be sent; and those that the application
    // holds, or has given to another port's transmit ring.
    let buffers = rx_ring + tx_ring + tx_ring + HAND;
    let mut pool = Pool::new(dma, buffers).map_err(port::Error::from)?;
    let mut packets: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    packets.sort_unstable_by_key(|packet| packet.as_ptr().addr());
    let at: Vec<usize> = packets.iter().map(|packet| packet.as_ptr().addr() - HEADROOM).collect();
    let start = at[0];
    let len = (at[buffers - 1] + CHUNK - start).next_multiple_of(PAGE);
    let umem = Umem { start, len, buffers };
    let agrees = |(n, &at): (usize, &usize)| umem.find((at - start) as u64) == Some((n, 0));
    let known = start.is_multiple_of(PAGE) && at.iter().enumerate().all(agrees);
    assert!(known, "buffers lie otherwise than this port knows");
    let staging = packets.split_off(packets.len() - tx_ring);
    packets.into_iter().rev().for_each(|packet| pool.free(packet));
    Ok((umem, pool, staging))
}

impl Umem {
    /// Which buffer an address of the kernel's is in, and how far.
    #[inline]
    pub(super) fn find(&self, address: u64) -> Option<(usize, usize)> {
        let low = address & ((1 << OFFSET_BITS) - 1);
        let offset = (low + (address >> OFFSET_BITS)) as usize;
        let (page, at) = (offset / HUGE_PAGE, offset % HUGE_PAGE);
        let (n, at) = (at / CHUNK, at % CHUNK);
        let buffer = page * PER_PAGE + n;
        (n < PER_PAGE && buffer < self.buffers).then_some((buffer, at))
    }

    /// The kernel's address of a packet's first byte, if it lies here.
    #[inline]
    pub(super) fn address(&self, packet: &Packet) -> Option<u64> {
        let offset = packet.as_ptr().addr().wrapping_sub(self.start);
        (offset < self.len).then_some(offset as u64)
    }

    /// The kernel's address of a buffer to be filled, whatever it holds.
    #[inline]
    pub(super) fn buffer(&self, packet: &Packet) -> Option<u64> {
        self.address(packet).map(|address| address - packet.headroom() as u64)
    }

    /// An empty table of buffers.
    pub(super) fn table<T>(&self) -> Box<[Option<T>]> {
        (0..self.buffers).map(|_| None).collect()
    }

    /// Makes a buffer that the kernel filled a packet of `len` bytes, which begin
    /// `at` bytes into it; `false` when they cannot.
    #[inline]
    pub(super) fn receive(packet: &mut Packet, at: usize, len: usize) -> bool {
        if at != FRONT || len > DATA_ROOM {
            return false;
        }
        packet.set_received(0, ((SHIFT + len) as u64) << 32);
        packet.pull_front(SHIFT).is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use memory::Backing;

    #[test]
    fn every_address_is_of_one_buffer_or_none() {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        // More than a hugepage holds, so that there is a gap.
        let (umem, mut pool, staging) = of(&dma, 1024, 256).unwrap();
        assert_eq!(staging.len(), 256);
        let mut seen = std::collections::BTreeSet::new();
        while let Some(mut packet) = pool.alloc() {
            packet.set_len(1).unwrap();
            let address = umem.buffer(&packet).unwrap();
            let (n, at) = umem.find(address).unwrap();
            assert!(seen.insert(n) && at == 0, "{address}");
            assert_eq!(umem.address(&packet), Some(address + HEADROOM as u64));
            // The kernel's two ways to say where the data begin.
            for address in [address + FRONT as u64, address | (FRONT as u64) << OFFSET_BITS] {
                assert_eq!(umem.find(address), Some((n, FRONT)));
            }
            assert_eq!(umem.find(address + CHUNK as u64 - 1), Some((n, CHUNK - 1)));
            assert_ne!(umem.find(address + CHUNK as u64).map(|(next, _)| next), Some(n));
            std::mem::forget(packet);
        }
        let gap = (PER_PAGE * CHUNK) as u64;
        assert!(gap < HUGE_PAGE as u64, "a hugepage ends with what no buffer has");
        for outside in [gap, HUGE_PAGE as u64 - 1, umem.len as u64, u64::MAX, 1 << 47, 0xFFFF << OFFSET_BITS]
        {
            assert!(umem.find(outside).is_none() || outside >> OFFSET_BITS == 0xFFFF, "{outside:#x}");
        }
        let other = Pool::new(&dma, 1).unwrap().alloc().unwrap();
        assert_eq!(umem.address(&other), None);
    }

    #[test]
    fn lengths_are_bounded() {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut packet = Pool::new(&dma, 1).unwrap().alloc().unwrap();
        assert!(Umem::receive(&mut packet, FRONT, DATA_ROOM));
        assert_eq!((packet.len(), packet.headroom(), packet.tailroom()), (DATA_ROOM, FRONT, 0));
        assert!(Umem::receive(&mut packet, FRONT, 0));
        assert!(packet.is_empty());
        assert!(!Umem::receive(&mut packet, FRONT, DATA_ROOM + 1));
        assert!(!Umem::receive(&mut packet, FRONT - 1, 60));
    }
}
