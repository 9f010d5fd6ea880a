//! Receiving: a ring of blocks, each a chain of frames of any length
//! (`TPACKET_V3`, linux/if_packet.h). A block belongs to the kernel until its
//! status says otherwise, and goes back when its last frame was copied.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use memory::{Batch, DATA_ROOM, Packet, Pool};
use wire::ethernet::{self, EtherType};

use super::socket::PacketSocket;
use crate::checksum;
use crate::counters::RxCounters;
use crate::frame::{TAG, fill, fits, is_tagged, room};
use crate::mapping::Mapping;
use port::{Options, RxQueue, RxStats};

/// `TPACKET_V3` of `enum tpacket_versions`.
const V3: i32 = 2;
/// Bytes of a block; a frame's space is only there to be multiplied.
pub(super) const BLOCK: usize = 64 << 10;
const SPACE: usize = 2048;
/// The oldest a block gets before the kernel hands it over, in ms: the least.
const RETIRE_MS: u32 = 1;
/// Frames looked at in one call at most, those that are lost included.
const MAX_FRAMES: usize = 4 * Batch::MAX;

/// Words of `struct tpacket_block_desc`, as offsets.
const STATUS: usize = 8;
const FRAMES: usize = 12;
const FIRST: usize = 16;
/// Words of `struct tpacket3_hdr`, and its length.
const NEXT: usize = 0;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 8;
const CAPTURED: usize = 12;
const LEN: usize = 16;
const FLAGS: usize = 20;
const PLACES: usize = 24;
const TAG_VALUE: usize = 32;
const TAG_KIND: usize = 36;
const HEADER: usize = 48;

/// A receive queue.
#[derive(Debug)]
pub(super) struct Rx {
    ring: Mapping,
    socket: Arc<PacketSocket>,
    blocks: usize,
    /// The block that is read or awaited.
    block: usize,
    /// Frames left in it, and where the next one is.
    left: u32,
    at: usize,
    max_frame: usize,
    /// Packets carry the kernel's time.
    pub(super) stamps: bool,
    counters: Arc<RxCounters>,
}

/// What became of a frame.
enum Taken {
    Packet(Packet),
    /// It stays where it is.
    NoBuffer,
    Lost,
}

impl Rx {
    /// A ring for about as many frames as the options say; `longest` is that with a tag.
    pub(super) fn new(
        socket: &Arc<PacketSocket>,
        options: &Options,
        longest: usize,
        counters: Arc<RxCounters>,
    ) -> io::Result<Rx> {
        let space = longest.max(SPACE).next_multiple_of(SPACE);
        let blocks = (options.rx_ring * space).div_ceil(BLOCK).max(4);
        let ring = [BLOCK, blocks, SPACE, blocks * BLOCK / SPACE].map(|n| n as u32);
        socket.set(libc::PACKET_VERSION, V3)?;
        socket.set(libc::PACKET_RX_RING, [ring[0], ring[1], ring[2], ring[3], RETIRE_MS, 0, 0])?;
        let ring = Mapping::map(&**socket, blocks * BLOCK, 0)?;
        let rx = Rx::over(ring, socket.clone(), blocks, longest - TAG, counters);
        Ok(Rx { stamps: options.timestamps, ..rx })
    }

    /// A queue over a ring of so many blocks.
    pub(super) fn over(
        ring: Mapping,
        socket: Arc<PacketSocket>,
        blocks: usize,
        max_frame: usize,
        counters: Arc<RxCounters>,
    ) -> Rx {
        Rx { ring, socket, blocks, block: 0, left: 0, at: 0, max_frame, stamps: false, counters }
    }

    fn load(&self, offset: usize) -> u32 {
        self.ring.word(offset).load(Relaxed)
    }

