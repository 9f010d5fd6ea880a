//! Transmitting (datasheet 7.2): we fill descriptors and ring the doorbell; the
//! device reports on those that asked for it (RS), and everything up to such a
//! report can be freed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use bus::{Register, order};
use memory::{Batch, Packet, Pool};
use regs::ixgbe::TDT;

use super::layout::{TX_DATA, TX_DONE, TX_EOP, TX_PAYLEN_SHIFT, TX_REPORT};
use super::{device::Shared, offload::Context, options::*, writeback::Head};
use crate::ring::{Ring, Slots};
use crate::{Result, TxStats};

/// A report is asked for at the end of each call, and this often within one.
const REPORT_EVERY: u32 = 32;

/// A transmit queue. Stops transmitting when dropped.
pub struct TxQueue {
    pub(super) ring: Ring,
    pub(super) slots: Slots,
    /// The first descriptor that is not free, free-running.
    clean: u32,
    /// The next descriptor to fill, free-running.
    pub(super) next: u32,
    /// The last descriptor that asked for a report.
    reported: u32,
    /// Descriptors that asked for a report and are not yet freed.
    reports: VecDeque<u32>,
    pub(super) head: Option<Head>,
    tail: Register,
    pub(super) context: Context,
    pub(super) stats: TxStats,
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
}

impl TxQueue {
    /// Prepares queue `index`; [`Shared::enable_tx`] starts it.
    pub(super) fn new(shared: &Arc<Shared>, index: usize, options: &Options) -> Result<TxQueue> {
        let ring = Ring::new(&shared.dma, options.tx_ring)?;
        let head = match options.completion {
            Completion::Report => None,
            Completion::Head => Some(Head::new(&shared.dma)?),
        };
        Ok(TxQueue {
            slots: Slots::new(&ring),
            clean: 0,
            next: 0,
            reported: u32::MAX,
            reports: VecDeque::with_capacity(options.tx_ring),
            head,
            tail: shared.bar.register(TDT::at(index)),
            context: Context::default(),
            stats: TxStats::default(),
            index,
            shared: shared.clone(),
            ring,
        })
    }

    /// Takes packets from the front of `batch` for the device to send; what the
    /// ring has no room for stays. Sent buffers go back to `pool`, or to the
    /// pool they came from. Returns how many packets were taken.
    pub fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.clean(pool);
        let (start, mut packets) = (self.next, batch.drain());
        let offered = packets.len();
        while let Some(packet) = packets.peek() {
            let mut len = packet.len() as u64;
            if packet.is_plain() && len != 0 && self.room() != 0 {
                let Some(packet) = packets.next() else { break };
                self.put(packet, TX_DATA | TX_EOP | len | len << TX_PAYLEN_SHIFT);
            } else {
                // Offloads, several segments, nothing to send, or no room.
                let Some(sent) = self.send_special(&mut packets, pool) else { break };
                len = sent;
            }
            self.stats.packets += u64::from(len > 0);
            self.stats.bytes += len;
        }
        let left = packets.len();
        drop(packets);
        self.stats.ring_full += left as u64;
        if self.next != start {
            self.ring_doorbell();
        }
        offered - left
    }

    /// Frees what the device has sent; how many descriptors it still owns.
    pub fn clean(&mut self, pool: &mut Pool) -> usize {
        let done = match &self.head {
            // Never past `next`, whatever the device wrote.
            Some(head) => head.read().wrapping_sub(self.clean) & self.ring.mask(),
            None => self.done_by_reports(),
        };
        for _ in 0..done.min(self.in_flight()) {
            // Context descriptors have no packet.
            if let Some(packet) = self.slots.take(self.clean) {
                pool.free_segment(packet);
            }
            self.clean = self.clean.wrapping_add(1);
        }
        self.in_flight() as usize
    }

    /// How many descriptors the device has finished with, by its reports.
    fn done_by_reports(&mut self) -> u32 {
        let mut done = 0;
        while let Some(&report) = self.reports.front() {
            // Acquire: the device reads the buffer before it sets the bit, and
            // we reuse the buffer only after we saw it.
            if self.ring.at(report)[1].load(Acquire) & TX_DONE == 0 {
                break;
            }
            done = report.wrapping_sub(self.clean).wrapping_add(1);
            self.reports.pop_front();
        }
        done
    }

    /// Fills the next descriptor. The caller has seen that there is room.
    #[inline(always)]
    pub(super) fn put(&mut self, packet: Packet, mut command: u64) {
        if command & TX_EOP != 0 && self.next.wrapping_sub(self.reported) >= REPORT_EVERY {
            command |= TX_REPORT;
            self.report(self.next);
        }
        let descriptor = self.ring.at(self.next);
        descriptor[0].store(packet.iova(), Relaxed);
        descriptor[1].store(command, Relaxed);
        self.slots.put(self.next, packet);
        self.next = self.next.wrapping_add(1);
    }

    /// Tells the device of all that was put since the last time.
    fn ring_doorbell(&mut self) {
        // The last packet of a call always reports, or its buffer would stay
        // out until others push it on.
        let last = self.next.wrapping_sub(1);
        if self.reported != last {
            let command = &self.ring.at(last)[1];
            command.store(command.load(Relaxed) | TX_REPORT, Relaxed);
            self.report(last);
        }
        self.stats.bursts += 1;
        order::before_doorbell();
        self.tail.write(self.next & self.ring.mask());
    }

    /// Remembers that the descriptor at `index` reports.
    fn report(&mut self, index: u32) {
        self.reported = index;
        if self.head.is_none() {
            self.reports.push_back(index);
        }
    }

    /// Descriptors that the device owns.
    fn in_flight(&self) -> u32 {
        self.next.wrapping_sub(self.clean)
    }

    /// Free descriptors; one stays empty, for head = tail means none (7.2.3.3).
    pub(super) fn room(&self) -> u32 {
        self.ring.size() - 1 - self.in_flight()
    }
}
