//! What minimal devices have in common, whatever chip they stand for: rings of descriptors of
//! 16 bytes, or of 32 of which the first 16 are used, whose memory is known, into which frames are copied and from which packets are
//! taken. Where the rings lie and when they run, the chip's own file tells.

use std::marker::PhantomData;

use model::{Dma, Pages, Window as _};

use crate::view::{BarPages, View, Window};

/// Packets moved for a queue in one step, at most.
const BURST: u32 = 64;
/// Bytes of a descriptor.
pub(super) const DESCRIPTOR: usize = 16;
/// Where the second word of a descriptor begins.
const SECOND: usize = 8;
/// The longest frame that is given, in bytes: what fits a driver's buffer.
pub(super) const LONGEST: usize = 2048;

/// What the second words of a chip's descriptors say.
pub(super) trait Layout: Send + 'static {
    /// Receive write-back: a whole frame is in the buffer.
    const RECEIVED: u64;
    /// Receive write-back: where the length stands.
    const LENGTH_SHIFT: u32;
    /// Receive write-back of a legacy descriptor, whose first word stays and whose second begins
    /// with the length: a whole frame is in the buffer.
    const LEGACY: u64 = 0;
    /// Transmit: the bits that tell the last buffer of a packet, and what they are there.
    const LAST: (u64, u64);
    /// Transmit: a report is wanted.
    const REPORT: u64;
    /// Transmit write-back: the descriptor is done.
    const DONE: u64;
}

/// A ring that its driver has handed over.
#[derive(Debug)]
pub(super) struct MinimalRing {
    /// The queue's number.
    pub queue: usize,
    window: Window,
    mask: u32,
    /// Bytes of a descriptor, as a power of two.
    shift: u32,
    /// Where its tail is in BAR 0.
    tail_at: u32,
    pub head: u32,
    /// The head as the register has it: written seldom, since the doorbell
    /// stands on the same cache line.
    pub published: u32,
    /// Where the head is to be written to memory, for transmit.
    write_back: Option<u64>,
    legacy: bool,
}

/// How a driver has set up a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub queue: usize,
    pub base: u64,
    /// Bytes of it.
    pub len: u64,
    /// Bytes of a descriptor.
    pub bytes: usize,
    pub tail_at: u32,
    pub head: u32,
    pub write_back: Option<u64>,
    /// Whether its descriptors are legacy ones, for receive.
    pub legacy: bool,
}

impl MinimalRing {
    /// The ring, if it is one: a power of two of descriptors in memory that the device can
    /// reach.
    fn new(view: &View, setup: Setup) -> Option<MinimalRing> {
        let Setup { queue, base, len, bytes, tail_at, head, write_back, legacy } = setup;
        let shift = bytes.is_power_of_two().then_some(bytes.ilog2()).filter(|_| bytes >= DESCRIPTOR)?;
        let count = u32::try_from(len >> shift).ok().filter(|count| count.is_power_of_two())?;
        let window = view.window(base, len)?;
        let (mask, head) = (count - 1, head & (count - 1));
        Some(MinimalRing { queue, window, mask, shift, tail_at, head, published: head, write_back, legacy })
    }

    /// How many descriptors the driver has handed over.
    #[inline(always)]
    fn waiting(&self, pages: &BarPages) -> u32 {
        pages.load(self.tail_at).wrapping_sub(self.head) & self.mask
    }

    /// Where the descriptor at the head is.
    #[inline(always)]
    fn at(&self) -> usize {
        (self.head as usize) << self.shift
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.head = (self.head + 1) & self.mask;
    }
}

/// The rings of a device, and what is given and counted.
#[derive(Debug)]
pub(super) struct Rings<L> {
    view: View,
    pages: BarPages,
    pub rx: Vec<MinimalRing>,
    pub tx: Vec<MinimalRing>,
    frames: Vec<Vec<u8>>,
    /// The frame that is received next.
    next: usize,
    rx_packets: u64,
    tx_packets: u64,
    unreachable: u64,
    layout: PhantomData<L>,
}

