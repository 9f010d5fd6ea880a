//! Receiving (datasheet 7.1): the device fills buffers in ring order and sets
//! the done bit of each descriptor; we take the packets and put fresh buffers.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use bus::{Register, order};
use memory::{Batch, DATA_ROOM, Pool};
use regs::ixgbe::RDT;

use super::layout::{RX_DONE, RX_EOP, RX_ERROR};
use super::{device::Shared, interrupt::Signal, options::Options, scatter::Scatter};
use crate::ring::{Ring, Slots};
use crate::{Result, RxStats};

/// Buffers are given to the device this many at a time: one doorbell, and the
/// refill loop is long enough to pay.
const REFILL: u32 = 32;

/// A receive queue. Stops receiving when dropped.
pub struct RxQueue {
    pub(super) ring: Ring,
    pub(super) slots: Slots,
    /// The descriptor the device fills next, free-running.
    next: u32,
    /// One past the last descriptor the device may fill, free-running.
    filled: u32,
    tail: Register,
    refill: u32,
    pub(super) scatter: Scatter,
    pub(super) stats: RxStats,
    pub(super) signal: Option<Signal>,
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
}

impl RxQueue {
    /// Prepares queue `index`; [`Shared::enable_rx`] starts it. The ring is
    /// filled by the first [`recv`](Self::recv), from the caller's pool.
    pub(super) fn new(shared: &Arc<Shared>, index: usize, options: &Options) -> Result<RxQueue> {
        let ring = Ring::new(&shared.dma, options.rx_ring)?;
        Ok(RxQueue {
            slots: Slots::new(&ring),
            next: 0,
            filled: 0,
            tail: shared.bar.register(RDT::at(index)),
            refill: REFILL.min(ring.size() / 4),
            scatter: Scatter::new(options),
            stats: RxStats::default(),
            signal: None,
            index,
            shared: shared.clone(),
            ring,
        })
    }

    /// Appends up to [`Batch::room`] received packets to `batch` and gives the
    /// device fresh buffers from `pool`. Returns how many packets were appended.
    pub fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let before = batch.len();
        let mut bytes = 0;
        // Never past `filled`: what lies there was not given to the device, and
        // a done bit there would be a lie.
        let end = self.next.wrapping_add(self.owned().min(batch.room() as u32));
        while self.next != end {
            let descriptor = self.ring.at(self.next);
            // Acquire: everything the device wrote before the done bit is seen.
            let high = descriptor[1].load(Acquire);
            if high & RX_DONE == 0 {
                break;
            }
            let low = descriptor[0].load(Relaxed);
            let Some(mut packet) = self.slots.take(self.next) else { break };
            self.next = self.next.wrapping_add(1);
            packet.set_received(low, high);
            let len = (high >> 32) as u16;
            // One buffer, no error, a length of 1 to DATA_ROOM.
            let plain = high & (RX_EOP | RX_ERROR) == RX_EOP && len.wrapping_sub(1) < DATA_ROOM as u16;
            if !plain || self.scatter.is_open() {
                bytes += self.recv_special(packet, high, pool, batch);
                continue;
            }
            bytes += u64::from(len);
            batch.push(packet);
        }
        self.refill(pool);
        let received = batch.len() - before;
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
        let count = pool.reserve(missing as usize) as u32;
        for _ in 0..count {
            let Some(packet) = pool.alloc_for_rx() else { break };
            let descriptor = self.ring.at(self.filled);
            descriptor[0].store(packet.rx_iova(), Relaxed);
            descriptor[1].store(0, Relaxed); // the done bit (7.1.6.1: header address)
            self.slots.put(self.filled, packet);
            self.filled = self.filled.wrapping_add(1);
        }
        self.stats.no_buffer += u64::from(missing - count);
        if count > 0 {
            order::before_doorbell();
            self.tail.write(self.filled & self.ring.mask());
        }
    }
}
