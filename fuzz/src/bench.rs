//! A driver's queues on a hostile device: an application of a few acts on one side, any
//! write to the rings on the other. How the queues are opened, and what else there is to
//! lie about, is each chip's own.

pub mod i40e;
pub mod ixgbe;

use port::{RxQueue, TxQueue};
use std::collections::HashSet;
use std::marker::PhantomData;

use arbitrary::Arbitrary;
use memory::{Batch, DATA_ROOM, HEADROOM, Packet, Pool, TxOffload};
use model::Dma as _;
use testbed::view::View;

/// Descriptors of a ring: the fewest there may be.
const RING: u32 = 64;
/// Packets of a pool: fewer than a ring and an application can hold.
const PACKETS: usize = 100;
const JUMBO: usize = 9000;

/// What the application or the device does next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    /// The device writes over a receive descriptor.
    RxForged { at: u8, words: [u64; 2] },
    /// The device fills some buffers, as the datasheet says or nearly so.
    RxDone { count: u8, low: u64, end: bool, error: u8, len: u16 },
    /// The device writes over a transmit descriptor.
    TxForged { at: u8, words: [u64; 2] },
    /// The device reports some descriptors as sent.
    TxDone { count: u8 },
    /// The device writes a head.
    Head(u32),
    /// The application receives.
    Recv { limit: u8 },
    /// The application sends what it has.
    Send { limit: u8 },
    /// The application asks what was sent.
    Clean,
    /// The application makes some packets, all the same.
    Make { copies: u8, len: u16, segments: u8, foreign: bool, flags: u8, lens: [u8; 3], segment_size: u16 },
    /// The application moves a packet's start or end.
    Trim { at: u8, front: i16, len: u16 },
    /// The application lets packets go, by its pool or by dropping them.
    Free { count: u8, dropped: bool },
}

/// A chip's descriptors, as its device reads and writes them.
pub trait Layout {
    /// A buffer that is filled, the last one of its frame, one whose frame is broken; and where
    /// its length is.
    const RX_DONE: u64;
    const RX_END: u64;
    const RX_ERROR: u64;
    const RX_LENGTH_SHIFT: u32;
    /// What the last descriptor of a call has.
    const TX_LAST: u64;

    /// A transmit descriptor's upper word, when the device is done with it.
    fn sent(high: u64) -> u64;
    /// How many bytes a transmit descriptor tells the device to read; `None` of a context.
    fn bytes(high: u64) -> Option<u64>;
}

/// One pair of queues from the device's side.
pub struct Pair<L> {
    memory: View,
    rx_ring: u64,
    tx_ring: u64,
    /// Where the head is written to, if it is.
    head: Option<u64>,
    /// The doorbells of the receive and the transmit queue, as they were written last.
    tails: Box<dyn Fn() -> [u32; 2]>,
    rx_head: u32,
    tx_head: u32,
    layout: PhantomData<L>,
}

impl<L: Layout> Pair<L> {
    /// A pair whose rings, and where their head is written to, have these addresses.
    pub fn new(
        memory: View,
        [rx_ring, tx_ring]: [u64; 2],
        head: Option<u64>,
        tails: impl Fn() -> [u32; 2] + 'static,
    ) -> Pair<L> {
        let (tails, layout) = (Box::new(tails), PhantomData);
        Pair { memory, rx_ring, tx_ring, head, tails, rx_head: 0, tx_head: 0, layout }
    }

    fn read(&self, ring: u64, at: u32) -> [u64; 2] {
        let mut bytes = [0; 16];
        assert!(self.memory.read(ring + u64::from(at % RING) * 16, &mut bytes), "the ring is mapped");
        let (words, _) = bytes.as_chunks::<8>();
        [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
    }

    fn write(&self, ring: u64, at: u32, words: [u64; 2]) {
        let mut bytes = [0; 16];
        bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(eight, word)| *eight = word.to_le_bytes());
        assert!(self.memory.write(ring + u64::from(at % RING) * 16, &bytes), "the ring is mapped");
    }

    fn rx_tail(&self) -> u32 {
        (self.tails)()[0]
    }

    fn tx_tail(&self) -> u32 {
        (self.tails)()[1]
    }

