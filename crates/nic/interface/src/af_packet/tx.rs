//! Sending: a ring of frames of the same size (`TPACKET_V2`, linux/if_packet.h).
//! A frame that is filled in says so in its status, and one system call has the
//! kernel send all that are. It sends from the ring itself, so a frame is free
//! again only when the interface is done with it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use memory::{Batch, Packet, Pool};

use super::{PacketSocket, kick};
use crate::counters::TxCounters;
use crate::frame::{Longest, check};
use crate::mapping::Mapping;
use port::{TxQueue, TxStats};

/// `TPACKET_V2` of `enum tpacket_versions`.
const V2: i32 = 1;
/// Bytes of a block, which holds whole frames.
const BLOCK: usize = 64 << 10;
/// Words of `struct tpacket2_hdr`, and where the kernel looks for the data: where
/// the address would begin in a received frame (packet_mmap.rst).
const STATUS: usize = 0;
const LEN: usize = 4;
const DATA: usize = 32;
/// The frame belongs to the kernel.
const TAKEN: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING;

/// A transmit queue.
#[derive(Debug)]
pub(super) struct Tx {
    ring: Mapping,
    socket: PacketSocket,
    /// Bytes of a frame.
    space: usize,
    /// Frames, a power of two.
    frames: u32,
    /// The next frame to fill, and the first that may not be free, free-running.
    next: u32,
    clean: u32,
    longest: Longest,
    counters: Arc<TxCounters>,
}

impl Tx {
    /// A ring of at least `frames` frames for up to `room` bytes each, on a socket
    /// that is bound.
    pub(super) fn new(
        socket: PacketSocket,
        frames: usize,
        room: usize,
        longest: Longest,
        counters: Arc<TxCounters>,
    ) -> io::Result<Tx> {
        let space = (DATA + room).next_power_of_two().max(2048);
        let blocks = (frames * space).div_ceil(BLOCK).next_power_of_two();
        let frames = blocks * BLOCK / space;
        socket.set(libc::PACKET_VERSION, V2)?;
        // A frame the kernel takes exception to is passed over: it would stop the
        // ring for good.
        socket.set(libc::PACKET_LOSS, 1)?;
        socket.set(libc::PACKET_QDISC_BYPASS, 1)?;
        socket.set(libc::PACKET_TX_RING, [BLOCK, blocks, space, frames].map(|n| n as u32))?;
        let ring = Mapping::map(&socket, blocks * BLOCK, 0)?;
        Ok(Tx { ring, socket, space, frames: frames as u32, next: 0, clean: 0, longest, counters })
    }

    /// Where a frame lies.
    fn at(&self, frame: u32) -> usize {
        (frame & (self.frames - 1)) as usize * self.space
    }

    fn put(&mut self, packet: &Packet, len: usize) {
        let frame = self.at(self.next);
        let mut at = frame + DATA;
        for segment in packet.segments() {
            self.ring.write(at, segment);
            at += segment.len();
        }
        self.ring.word(frame + LEN).store(len as u32, Relaxed);
        // Release: the frame is whole before the kernel may look.
        self.ring.word(frame + STATUS).store(libc::TP_STATUS_SEND_REQUEST, Release);
        self.next = self.next.wrapping_add(1);
    }

    /// Whether there is a frame that the kernel is done with. Its data was copied
    /// when it was put, so there is nothing to free.
    fn has_room(&self) -> bool {
        // Acquire: the kernel read the frame before it let go of it.
        let status = self.ring.word(self.at(self.next) + STATUS).load(Acquire);
        status & TAKEN == 0
    }
}

impl TxQueue for Tx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (offered, longest) = (batch.len(), self.longest.read());
        let (mut packets, mut bytes) = (0, 0);
        while !batch.is_empty() && self.has_room() {
            let Some(packet) = batch.pop_front() else { break };
            if let Some(len) = check(&packet, longest, &self.counters) {
                self.put(&packet, len);
                packets += 1;
                bytes += len;
            }
            pool.free(packet);
        }
        self.counters.burst(packets, bytes, batch.len());
        if packets > 0 || !batch.is_empty() {
            // What is not sent now is sent by the next call, or by `clean`.
            let _ = kick(&self.socket);
        }
        offered - batch.len()
    }

    fn clean(&mut self, _pool: &mut Pool) -> usize {
        let mut asked = false;
        while self.clean != self.next {
            // Acquire: as in `has_room`.
            let status = self.ring.word(self.at(self.clean) + STATUS).load(Acquire);
            if status & TAKEN == 0 {
                self.clean = self.clean.wrapping_add(1);
            } else if status & libc::TP_STATUS_SEND_REQUEST != 0 && !asked {
                // The interface, or our share of memory, was full.
                asked = true;
                let _ = kick(&self.socket);
            } else {
                break;
            }
        }
        self.next.wrapping_sub(self.clean) as usize
    }

    fn stats(&self) -> TxStats {
        self.counters.stats()
    }
}
