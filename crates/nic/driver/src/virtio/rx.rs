//! Receiving: the device fills buffers and returns them; we take the packets and
//! put fresh buffers. Each buffer takes one slot of the ring.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Batch, DATA_ROOM, HEADROOM, Packet, Pool, Region};

use super::interrupt::Signal;
use super::merge::{Merge, Outcome};
use super::ring::{Part, RingViolation, Used, Virtqueue};
use super::shared::VirtioShared;
use super::slots::Slots;
use super::stats::{self, QueueCounters};
use super::transport::Doorbell;
use port::RxStats;

/// Buffers are given to the device this many at a time: one index, at most one
/// notification, and the refill loop is long enough to pay.
const REFILL: u32 = 32;

/// How a queue's buffers look to the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Bytes of the header in front of each packet.
    pub header: usize,
    /// Header and frame stand in one descriptor.
    pub joined: bool,
    /// Nothing in a received header needs to be read.
    pub plain: bool,
    /// Bytes of the largest frame that may come.
    pub frame: usize,
    /// Frames may come in several buffers.
    pub merging: bool,
}

/// A receive queue over one kind of ring.
pub(super) struct Rx<R: Virtqueue> {
    pub(super) ring: R,
    slots: Slots,
    layout: Layout,
    refill: u32,
    merge: Merge,
    doorbell: Doorbell,
    pub(super) stats: RxStats,
    pub(super) signal: Option<Signal>,
    queue: u16,
    /// After a stop: packets that were received before and may be handed out.
    before_stop: Option<u32>,
    counters: Arc<QueueCounters>,
    shared: Arc<VirtioShared>,
}

impl<R: Virtqueue> Rx<R> {
    pub(super) fn new(
        shared: &Arc<VirtioShared>,
        queue: u16,
        ring: R,
        doorbell: Doorbell,
        layout: Layout,
    ) -> Rx<R> {
        let slots = ring.ids().size();
        Rx {
            slots: Slots::new(slots),
            layout,
            // Of a small ring a packet may need every buffer.
            refill: if slots < 2 * REFILL { 1 } else { REFILL },
            merge: Merge::new(layout.frame + layout.header, layout.merging),
            doorbell,
            stats: RxStats::default(),
            signal: None,
            queue,
            before_stop: None,
            counters: shared.counters(),
            shared: shared.clone(),
            ring,
        }
    }