impl<L: Layout> Rings<L> {
    /// No rings yet. Each gets `frames` over and over; of no frames at all one of 60 bytes.
    pub fn new(view: View, pages: BarPages, mut frames: Vec<Vec<u8>>) -> Rings<L> {
        frames.iter_mut().for_each(|frame| frame.truncate(LONGEST));
        if frames.is_empty() {
            frames.push(super::outline(model::MIN_FRAME));
        }
        let (rx, tx) = (Vec::new(), Vec::new());
        let layout = PhantomData;
        Rings { view, pages, rx, tx, frames, next: 0, rx_packets: 0, tx_packets: 0, unreachable: 0, layout }
    }

    /// Lets go of all rings.
    pub fn clear(&mut self) {
        (self.rx, self.tx) = (Vec::new(), Vec::new());
    }

    /// Takes a receive ring over, unless its queue has one.
    pub fn add_rx(&mut self, setup: Setup) {
        if !self.rx.iter().any(|ring| ring.queue == setup.queue) {
            self.rx.extend(MinimalRing::new(&self.view, setup));
        }
    }

    /// Takes a transmit ring over, unless its queue has one.
    pub fn add_tx(&mut self, setup: Setup) {
        if !self.tx.iter().any(|ring| ring.queue == setup.queue) {
            self.tx.extend(MinimalRing::new(&self.view, setup));
        }
    }

    /// Moves packets of all queues, or of the pair of one number alone; how many.
    #[inline]
    pub fn step(&mut self, only: Option<usize>) -> u32 {
        self.receive(only) + self.transmit(only)
    }

    /// Fills buffers: data first, then the write-back that shows it.
    #[inline]
    fn receive(&mut self, only: Option<usize>) -> u32 {
        let mut moved = 0;
        for ring in self.rx.iter_mut().filter(|ring| only.is_none_or(|queue| queue == ring.queue)) {
            let burst = ring.waiting(&self.pages).min(BURST);
            for _ in 0..burst {
                let at = ring.at();
                let buffer = ring.window.load(at);
                let frame = &self.frames[self.next];
                self.next = if self.next + 1 < self.frames.len() { self.next + 1 } else { 0 };
                self.unreachable += u64::from(!self.view.write(buffer, frame));
                let length = frame.len() as u64;
                let second = match ring.legacy {
                    true => L::LEGACY | length,
                    false => {
                        ring.window.store(at, 0);
                        L::RECEIVED | length << L::LENGTH_SHIFT
                    }
                };
                ring.window.store_release(at + SECOND, second);
                ring.advance();
            }
            moved += burst;
        }
        self.rx_packets += u64::from(moved);
        moved
    }

    /// Takes what was handed over and reports it as asked.
    #[inline]
    fn transmit(&mut self, only: Option<usize>) -> u32 {
        let mut moved = 0;
        for ring in self.tx.iter_mut().filter(|ring| only.is_none_or(|queue| queue == ring.queue)) {
            let burst = ring.waiting(&self.pages).min(2 * BURST);
            for _ in 0..burst {
                let at = ring.at() + SECOND;
                let word = ring.window.load(at);
                self.tx_packets += u64::from(word & L::LAST.0 == L::LAST.1);
                if word & L::REPORT != 0 && ring.write_back.is_none() {
                    ring.window.store_release(at, L::DONE);
                }
                ring.advance();
            }
            if let (Some(address), 1..) = (ring.write_back, burst) {
                self.unreachable += u64::from(!self.view.write(address, &ring.head.to_le_bytes()));
            }
            moved += burst;
        }
        moved
    }

    /// Packets that were moved, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("rx_packets", self.rx_packets), ("tx_packets", self.tx_packets)]
    }

    /// Packets that were lost, by name.
    pub fn drops(&self) -> Vec<(&'static str, u64)> {
        vec![("rx_unreachable", self.unreachable)]
    }
}
