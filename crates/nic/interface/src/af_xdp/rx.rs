//! Receiving: the kernel takes buffers from the fill ring, and puts them with a
//! packet in them on the receive ring.
//!
//! The packets handed out are buffers of this queue's own pool, which come back to
//! it when they are freed, wherever that is. When an application holds so many
//! that the fill ring could run dry, packets are copied into its own instead.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use memory::{Batch, Packet, Pool};
use rustix::net::{RecvFlags, recv};

use super::socket::{RxRings, XdpSocket};
use super::umem::Umem;
use crate::checksum;
use crate::counters::RxCounters;
use crate::frame::{fits, is_tagged};
use port::RxStats;

/// A receive queue.
#[derive(Debug)]
pub(super) struct Rx {
    /// The interface's queue.
    queue: u32,
    socket: Arc<XdpSocket>,
    rings: RxRings,
    pub(super) memory: Umem,
    pool: Pool,
    /// The buffers that the kernel has, and how many.
    held: Box<[Option<Packet>]>,
    count: usize,
    /// How many it shall have.
    target: usize,
    traits: Traits,
    counters: Arc<RxCounters>,
}

/// What is to be known of what comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    /// The longest frame, without a tag.
    pub(super) max_frame: usize,
    /// Checksums may be left open.
    pub(super) open_checksums: bool,
}

impl Rx {
    /// Fills the fill ring: packets can come on the interface's queue.
    pub(super) fn new(
        (queue, socket): (u32, Arc<XdpSocket>),
        rings: RxRings,
        memory: Umem,
        pool: Pool,
        traits: Traits,
        counters: Arc<RxCounters>,
    ) -> Rx {
        let (held, target) = (memory.table(), rings.fill.room() as usize);
        let mut rx = Rx { queue, socket, rings, memory, pool, held, count: 0, target, traits, counters };
        rx.refill();
        rx
    }

    /// The socket: readable when a packet is there.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The interface's queue.
    pub(super) fn queue(&self) -> u32 {
        self.queue
    }

    /// Gives the kernel as many buffers as it shall have and there are.
    fn refill(&mut self) {
        let wanted = (self.target - self.count).min(self.rings.fill.room() as usize);
        if wanted == 0 {
            return;
        }
        for packet in self.pool.fresh(wanted) {
            let address = self.memory.buffer(&packet);
            let place = address.and_then(|address| self.memory.find(address));
            let (Some(address), Some((buffer, _))) = (address, place) else { continue };
            self.rings.fill.put(address, 0);
            self.held[buffer] = Some(packet);
            self.count += 1;
        }
        self.rings.fill.publish();
        if self.rings.fill.needs_wakeup() {
            // Nothing is received by it; the driver looks at the fill ring.
            let _ = recv(&*self.socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Every buffer is in the table or in the pool: none was lost.
    #[cfg(test)]
    pub(super) fn check(&mut self) {
        let held = self.held.iter().flatten().count();
        assert_eq!(held, self.count);
        let staged = self.target; // as many as the other ring has entries
        assert_eq!(held + self.pool.available() + staged, self.pool.capacity());
    }

    /// The packet of a receive descriptor, taken from the kernel; `None` when it
    /// makes no sense or is too long, which is counted.
    fn take(&mut self, address: u64, len: usize) -> Option<Packet> {
        let found = self.memory.find(address);
        let taken = found.and_then(|(buffer, at)| Some((self.held[buffer].take()?, at)));
        let Some((mut packet, at)) = taken else {
            self.counters.malformed.add(1);
            return None;
        };
        self.count -= 1;
        if !Umem::receive(&mut packet, at, len) {
            self.counters.malformed.add(1);
        } else if !fits(len, is_tagged(&packet), self.traits.max_frame) {
            self.counters.oversize.add(1);
        } else {
            if self.traits.open_checksums {
                checksum::complete(&mut packet);
            }
            return Some(packet);
        }
        self.pool.free_segment(packet);
        None
    }
}

impl Rx {
    /// Receives a burst, as [`RxQueue::recv`](port::RxQueue::recv) does.
    pub(super) fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (mut packets, mut bytes) = (0, 0);
        let came = (self.rings.rx.filled() as usize).min(batch.room());
        // What is handed out must not be missing for the next ones.
        let mut spare = if came > 0 { self.pool.available() } else { 0 };
        for _ in 0..came {
            let copy = match spare {
                0 => match pool.alloc() {
                    Some(copy) => Some(copy),
                    None => {
                        self.counters.no_buffer.add(1);
                        break;
                    }
                },
                _ => None,
            };
            let (address, len) = self.rings.rx.peek();
            self.rings.rx.advance();
            let packet = match (self.take(address, len), copy) {
                (Some(packet), None) => {
                    spare -= 1;
                    packet
                }
                (Some(packet), Some(mut copy)) => {
                    let copied = copy.copy_from(&packet);
                    debug_assert!(copied.is_ok(), "a fresh buffer has room for any other's data");
                    self.pool.free_segment(packet);
                    copy
                }
                (None, copy) => {
                    copy.into_iter().for_each(|copy| pool.free(copy));
                    continue;
                }
            };
            (packets, bytes) = (packets + 1, bytes + packet.len());
            let full = batch.push(packet);
            debug_assert!(full.is_none(), "there was room");
        }
        if came > 0 {
            self.rings.rx.publish();
        }
        self.refill();
        self.counters.burst(packets, bytes);
        packets
    }

    /// What this queue counted.
    pub(super) fn stats(&self) -> RxStats {
        self.counters.stats()
    }
}
