//! Descriptor rings as the chip keeps them: where they lie and how far the driver has filled
//! them (datasheet 332464, chapter 8).

use super::host::{Counters, Host};
use super::lint::{Location, Rule};
use crate::{Dma, Pages, Window};

/// The longest ring, in descriptors.
pub(super) const LONGEST: u64 = 8160;

/// What a driver must read of a queue before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// That it runs.
    Start,
    /// That it has stopped.
    Stop,
}

/// One ring of descriptors, as its context describes it.
#[derive(Debug)]
pub(super) struct ContextRing<W> {
    pub place: Location,
    /// Where its tail is in BAR 0.
    tail_at: u32,
    pub enabled: bool,
    /// What the driver was to wait for, and has not read since.
    pub awaited: Option<Awaited>,
    window: Option<W>,
    iova: u64,
    /// Bytes of a descriptor.
    bytes: usize,
    size: u32,
    /// The descriptor that is used next.
    pub head: u32,
    /// One past the last that the driver has given, as last seen.
    tail: u32,
    /// Whether the driver has given any since the queue was enabled.
    was_given: bool,
}

/// A ring that a driver has handed over, for a device that moves packets in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedRing {
    /// The queue's number.
    pub queue: usize,
    /// Where it is, as the device sees memory.
    pub iova: u64,
    /// Its descriptors, and bytes of each.
    pub size: u32,
    /// Bytes of a descriptor.
    pub bytes: usize,
    /// The descriptor to begin with.
    pub head: u32,
    /// Where the head is to be written to memory, for transmit.
    pub write_back: Option<u64>,
}

/// What a context says of a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub iova: u64,
    pub size: u64,
    /// Bytes of a descriptor.
    pub bytes: usize,
    pub head: u64,
}

/// Reports a ring that no queue can have; whether one can.
pub(super) fn check_shape(place: Location, iova: u64, size: u64, counters: &mut Counters) -> bool {
    if iova == 0 {
        counters.report(Rule::RingBaseInvalid, place, iova);
        return false;
    }
    let fits = (1..=LONGEST).contains(&size) && size.is_multiple_of(regs::i40e::context::RING_MULTIPLE);
    if !fits {
        counters.report(Rule::RingLengthInvalid, place, size);
    }
    fits
}

impl<W> ContextRing<W> {
    pub fn new(place: Location, tail_at: u32) -> ContextRing<W> {
        let (enabled, awaited, window) = (false, None, None);
        ContextRing {
            place,
            tail_at,
            enabled,
            awaited,
            window,
            iova: 0,
            bytes: 16,
            size: 0,
            head: 0,
            tail: 0,
            was_given: false,
        }
    }

    /// The queue was enabled; `false` when it cannot be with such a ring.
    pub fn enable<D: Dma<Window = W>, P: Pages>(&mut self, shape: Shape, host: &mut Host<D, P>) -> bool {
        let Shape { iova, size, bytes, head } = shape;
        if !check_shape(self.place, iova, size, &mut host.counters) {
            return false;
        }
        (self.iova, self.size, self.bytes) = (iova, size as u32, bytes);
        self.head = if head < size { head as u32 } else { 0 };
        (self.tail, self.was_given) = (self.head, false);
        self.enabled = true;
        self.find_memory(host);
        if self.window.is_none() && !host.counters.dma_off {
            host.counters.report(Rule::RingUnmapped, self.place, iova);
        }
        true
    }

    /// How the driver has handed it over, while it runs.
    pub fn handed(&self, queue: usize, write_back: Option<u64>) -> Option<HandedRing> {
        let ContextRing { iova, size, bytes, head, .. } = *self;
        self.enabled.then_some(HandedRing { queue, iova, size, bytes, head, write_back })
    }

    /// Writes the doorbell.
    pub fn set_tail<D, P: Pages>(&self, tail: u32, host: &Host<D, P>) {
        host.pages.store(self.tail_at, tail);
    }

    pub fn disable(&mut self) {
        (self.enabled, self.window) = (false, None);
    }

    /// Mappings have changed.
    pub fn translate<D: Dma<Window = W>, P: Pages>(&mut self, host: &mut Host<D, P>) {
        if !self.enabled {
            self.check_stopped(host);
            return;
        }
        let had = self.window.is_some();
        self.find_memory(host);
        if had && self.window.is_none() && !host.counters.dma_off {
            let told = self.awaited.take_if(|awaited| *awaited == Awaited::Stop).is_some();
            let rule = if told { Rule::DisableNotAwaited } else { Rule::RingFreedWhileEnabled };
            host.counters.report(rule, self.place, self.iova);
        }
    }

    /// Its memory may be gone: the driver should have seen before that the queue has stopped.
    fn check_stopped<D: Dma<Window = W>, P: Pages>(&mut self, host: &mut Host<D, P>) {
        if self.awaited == Some(Awaited::Stop) && host.dma.window(self.iova, self.len()).is_none() {
            self.awaited = None;
            host.counters.report(Rule::DisableNotAwaited, self.place, self.iova);
        }
    }

    /// Bytes of its memory.
    fn len(&self) -> u64 {
        u64::from(self.size) * self.bytes as u64
    }

    fn find_memory<D: Dma<Window = W>, P: Pages>(&mut self, host: &mut Host<D, P>) {
        self.window = host.dma.window(self.iova, self.len()).filter(|_| !host.counters.dma_off);
        if host.counters.dma_off {
            host.counters.report(Rule::BusMasterOff, self.place, self.iova);
        }
    }

    /// Reads the doorbell.
    #[inline]
    pub fn poll<D: Dma, P: Pages>(&mut self, host: &mut Host<D, P>) {
        let tail = host.pages.load(self.tail_at);
        if tail == self.tail {
            return;
        }
        if tail >= self.size {
            host.counters.report(Rule::TailOutOfRange, self.place, tail.into());
            return;
        }
        let before = self.given();
        (self.tail, self.was_given) = (tail, true);
        // A tail only gives: with fewer than before it has passed the head or gone back.
        if self.given() < before {
            host.counters.report(Rule::TailPassedHead, self.place, tail.into());
        }
    }

    /// Descriptors that the driver has given and that are not used yet; none without memory.
    #[inline]
    pub fn given(&self) -> u32 {
        if self.window.is_none() {
            return 0;
        }
        if self.tail >= self.head { self.tail - self.head } else { self.tail + self.size - self.head }
    }

    /// Whether the driver has given descriptors since the queue was enabled, though all may be used.
    #[inline]
    pub fn was_given(&self) -> bool {
        self.was_given
    }

    /// How many descriptors it has.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The tail as last seen.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The first two words of the descriptor behind the tail's, and of the one half a ring further, when
    /// the device owns none.
    pub fn behind_tail(&self) -> Option<[[u64; 2]; 2]>
    where
        W: Window,
    {
        let window = self.window.as_ref().filter(|_| self.given() == 0)?;
        Some([1, 1 + self.size / 2].map(|n| {
            let at = ((self.tail + n) % self.size) as usize * self.bytes;
            [window.load(at), window.load(at + 8)]
        }))
    }

    /// Whether descriptors have four words, not two.
    pub fn is_long(&self) -> bool {
        self.bytes > 16
    }

    /// Memory, and where the descriptor at the head is in it.
    #[inline]
    pub fn next(&self) -> Option<(&W, usize)> {
        Some((self.window.as_ref()?, self.head as usize * self.bytes))
    }

    /// Goes on to the next descriptor.
    #[inline]
    pub fn advance(&mut self) {
        self.head = if self.head + 1 >= self.size { 0 } else { self.head + 1 };
    }
}
