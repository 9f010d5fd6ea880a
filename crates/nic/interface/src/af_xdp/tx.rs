//! Sending: packets go on the transmit ring, and their buffers come back on the
//! completion ring. Packets that lie in this queue pair's memory are sent as they
//! are; others are copied into buffers kept for that.

use std::sync::Arc;

use memory::{Batch, Packet, Pool};
use rustix::io::Errno;

use super::socket::{TxRings, XdpSocket};
use super::umem::Umem;
use crate::af_packet::kick;
use crate::counters::TxCounters;
use crate::frame::{Longest, check};
use port::{TxQueue, TxStats};

/// Packets the kernel sends in one call at the least, where it copies
/// (`TX_BATCH_SIZE`).
const KERNEL_BATCH: u32 = 16;

/// A transmit queue.
#[derive(Debug)]
pub(super) struct Tx {
    socket: Arc<XdpSocket>,
    rings: TxRings,
    memory: Umem,
    /// The buffers that the kernel has, and how many.
    held: Box<[Option<Held>]>,
    count: usize,
    /// Entries of each ring.
    entries: usize,
    /// Free buffers for copies.
    staging: Vec<Packet>,
    longest: Longest,
    counters: Arc<TxCounters>,
}

/// A buffer with the kernel.
#[derive(Debug)]
enum Held {
    /// A packet of the application's, as it is.
    Sent(Packet),
    /// A copy, in a buffer of ours.
    Staged(Packet),
}

impl Tx {
    /// A queue that copies through the buffers in `staging`.
    pub(super) fn new(
        socket: Arc<XdpSocket>,
        rings: TxRings,
        memory: Umem,
        staging: Vec<Packet>,
        longest: Longest,
        counters: Arc<TxCounters>,
    ) -> Tx {
        let (held, entries) = (memory.table(), rings.tx.room() as usize);
        Tx { socket, rings, memory, held, count: 0, entries, staging, longest, counters }
    }

    /// Whether another packet can be sent.
    fn has_room(&self) -> bool {
        // What was sent and has not come back must fit the completion ring.
        self.count < self.entries && self.rings.tx.room() > 0
    }

    /// Puts a packet on the ring; gives it back if that cannot be.
    fn put(&mut self, packet: Packet, len: usize, pool: &mut Pool) -> Result<(), Packet> {
        let place = |packet: &Packet| {
            let address = self.memory.address(packet)?;
            Some((address, self.memory.find(address)?.0))
        };
        let plain = packet.next().is_none();
        let (address, buffer, held) = match place(&packet).filter(|_| plain) {
            Some((address, buffer)) => (address, buffer, Held::Sent(packet)),
            None => {
                let Some(mut copy) = self.staging.pop() else { return Err(packet) };
                gather(&packet, &mut copy, len);
                let Some((address, buffer)) = place(&copy) else { return Err(packet) };
                pool.free(packet);
                (address, buffer, Held::Staged(copy))
            }
        };
        self.rings.tx.put(address, len);
        self.held[buffer] = Some(held);
        self.count += 1;
        Ok(())
    }

    /// Has the kernel send what is on the ring, where it does not by itself.
    fn push(&self) {
        let mut waiting = self.rings.tx.waiting();
        while waiting > 0 && self.rings.tx.needs_wakeup() {
            let asked = kick(&*self.socket);
            let left = self.rings.tx.waiting();
            // Only when it sent a part, and says that it wants to be asked again.
            if !matches!(asked, Err(Errno::AGAIN)) || left + KERNEL_BATCH > waiting {
                break;
            }
            waiting = left;
        }
    }

    /// Takes back what was sent.
    fn complete(&mut self, pool: &mut Pool) {
        let sent = self.rings.completion.filled();
        for _ in 0..sent {
            let (address, _) = self.rings.completion.peek();
            self.rings.completion.advance();
            let held = self.memory.find(address).and_then(|(buffer, _)| self.held[buffer].take());
            match held {
                Some(Held::Sent(packet)) => pool.free(packet),
                Some(Held::Staged(packet)) => self.staging.push(packet),
                None => continue, // not one that we sent
            }
            self.count -= 1;
        }
        if sent > 0 {
            self.rings.completion.publish();
        }
    }
}

/// Copies all segments of a packet into one buffer.
fn gather(packet: &Packet, copy: &mut Packet, len: usize) {
    let set = copy.set_len(len);
    debug_assert!(set.is_ok(), "the length was checked");
    let mut rest = &mut copy[..];
    for segment in packet.segments() {
        let (part, behind) = rest.split_at_mut(segment.len().min(rest.len()));
        part.copy_from_slice(&segment[..part.len()]);
        rest = behind;
    }
}

impl TxQueue for Tx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.complete(pool);
        let (offered, longest) = (batch.len(), self.longest.read());
        let (mut packets, mut bytes) = (0, 0);
        while self.has_room() {
            let Some(first) = batch.first() else { break };
            let Some(len) = check(first, longest, &self.counters) else {
                batch.pop_front().into_iter().for_each(|packet| pool.free(packet));
                continue;
            };
            if self.staging.is_empty() && (first.next().is_some() || self.memory.address(first).is_none()) {
                break; // nowhere to copy it to
            }
            let Some(packet) = batch.pop_front() else { break };
            match self.put(packet, len, pool) {
                Ok(()) => (packets, bytes) = (packets + 1, bytes + len),
                Err(packet) => {
                    // Not to be: there is a buffer, and it lies where it should.
                    self.counters.refused.add(1);
                    pool.free(packet);
                }
            }
        }
        if packets > 0 {
            self.rings.tx.publish();
        }
        self.push();
        self.counters.burst(packets, bytes, batch.len());
        offered - batch.len()
    }

    fn clean(&mut self, pool: &mut Pool) -> usize {
        self.complete(pool);
        if self.count > 0 {
            self.push();
        }
        self.count
    }

    fn stats(&self) -> TxStats {
        self.counters.stats()
    }
}