    fn fill(&mut self, count: u8, low: u64, high: u64) {
        for _ in 0..count {
            if self.rx_head == self.rx_tail() {
                return;
            }
            self.write(self.rx_ring, self.rx_head, [low, high]);
            self.rx_head = (self.rx_head + 1) % RING;
        }
    }

    fn sent(&mut self, count: u8) {
        for _ in 0..count {
            if self.tx_head == self.tx_tail() {
                return;
            }
            let [low, high] = self.read(self.tx_ring, self.tx_head);
            self.write(self.tx_ring, self.tx_head, [low, L::sent(high)]);
            self.tx_head = (self.tx_head + 1) % RING;
        }
    }

    fn write_head(&self, value: u32) {
        if let Some(at) = self.head {
            assert!(self.memory.write(at, &value.to_le_bytes()), "the head's place is mapped");
        }
    }

    /// What the driver gave since the tail was `from`: buffers of full size,
    /// with no done bit.
    fn check_rx(&self, from: u32) {
        let tail = self.rx_tail();
        assert!(tail < RING, "the tail is {tail}");
        let mut at = from;
        while at != tail {
            let [low, high] = self.read(self.rx_ring, at);
            assert!(self.memory.read(low, &mut [0; DATA_ROOM]), "descriptor {at} leads to {low:#x}");
            assert_eq!(high, 0, "descriptor {at} is done before it was given");
            at = (at + 1) % RING;
        }
    }

    /// The same of transmit descriptors: bytes that are there, and a report
    /// asked for at the end.
    fn check_tx(&self, from: u32) {
        let tail = self.tx_tail();
        assert!(tail < RING, "the tail is {tail}");
        let (mut at, mut last) = (from, None);
        while at != tail {
            let [low, high] = self.read(self.tx_ring, at);
            last = L::bytes(high).map(|len| {
                let mut bytes = vec![0; len as usize];
                assert!(!bytes.is_empty(), "descriptor {at} has no bytes");
                assert!(self.memory.read(low, &mut bytes), "descriptor {at} leads to {low:#x}");
                high
            });
            at = (at + 1) % RING;
        }
        if tail != from {
            let high = last.expect("a context alone is no packet");
            assert_eq!(high & L::TX_LAST, L::TX_LAST, "the last is {high:#x}");
        }
    }
}

/// A run on a pair of queues.
struct Run<'b, L, R, T> {
    device: Pair<L>,
    rx: &'b mut R,
    tx: &'b mut T,
    pools: &'b mut [Pool; 2],
    held: Vec<Packet>,
    /// The most segments a received packet may have.
    segments: usize,
}