    /// Whether the kernel has handed the next block over.
    fn is_open(&self) -> bool {
        // Acquire: pairs with the kernel's barrier before it writes the status.
        self.ring.word(self.block * BLOCK + STATUS).load(Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Opens the next block if the kernel has handed it over.
    fn open(&mut self) -> bool {
        let start = self.block * BLOCK;
        if !self.is_open() {
            return false;
        }
        (self.left, self.at) = (self.load(start + FRAMES), start + self.load(start + FIRST) as usize);
        if self.left == 0 {
            self.close(); // the time was over, and nothing had come
        }
        true
    }

    /// Gives the block back.
    fn close(&mut self) {
        // Release: what we read from it was read before the kernel overwrites it.
        self.ring.word(self.block * BLOCK + STATUS).store(libc::TP_STATUS_KERNEL, Release);
        self.block = (self.block + 1) % self.blocks;
        self.left = 0;
    }

    /// Goes on to the frame behind this one.
    fn advance(&mut self, frame: usize) {
        let step = self.load(frame + NEXT) as usize;
        self.at = frame.saturating_add(step);
        self.left -= 1;
        if self.left > 0 && step < HEADER {
            self.counters.malformed.add(self.left.into()); // it leads nowhere
            self.left = 0;
        }
        if self.left == 0 {
            self.close();
        }
    }

    /// Copies the next frame out.
    fn take(&mut self, pool: &mut Pool) -> Taken {
        let (frame, end) = (self.at, (self.block + 1) * BLOCK);
        if frame + HEADER > end || frame % 8 != 0 {
            self.counters.malformed.add(self.left.into());
            self.close();
            return Taken::Lost;
        }
        let (captured, len) = (self.load(frame + CAPTURED) as usize, self.load(frame + LEN) as usize);
        let flags = self.load(frame + FLAGS);
        // The lower half of the word: where the link layer's header begins.
        let data = frame + (self.load(frame + PLACES) & 0xFFFF) as usize;
        let tag = (flags & libc::TP_STATUS_VLAN_VALID != 0).then(|| self.tag(frame, flags));
        let mut start = [0; ethernet::HEADER_LEN];
        let whole = captured.min(len) >= start.len() && data + captured <= end;
        if whole {
            self.ring.read(data, &mut start);
        }
        let (tagged, long) = (tag.is_some() || is_tagged(&start), len + tag.map_or(0, |_| TAG));
        if !whole || captured < len || !fits(long, tagged, self.max_frame) {
            match whole {
                true => self.counters.oversize.add(1),
                false => self.counters.malformed.add(1),
            }
            self.advance(frame);
            return Taken::Lost;
        }
        let Some(mut packet) = room(pool, long) else { return Taken::NoBuffer };
        fill(&mut packet, long, |at, part| match (tag, at) {
            (None, _) => self.ring.read(data + at, part),
            (Some(tag), 0) => {
                let (addresses, rest) = part.split_at_mut(ethernet::ADDRESSES_LEN);
                self.ring.read(data, addresses);
                rest[..TAG].copy_from_slice(&tag);
                self.ring.read(data + ethernet::ADDRESSES_LEN, &mut rest[TAG..]);
            }
            (Some(_), _) => self.ring.read(data + at - TAG, part),
        });
        if flags & libc::TP_STATUS_CSUMNOTREADY != 0 && long <= DATA_ROOM {
            checksum::complete(&mut packet);
        }
        if self.stamps {
            let (s, ns) = (self.load(frame + SECONDS), self.load(frame + NANOSECONDS));
            packet.annotations_mut().timestamp_ns = i64::from(s) * 1_000_000_000 + i64::from(ns);
        }
        self.advance(frame);
        Taken::Packet(packet)
    }

    /// The tag that the kernel, or the interface, took out of a frame.
    fn tag(&self, frame: usize, flags: u32) -> [u8; TAG] {
        let kind = match flags & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => EtherType::VLAN.0,
            _ => self.load(frame + TAG_KIND) as u16,
        };
        let ([a, b], [c, d]) = (kind.to_be_bytes(), (self.load(frame + TAG_VALUE) as u16).to_be_bytes());
        [a, b, c, d]
    }
}

impl RxQueue for Rx {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (mut packets, mut bytes) = (0, 0);
        for _ in 0..MAX_FRAMES {
            if batch.room() == 0 || self.left == 0 && !self.open() {
                break;
            }
            if self.left == 0 {
                continue;
            }
            match self.take(pool) {
                Taken::Packet(packet) => {
                    bytes += packet.total_len();
                    packets += 1;
                    let full = batch.push(packet);
                    debug_assert!(full.is_none(), "there was room");
                }
                Taken::NoBuffer => {
                    self.counters.no_buffer.add(1);
                    break;
                }
                Taken::Lost => {}
            }
        }
        self.counters.burst(packets, bytes);
        packets
    }

    fn stats(&self) -> RxStats {
        self.counters.stats()
    }

    /// The socket itself: readable when a block is.
    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn disarm(&mut self) {
        if self.left == 0 && !self.is_open() {
            self.socket.forget_error();
        }
    }
}
