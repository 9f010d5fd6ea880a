//! Transmitting (82599 datasheet 7.2; the 82576's section is the same): we fill descriptors and ring the doorbell; the
//! device reports on those that asked for it (RS), and everything up to such a
//! report can be freed. Packets that want an offload or have several segments go the way
//! of `special.rs`.

mod special;

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering::Relaxed};

use bus::{Register, order};
use memory::{Batch, Packet, Pool};
use port::{Options, TxStats};

use super::{chip::Chip, chip::Queues, layout::TxLayout, offload::Special, writeback::Head};
use crate::{Result, ring::DescriptorRing};

/// A report is asked for at the end of each call, and this often within one.
const REPORT_EVERY: u32 = 32;

/// A transmit queue. Stops transmitting when dropped.
pub struct TxQueue<L: TxLayout> {
    pub(crate) ring: DescriptorRing<[AtomicU64; 2]>,
    /// The first descriptor that is not free, free-running.
    clean: u32,
    /// The next descriptor to fill, free-running.
    next: u32,
    /// The last descriptor that asked for a report.
    reported: u32,
    /// Descriptors that asked for a report and are not yet freed.
    reports: VecDeque<u32>,
    pub(crate) head: Option<Head>,
    tail: Register,
    special: Special<L>,
    stats: TxStats,
    pub(crate) index: usize,
    pub(super) owner: Arc<dyn Queues>,
}

impl<L: TxLayout> TxQueue<L> {
    /// Prepares queue `index` of a device; its chip starts it.
    pub(crate) fn new(device: &Arc<impl Chip>, index: usize, options: &Options) -> Result<TxQueue<L>> {
        let ring = DescriptorRing::new(&device.dma, options.tx_ring)?;
        Ok(TxQueue {
            clean: 0,
            next: 0,
            reported: u32::MAX,
            reports: VecDeque::with_capacity(options.tx_ring),
            head: Head::wanted(&device.dma, options.completion)?,
            tail: device.bar.register(device.info.tdt.at(index)),
            special: Special::new(device),
            stats: TxStats::default(),
            index,
            owner: device.clone(),
            ring,
        })
    }

    /// How many descriptors the device has finished with, by its reports.
    fn done_by_reports(&mut self) -> u32 {
        let mut done = 0;
        while let Some(&report) = self.reports.front() {
            if !L::done(self.ring.at(report)[1].load(Relaxed)) {
                break;
            }
            done = report.wrapping_sub(self.clean).wrapping_add(1);
            self.reports.pop_front();
        }
        order::after_ready(); // the device has read the buffers that are now reused
        done
    }

    /// Puts packets of one buffer of which the device is asked nothing, for as
    /// long as they come and there is room; how many.
    #[inline(always)]
    fn send_plain(&mut self, batch: &mut Batch) -> u32 {
        let (descriptors, places) = self.ring.slice(self.next, self.room().min(REPORT_EVERY));
        let (mut slots, mut bytes) = (descriptors.iter().zip(places), 0);
        let is_plain = |packet: &Packet| packet.is_plain() && packet.len() >= L::SHORTEST;
        let sent = batch.give(slots.len(), is_plain, |packet| {
            let Some((descriptor, place)) = slots.next() else { return };
            let len = packet.len() as u64;
            bytes += len;
            descriptor[0].store(packet.iova(), Relaxed);
            descriptor[1].store(L::whole(len), Relaxed);
            // Not assigned, so that no drop of an old value is compiled in.
            mem::forget(place.replace(packet));
        }) as u32;
        self.next = self.next.wrapping_add(sent);
        self.stats.packets += u64::from(sent);
        self.stats.bytes += bytes;
        sent
    }

    /// Tells the device of all that was put since the last time.
    fn ring_doorbell(&mut self) {
        // The last packet of a call always reports, or its buffer would stay
        // out until others push it on.
        self.report_last();
        self.stats.bursts += 1;
        order::before_doorbell();
        self.tail.write(self.ring.offset(self.next));
    }

    /// Has the device report when it is done with the last packet.
    fn report_last(&mut self) {
        let last = self.next.wrapping_sub(1);
        if self.reported == last {
            return;
        }
        self.reported = last;
        let command = &self.ring.at(last)[1];
        command.store(command.load(Relaxed) | L::REPORT, Relaxed);
        if self.head.is_none() {
            self.reports.push_back(last);
        }
    }

    /// Descriptors that the device owns.
    fn in_flight(&self) -> u32 {
        self.next.wrapping_sub(self.clean)
    }

    /// Free descriptors; one stays empty, for head = tail means none (7.2.3.3).
    fn room(&self) -> u32 {
        self.ring.size() - 1 - self.in_flight()
    }
}

impl<L: TxLayout> Drop for TxQueue<L> {
    fn drop(&mut self) {
        tracing::debug!("transmit queue {}: taken back from the device", self.index);
        // The device must be quiesced before its buffers go back to their pools.
        if !self.owner.disable_tx(self.index) {
            let device = self.owner.device();
            device.retire(self.ring.take_memory());
            self.head.take().into_iter().for_each(|head| device.retire(Box::new(head)));
        }
    }
}

impl<L: TxLayout> port::TxQueue for TxQueue<L> {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.ring.prefetch_write(self.next, self.room().min(batch.len() as u32));
        self.clean(pool);
        let (start, offered) = (self.next, batch.len());
        while !batch.is_empty() {
            if self.send_plain(batch) == 0 {
                // Offloads, several segments, nothing to send, or no room.
                let Some(sent) = self.send_special(batch, pool) else { break };
                self.stats.packets += u64::from(sent > 0);
                self.stats.bytes += sent;
            }
            if self.next.wrapping_sub(self.reported) > REPORT_EVERY {
                self.report_last();
            }
        }
        self.stats.ring_full += batch.len() as u64;
        if self.next != start {
            self.ring_doorbell();
        }
        offered - batch.len()
    }

    fn clean(&mut self, pool: &mut Pool) -> usize {
        let done = match &self.head {
            // Never past `next`, whatever the device wrote.
            Some(head) => head.read().wrapping_sub(self.clean) & (self.ring.size() - 1),
            None => self.done_by_reports(),
        };
        let end = self.clean.wrapping_add(done.min(self.in_flight()));
        while self.clean != end {
            let (_, packets) = self.ring.slice(self.clean, end.wrapping_sub(self.clean));
            self.clean = self.clean.wrapping_add(packets.len() as u32);
            // Context descriptors have no packet.
            pool.free_segments(packets.iter_mut().filter_map(Option::take));
        }
        self.in_flight() as usize
    }

    fn stats(&self) -> TxStats {
        TxStats { unsendable: self.special.dropped(), ..self.stats }
    }
}