impl<L: Layout, R: RxQueue, T: TxQueue> Run<'_, L, R, T> {
    fn act(&mut self, act: &Act) {
        self.carry_out(act);
        self.count();
    }

    fn carry_out(&mut self, act: &Act) {
        match *act {
            Act::RxForged { at, words } => self.device.write(self.device.rx_ring, at.into(), words),
            Act::RxDone { count, low, end, error, len } => {
                let end = if end { L::RX_END } else { 0 };
                let error = if error == 1 { L::RX_ERROR } else { 0 };
                // Some lengths are too long, most are not.
                let len = (u64::from(len) % (DATA_ROOM as u64 + 64)) << L::RX_LENGTH_SHIFT;
                self.device.fill(1 + count % 8, low, L::RX_DONE | end | error | len);
            }
            Act::TxForged { at, words } => self.device.write(self.device.tx_ring, at.into(), words),
            Act::TxDone { count } => self.device.sent(count),
            Act::Head(value) => self.device.write_head(value),
            Act::Recv { limit } => self.recv(limit.into()),
            Act::Send { limit } => self.send(limit.into()),
            Act::Clean => assert!(self.tx.clean(&mut self.pools[0]) < RING as usize),
            Act::Make { copies, len, segments, foreign, flags, lens, segment_size } => {
                let [l2_len, l3_len, l4_len] = lens;
                let offload = TxOffload { flags, l2_len, l3_len, l4_len, segment_size, vlan: len };
                for _ in 0..=copies % 32 {
                    self.make(len.into(), segments, usize::from(foreign), offload);
                }
            }
            Act::Trim { at, front, len } => self.trim(at, front, len),
            Act::Free { count, dropped } => {
                let count = usize::from(count).min(self.held.len());
                for packet in self.held.drain(..count) {
                    if dropped { drop(packet) } else { self.pools[0].free(packet) }
                }
            }
        }
    }

    fn recv(&mut self, limit: usize) {
        let (from, old) = (self.device.rx_tail(), self.rx.stats());
        let mut batch = Batch::with_limit(limit);
        let received = self.rx.recv(&mut self.pools[0], &mut batch);
        assert_eq!(received, batch.len());
        self.device.check_rx(from);
        let mut bytes = 0;
        for mut packet in batch.drain() {
            bytes += packet.total_len() as u64;
            check(&mut packet, self.segments);
            self.held.push(packet);
        }
        let new = self.rx.stats();
        assert_eq!((new.packets - old.packets, new.bytes - old.bytes), (received as u64, bytes));
        let mut seen = HashSet::new();
        let buffers = self.held.iter().flat_map(Packet::segments).map(Packet::rx_iova);
        assert!(buffers.into_iter().all(|iova| seen.insert(iova)), "a buffer was given twice");
    }

    fn send(&mut self, limit: usize) {
        let (from, old) = (self.device.tx_tail(), self.tx.stats());
        let mut batch = Batch::with_limit(limit);
        let count = batch.room().min(self.held.len());
        self.held.drain(..count).for_each(|packet| assert!(batch.push(packet).is_none()));
        let taken = self.tx.send(&mut self.pools[0], &mut batch);
        assert_eq!(taken + batch.len(), count);
        self.device.check_tx(from);
        let new = self.tx.stats();
        let counted = new.packets - old.packets + new.unsendable - old.unsendable;
        assert_eq!((counted, new.ring_full - old.ring_full), (taken as u64, batch.len() as u64));
        let left: Vec<Packet> = batch.drain().collect();
        self.held.splice(..0, left);
    }

    fn make(&mut self, len: usize, segments: u8, pool: usize, offload: TxOffload) {
        let Some(mut packet) = self.pools[pool].alloc() else { return };
        let fits = packet.set_len(len % (2 * DATA_ROOM)).is_ok();
        assert_eq!(fits, len % (2 * DATA_ROOM) <= DATA_ROOM);
        for _ in 0..segments % 48 {
            let Some(mut next) = self.pools[pool].alloc() else { break };
            let _ = next.set_len(len % 2049);
            packet.append(next);
        }
        packet.set_tx_offload(offload);
        self.held.push(packet);
    }

    fn trim(&mut self, at: u8, front: i16, len: u16) {
        let count = self.held.len().max(1);
        let Some(packet) = self.held.get_mut(usize::from(at) % count) else { return };
        let n = usize::from(front.unsigned_abs());
        let _ = if front < 0 { packet.pull_front(n) } else { packet.push_front(n).map(drop) };
        let _ = packet.set_len(len.into());
        assert_eq!(packet.headroom() + packet.len() + packet.tailroom(), HEADROOM + DATA_ROOM);
        packet.fill(0xA5);
    }

    /// The application lets go of all that it has.
    fn free_all(&mut self) {
        for (n, packet) in self.held.drain(..).enumerate() {
            if n % 2 == 0 { self.pools[0].free(packet) } else { drop(packet) }
        }
    }

    /// No more buffers are about than the pools have.
    fn count(&mut self) {
        let held: usize = self.held.iter().map(|packet| packet.segments().count()).sum();
        let free: usize = self.pools.iter_mut().map(Pool::available).sum();
        assert!(held + free <= 2 * PACKETS, "{held} held and {free} free of {}", 2 * PACKETS);
    }
}

/// The most segments of a received packet.
fn most_segments(jumbo: bool) -> usize {
    if jumbo { (JUMBO + 8).div_ceil(DATA_ROOM) } else { 1 }
}

/// A received packet is some bytes in buffers of its own.
fn check(packet: &mut Packet, limit: usize) {
    assert!(packet.segments().count() <= limit);
    let mut segment = Some(packet);
    while let Some(packet) = segment {
        assert_eq!(packet.headroom(), HEADROOM);
        assert!((1..=DATA_ROOM).contains(&packet.len()));
        packet.fill(0x5A);
        let _ = (packet.packet_type(), packet.hash(), packet.vlan(), packet.l4_checksum());
        segment = packet.next_mut();
    }
}
