//! Transmitting: each packet takes one slot of the ring; the device returns the
//! slots of packets it has read.

mod offload;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memory::{Batch, Dma, Packet, Pool, Region};
use regs::virtio::net::header;

use super::headers::Headers;
use super::ring::{Part, RingViolation, Virtqueue};
use super::shared::VirtioShared;
use super::slots::Slots;
use super::stats::{self, QueueCounters};
use super::transport::Doorbell;
use crate::Result;
use port::TxStats;

/// How long a dropped transmit queue waits for what was queued.
const DRAIN: Duration = Duration::from_millis(100);

/// The most parts of a packet: 64 KiB in buffers of 2 KiB, and a header.
pub(super) const MAX_PARTS: usize = 34;

/// What a transmit queue may ask of the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    /// Bytes of the header in front of each packet.
    pub header: usize,
    /// Header and frame may stand in one descriptor.
    pub joined: bool,
    /// The most parts of a buffer.
    pub parts: usize,
    /// The longest frame, unless it is cut.
    pub frame: usize,
    /// The device fills in checksums.
    pub checksum: bool,
    /// The device cuts TCP over IPv4, over IPv6.
    pub segment: [bool; 2],
    /// It cuts packets into datagrams of UDP.
    pub datagrams: bool,
}

/// A transmit queue over one kind of ring.
pub(super) struct Tx<R: Virtqueue> {
    ring: R,
    slots: Slots,
    pub(super) able: Abilities,
    /// Headers of packets that have no room in front.
    headers: Headers,
    /// Packets of several segments that the device has.
    chains: u32,
    doorbell: Doorbell,
    pub(super) stats: TxStats,
    queue: u16,
    counters: Arc<QueueCounters>,
    shared: Arc<VirtioShared>,
}

impl<R: Virtqueue> Tx<R> {
    pub(super) fn new(
        shared: &Arc<VirtioShared>,
        dma: &Dma,
        queue: u16,
        ring: R,
        doorbell: Doorbell,
        able: Abilities,
    ) -> Result<Tx<R>> {
        let slots = ring.ids().size();
        Ok(Tx {
            slots: Slots::new(slots),
            able,
            headers: Headers::new(dma, slots)?,
            chains: 0,
            doorbell,
            stats: TxStats::default(),
            queue,
            counters: shared.counters(),
            shared: shared.clone(),
            ring,
        })
    }

    /// Takes packets from the front of `batch` for the device to send; what the
    /// ring has no room for stays. Returns how many packets were taken.
    #[inline]
    pub(super) fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.clean(pool);
        let offered = batch.len();
        let (before, mut bytes, mut sent) = (self.ring.ids().put, 0, 0);
        while let Some(packet) = batch.first() {
            if self.ring.ids().room() == 0 || self.ring.violation().is_some() {
                break;
            }
            let len = packet.len();
            let simple = packet.is_plain() && len.wrapping_sub(1) < self.able.frame;
            if simple && self.able.joined && self.able.header <= header::BYTES {
                let Some(packet) = batch.pop_front() else { break };
                match self.able.header {
                    header::BYTES => self.put_plain::<{ header::BYTES }>(packet),
                    _ => self.put_plain::<{ header::BYTES_LEGACY }>(packet),
                }
                bytes += len as u64;
                sent += 1;
            } else if let Some(len) = self.send_special(batch, pool) {
                bytes += len;
                sent += 1;
            }
        }
        self.stats.packets += sent;
        self.stats.bytes += bytes;
        self.stats.ring_full += batch.len() as u64;
        if self.ring.ids().put != before {
            self.kick();
        }
        offered - batch.len()
    }

    /// A packet of one segment that asks for nothing: its header goes into its
    /// headroom.
    #[inline(always)]
    fn put_plain<const HEADER: usize>(&mut self, mut packet: Packet) {
        let id = self.ring.ids().next();
        let front = packet.push_front(HEADER).ok().and_then(|front| front.first_chunk_mut());
        let Some(header) = front else {
            return self.put_apart(packet, &[0; HEADER]);
        };
        // Written only if it changes: the device may hold the line.
        if *header != [0; HEADER] {
            *header = [0; HEADER];
        }
        let part = Part { address: packet.iova(), len: packet.len() as u32, write: false };
        self.slots.put(id, packet);
        self.ring.put(part);
    }

    /// Publishes what was put, and notifies the device if it wants that.
    #[inline(always)]
    fn kick(&mut self) {
        self.stats.bursts += 1;
        stats::set(&self.counters.tx_packets, self.stats.packets);
        stats::set(&self.counters.tx_bytes, self.stats.bytes);
        if self.ring.publish() {
            stats::add(&self.counters.tx_kicks, 1);
            self.doorbell.ring();
        }
    }

    /// Frees what the device has sent; how many packets it still has.
    #[inline]
    pub(super) fn clean(&mut self, pool: &mut Pool) -> usize {
        self.ring.refresh_used();
        while let Some(used) = self.ring.pop() {
            match self.slots.take(used.id) {
                Some(packet) if self.chains == 0 => pool.free_segment(packet),
                Some(packet) => self.free_chain(packet, pool),
                None => self.ring.report_fault(RingViolation::Id(used.id.into())),
            }
        }
        if let Some(violation) = self.ring.violation() {
            self.shared.report_fault(violation.fault(&self.shared.name, self.queue));
        }
        self.ring.ids().outstanding() as usize
    }

    #[cold]
    fn free_chain(&mut self, packet: Packet, pool: &mut Pool) {
        self.chains -= u32::from(packet.next().is_some());
        pool.free(packet);
    }

    /// Drops a packet that was counted under its reason.
    #[cold]
    fn drop_one(&mut self, packet: Packet, pool: &mut Pool) {
        self.stats.unsendable += 1;
        pool.free(packet);
    }

    /// Counts what the device has not sent, at the queue's end.
    fn count_unsent(&self) {
        stats::add(&self.counters.tx_unsent, self.ring.ids().outstanding().into());
    }

    /// What the device may still reach.
    fn take_memory(&mut self) -> (Vec<Region>, Slots) {
        let mut regions = self.ring.memory();
        regions.push(self.headers.region.clone());
        (regions, mem::take(&mut self.slots))
    }

    /// Waits until what was queued is sent, if the device goes on with it.
    fn drain(&mut self, limit: Duration) {
        let limit = Instant::now() + limit;
        while self.ring.ids().outstanding() > 0 && self.ring.violation().is_none() {
            self.ring.refresh_used();
            while let Some(used) = self.ring.pop() {
                drop(self.slots.take(used.id));
            }
            if Instant::now() >= limit || self.shared.transport.health().is_err() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl<R: Virtqueue> Drop for Tx<R> {
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let quiesced = shared.quiesced.load(Relaxed);
        self.drain(if quiesced { Duration::ZERO } else { DRAIN });
        self.count_unsent();
        if quiesced || shared.transport.stop_queue(self.queue) {
            return;
        }
        shared.retire(Box::new(self.take_memory()));
    }
}