    /// Appends up to [`Batch::room`] received packets to `batch` and gives the
    /// device fresh buffers from `pool`. Returns how many packets were appended.
    #[inline]
    pub(super) fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let before = batch.len();
        let mut bytes = 0;
        self.ring.refresh_used();
        if self.shared.stopped.load(Relaxed) || self.before_stop.is_some() {
            self.recv_stopped(pool, batch, &mut bytes);
        } else if self.layout.plain {
            self.recv_plain(batch, pool, &mut bytes);
        } else {
            self.recv_headers(batch, pool, &mut bytes);
        }
        self.refill(pool);
        let received = batch.len() - before;
        self.stats.packets += received as u64;
        self.stats.bytes += bytes;
        self.stats.bursts += u64::from(received > 0);
        if received == 0 {
            self.rest();
        } else {
            stats::set(&self.counters.rx_packets, self.stats.packets);
            stats::set(&self.counters.rx_bytes, self.stats.bytes);
        }
        received
    }

    /// Nothing was there.
    #[inline]
    fn rest(&mut self) {
        self.stats.empty_polls += 1;
        if let Some(violation) = self.ring.violation() {
            self.shared.report_fault(violation.fault(&self.shared.name, self.queue));
        }
        // The device is about to write the line we look at: looking again at
        // once would only take the line away from it.
        std::hint::spin_loop();
    }

    /// Packets of which only the length matters.
    #[inline(always)]
    fn recv_plain(&mut self, batch: &mut Batch, pool: &mut Pool, bytes: &mut u64) {
        let header = self.layout.header as u32;
        for _ in 0..batch.room() {
            let Some((used, mut packet)) = self.pop() else { break };
            let frame = used.len.wrapping_sub(header);
            let room = if self.layout.joined { DATA_ROOM as u32 - header } else { DATA_ROOM as u32 };
            if frame.wrapping_sub(1) >= room {
                self.bad(packet, pool);
                continue;
            }
            if self.layout.joined {
                packet.set_received(0, u64::from(used.len) << 32);
                if packet.pull_front(header as usize).is_err() {
                    continue; // never: longer than the header, as just seen
                }
            } else {
                packet.set_received(0, u64::from(frame) << 32);
            }
            *bytes += u64::from(frame);
            batch.push(packet);
        }
    }

    /// Packets whose headers are read.
    fn recv_headers(&mut self, batch: &mut Batch, pool: &mut Pool, bytes: &mut u64) {
        let mut filled = 0;
        while batch.room() > 0 {
            let Some((used, packet)) = self.pop() else { break };
            let header = self.layout.header;
            let outcome = match self.layout.joined {
                true => self.merge.take(packet, used, header, pool, batch, &mut filled),
                false => self.take_apart(packet, used, pool, batch, &mut filled),
            };
            match outcome {
                Outcome::Packet(len) => *bytes += len,
                Outcome::Part => (),
                Outcome::Bad => self.count_bad(),
            }
        }
        if filled > 0 {
            stats::add(&self.counters.rx_checksum_filled, filled);
        }
    }

    /// A header in a descriptor of its own, right before the data room: only the
    /// legacy interface without MRG_RXBUF has that.
    fn take_apart(
        &mut self,
        mut packet: Packet,
        used: Used,
        pool: &mut Pool,
        batch: &mut Batch,
        filled: &mut u64,
    ) -> Outcome {
        let header = self.layout.header;
        let frame = used.len.wrapping_sub(header as u32);
        if frame.wrapping_sub(1) >= (DATA_ROOM - header) as u32 {
            pool.free(packet);
            return Outcome::Bad;
        }
        // Bring header and frame to where the others have them.
        packet.set_received(0, u64::from(used.len) << 32);
        let Ok(bytes) = packet.push_front(header) else { return Outcome::Bad };
        let mut kept = [0; 32];
        kept[..header].copy_from_slice(&bytes[..header]);
        packet.copy_within(header..header + frame as usize, 2 * header);
        packet[header..2 * header].copy_from_slice(&kept[..header]);
        self.merge.take(packet, used, header, pool, batch, filled)
    }

    /// Packets of either kind.
    fn recv_any(&mut self, batch: &mut Batch, pool: &mut Pool, bytes: &mut u64) {
        match self.layout.plain {
            true => self.recv_plain(batch, pool, bytes),
            false => self.recv_headers(batch, pool, bytes),
        }
    }

    /// After a stop: what was received before it is handed out, the rest goes
    /// nowhere. A start ends that.
    #[cold]
    fn recv_stopped(&mut self, pool: &mut Pool, batch: &mut Batch, bytes: &mut u64) {
        if !self.shared.stopped.load(Relaxed) {
            self.before_stop = None;
            return self.recv_any(batch, pool, bytes);
        }
        let outstanding = self.ring.ids().outstanding();
        let left = self.before_stop.unwrap_or(outstanding);
        let done = self.ring.ids().done;
        if left > 0 {
            self.recv_any(batch, pool, bytes);
            let taken = self.ring.ids().done.wrapping_sub(done);
            // Room that is left means an empty ring: all that came before is out.
            let emptied = batch.room() > 0;
            self.before_stop = Some(if emptied { 0 } else { left.saturating_sub(taken) });
            return;
        }
        // Whole packets, or a start could come between two buffers of one.
        let mut dropped = Batch::default();
        self.recv_any(&mut dropped, pool, &mut 0);
        stats::add(&self.counters.rx_stopped, dropped.len() as u64);
        pool.free_batch(&mut dropped);
    }

    /// The next buffer that the device returned, with its packet.
    #[inline(always)]
    fn pop(&mut self) -> Option<(Used, Packet)> {
        let used = self.ring.pop()?;
        match self.slots.take(used.id) {
            Some(packet) => Some((used, packet)),
            None => {
                self.ring.report_fault(RingViolation::Id(used.id.into()));
                None
            }
        }
    }

    #[cold]
    fn bad(&mut self, packet: Packet, pool: &mut Pool) {
        pool.free(packet);
        self.count_bad();
    }

    #[cold]
    fn count_bad(&mut self) {
        self.stats.bad_descriptor += 1;
        stats::set(&self.counters.rx_bad_descriptor, self.stats.bad_descriptor);
    }

    /// Gives the device a buffer for each one it returned.
    #[inline(always)]
    fn refill(&mut self, pool: &mut Pool) {
        let missing = self.ring.ids().room();
        if missing < self.refill || self.ring.violation().is_some() {
            return;
        }
        let mut count = 0;
        for packet in pool.fresh(missing as usize) {
            count += 1;
            let address = packet.rx_iova();
            self.slots.put(self.ring.ids().next(), packet);
            if self.layout.joined {
                self.ring.put(Part { address, len: DATA_ROOM as u32, write: true });
            } else {
                let header = self.layout.header;
                const { assert!(HEADROOM >= 32, "a header fits in front") };
                self.ring.put_parts(&[
                    Part { address: address - header as u64, len: header as u32, write: true },
                    Part { address, len: DATA_ROOM as u32, write: true },
                ]);
            }
        }
        if count < missing {
            self.stats.no_buffer += u64::from(missing - count);
            stats::set(&self.counters.rx_no_buffer, self.stats.no_buffer);
        }
        if self.ring.publish() {
            stats::add(&self.counters.rx_kicks, 1);
            self.doorbell.ring();
        }
    }

    /// What the device may still reach.
    fn take_memory(&mut self) -> (Vec<Region>, Slots) {
        (self.ring.memory(), mem::take(&mut self.slots))
    }
}

impl<R: Virtqueue> Drop for Rx<R> {
    fn drop(&mut self) {
        let shared = self.shared.clone();
        // The device must be quiesced before its buffers go back to their pool.
        if shared.quiesced.load(Relaxed) || shared.transport.stop_queue(self.queue) {
            return;
        }
        shared.retire(Box::new(self.take_memory()));
    }
}
