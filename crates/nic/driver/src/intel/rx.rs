//! Receiving (82599 datasheet 7.1; the 82576's section is the same): the device fills buffers in ring order and sets
//! the done bit of each descriptor; we take the packets and put fresh buffers.

use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, atomic::Ordering::Relaxed};

use bus::{Register, order};
use memory::{Batch, DATA_ROOM, Packet, Pool};
use port::{Options, Reason, RxStats};

use super::layout::RxLayout;
use super::{chip::Chip, chip::Queues, interrupt::Signal, scatter::Scatter};
use crate::{Result, ring::DescriptorRing};

/// Buffers are given to the device this many at a time: one doorbell, and the
/// refill loop is long enough to pay.
const REFILL: u32 = 32;

/// A buffer that is no whole good frame, and the descriptor's words.
type Special = (Packet, [u64; 2]);

/// A receive queue. Stops receiving when dropped.
pub struct RxQueue<L: RxLayout> {
    pub(crate) ring: DescriptorRing<L::Descriptor>,
    /// The descriptor the device fills next, free-running.
    next: u32,
    /// One past the last descriptor the device may fill, free-running.
    filled: u32,
    tail: Register,
    refill: u32,
    /// The last call found more than it could take.
    backlog: bool,
    scatter: Scatter,
    stats: RxStats,
    pub(crate) signal: Option<Signal>,
    pub(crate) index: usize,
    pub(super) owner: Arc<dyn Queues>,
}

impl<L: RxLayout> RxQueue<L> {
    /// Prepares queue `index` of a device; its chip starts it. The ring is filled by
    /// the first `recv`, from the caller's pool.
    pub(crate) fn new(device: &Arc<impl Chip>, index: usize, options: &Options) -> Result<RxQueue<L>> {
        let ring = DescriptorRing::new(&device.dma, options.rx_ring)?;
        Ok(RxQueue {
            next: 0,
            filled: 0,
            tail: device.bar.register(device.info.rdt.at(index)),
            backlog: false,
            refill: REFILL.min(ring.size() / 4),
            scatter: Scatter::new(options, device.clock(), device.add_losses(Reason::RxBadDescriptor)),
            stats: RxStats::default(),
            signal: None,
            index,
            owner: device.clone(),
            ring,
        })
    }

    /// Appends packets of one buffer from the next `count` descriptors, up to
    /// the ring's end or to the first buffer that is something else, which it
    /// returns; and how many descriptors it took.
    #[inline(always)]
    fn recv_plain(&mut self, count: u32, batch: &mut Batch, bytes: &mut u64) -> (u32, Option<Special>) {
        let (mut taken, mut special) = (0, None);
        let (suspect, takes_all) = (L::EOP | L::SUSPECT, self.scatter.takes_all());
        let (descriptors, packets) = self.ring.slice(self.next, count);
        let mut slots = descriptors.iter().zip(packets);
        batch.fill(|| {
            let (descriptor, packet) = slots.next()?;
            let high = descriptor[1].load(Relaxed);
            if high & L::DONE == 0 {
                return None;
            }
            order::after_ready(); // all that the device wrote before the done bit
            let mut packet = packet.take()?;
            taken += 1;
            let (low, len) = (descriptor[0].load(Relaxed), L::len(high));
            // One buffer, no error, a length of 1 to DATA_ROOM.
            let plain = high & suspect == L::EOP && len.wrapping_sub(1) < DATA_ROOM as u16;
            if !plain || takes_all {
                special = Some((packet, [low, high]));
                return None;
            }
            let [low, high] = L::good([low, high]);
            packet.set_received(low, high);
            *bytes += u64::from(len);
            Some(packet)
        });
        (taken, special)
    }

    /// How many descriptors the device owns.
    fn owned(&self) -> u32 {
        self.filled.wrapping_sub(self.next)
    }

    /// Gives the device a buffer for each descriptor it has used up.
    fn refill(&mut self, pool: &mut Pool) {
        // One descriptor stays empty: head = tail means that the device owns
        // nothing (7.1.9).
        let missing = self.ring.size() - 1 - self.owned();
        if missing < self.refill {
            return;
        }
        let (mut filled, mut fresh) = (self.filled, pool.fresh(missing as usize));
        while fresh.len() > 0 {
            let (descriptors, packets) = self.ring.slice(filled, fresh.len() as u32);
            filled = filled.wrapping_add(packets.len() as u32);
            for ((descriptor, place), packet) in descriptors.iter().zip(packets).zip(&mut fresh) {
                descriptor[0].store(packet.rx_iova(), Relaxed);
                descriptor[1].store(0, Relaxed); // the done bit (7.1.6.1: header address)
                // Not assigned, so that no drop of an old value is compiled in.
                mem::forget(place.replace(packet));
            }
        }
        drop(fresh);
        let count = filled.wrapping_sub(self.filled);
        self.filled = filled;
        self.stats.no_buffer += u64::from(missing - count);
        if count > 0 {
            order::before_doorbell();
            self.tail.write(self.ring.offset(self.filled));
        }
    }
}

impl<L: RxLayout> Drop for RxQueue<L> {
    fn drop(&mut self) {
        tracing::debug!("receive queue {}: taken back from the device", self.index);
        // The device must be quiesced before its buffers go back to their pool.
        if !self.owner.disable_rx(self.index) {
            self.owner.device().retire(self.ring.take_memory());
        }
    }
}

impl<L: RxLayout> port::RxQueue for RxQueue<L> {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (before, mut bytes) = (batch.len(), 0);
        // Never past `filled`: what lies there was not given to the device, and
        // a done bit there would say nothing.
        let end = self.next.wrapping_add(self.owned().min(batch.room() as u32));
        if self.backlog {
            self.ring.prefetch_write(self.next, end.wrapping_sub(self.next)); // they will be refilled
        }
        loop {
            let (taken, special) = self.recv_plain(end.wrapping_sub(self.next), batch, &mut bytes);
            self.next = self.next.wrapping_add(taken);
            match special {
                Some((packet, words)) => {
                    if let Some(frame) = self.scatter.add::<L>(packet, words, pool) {
                        bytes += frame.total_len() as u64;
                        batch.push(frame);
                    }
                }
                None if taken > 0 && self.ring.offset(self.next) == 0 => {} // from the beginning
                None => break,
            }
        }
        self.refill(pool);
        let received = batch.len() - before;
        self.backlog = batch.room() == 0;
        self.stats.packets += received as u64;
        self.stats.bytes += bytes;
        self.stats.bursts += u64::from(received > 0);
        if received == 0 {
            self.stats.empty_polls += 1;
            // The device is about to write the line we look at: looking again
            // at once would only take the line away from it.
            std::hint::spin_loop();
        }
        received
    }

    fn stats(&self) -> RxStats {
        RxStats { bad_descriptor: self.scatter.losses.read(), ..self.stats }
    }

    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        self.signal.as_ref().map(Signal::arm)
    }

    fn disarm(&mut self) {
        self.signal.iter().for_each(Signal::disarm);
    }
}
