//! Descriptor rings as the chip keeps them: where they lie, how far the driver
//! has filled them, and descriptors fetched ahead.
//!
//! 82599 datasheet rev. 3.4, sections 7.1.9 and 7.2.3.3. The driver moves the
//! tail in a page both sides see; the chip looks there only when it runs low,
//! and writes its head there only when it has nothing else to do: every write to
//! that line costs the driver a cache miss.

use regs::ixgbe::*;

use super::ENABLE;
use super::host::{Counters, Host};
use super::lint::{Register, Rule};
use crate::{Dma, Pages, Window};

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR: usize = 16;

/// Descriptors fetched at a time, at most.
pub(super) const FETCH: usize = 32;

/// Longest ring in bytes: LEN has 20 bits, the last seven of them zero.
const LONGEST: u32 = (1 << 20) - 128;

/// Where the registers of a ring lie behind its first, RDBAL or TDBAL: at the same
/// distances in both directions.
const HIGH: u32 = RDBAH::at(0) - RDBAL::at(0);
const LEN: u32 = RDLEN::at(0) - RDBAL::at(0);
const HEAD: u32 = RDH::at(0) - RDBAL::at(0);
const TAIL: u32 = RDT::at(0) - RDBAL::at(0);
const CONTROL: u32 = RXDCTL::at(0) - RDBAL::at(0);
const _: () = {
    assert!(TDBAH::at(0) - TDBAL::at(0) == HIGH && TDLEN::at(0) - TDBAL::at(0) == LEN);
    assert!(TDH::at(0) - TDBAL::at(0) == HEAD && TDT::at(0) - TDBAL::at(0) == TAIL);
    assert!(TXDCTL::at(0) - TDBAL::at(0) == CONTROL);
};

/// Which registers a ring has; all are in the polled pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingRegisters {
    /// `RDT` or `TDT`.
    pub tail: Id,
    /// The number of the queue.
    pub number: u16,
    /// Offset of the first, RDBAL or TDBAL. The others follow in one line of
    /// 64 bytes.
    pub base: u32,
}

impl RingRegisters {
    pub const fn low(self) -> u32 {
        self.base
    }
    pub const fn high(self) -> u32 {
        self.base + HIGH
    }
    pub const fn len(self) -> u32 {
        self.base + LEN
    }
    pub const fn head(self) -> u32 {
        self.base + HEAD
    }
    pub const fn tail(self) -> u32 {
        self.base + TAIL
    }
    pub const fn control(self) -> u32 {
        self.base + CONTROL
    }

    /// Reports a rule broken at this queue's tail.
    #[cold]
    pub fn lint(self, counters: &mut Counters, rule: Rule, value: u64) {
        counters.report(rule, Register::of(self.tail, self.number.into()), value);
    }
}

/// One ring of descriptors, as its registers describe it.
#[derive(Debug)]
pub(super) struct RegisterRing<W> {
    pub place: RingRegisters,
    pub enabled: bool,
    window: Option<W>,
    iova: u64,
    bytes: u32,
    /// RDBAL, RDBAH, RDLEN as seen when the queue was enabled.
    seen: [u32; 3],
    /// Number of descriptors.
    size: u32,
    /// Descriptor of the first one fetched.
    base: u32,
    /// One past the last the driver has given, as last seen.
    tail: u32,
    /// The tail last seen while the queue was not enabled.
    idle_tail: u32,
    /// ENABLE was changed by an access that the device saw, and not read since.
    pub unread: bool,
    /// Of those fetched, how many there are and how many are used up.
    pub got: usize,
    pub next: usize,
    published: u32,
}

impl<W: Window> RegisterRing<W> {
    pub fn new(place: RingRegisters) -> RegisterRing<W> {
        RegisterRing {
            place,
            enabled: false,
            window: None,
            iova: 0,
            bytes: 0,
            seen: [0; 3],
            size: 0,
            base: 0,
            tail: 0,
            idle_tail: 0,
            unread: false,
            got: 0,
            next: 0,
            published: 0,
        }
    }

    /// The ring's length in descriptors.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The queue was enabled: takes over base, length, head and tail.
    pub fn enable<D: Dma<Window = W>, P: Pages>(&mut self, host: &mut Host<D, P>) {
        let place = self.place;
        self.seen =
            [host.pages.load(place.low()), host.pages.load(place.high()), host.pages.load(place.len())];
        let [low, high, len] = self.seen;
        if low & 127 != 0 {
            place.lint(&mut host.counters, Rule::RingBaseUnaligned, u64::from(low));
        }
        if len == 0 || len & 127 != 0 || len > LONGEST {
            place.lint(&mut host.counters, Rule::RingLengthInvalid, u64::from(len));
        }
        self.iova = u64::from(high) << 32 | u64::from(low & !127);
        self.bytes = len & LONGEST;
        self.find_memory(&host.dma);
        if host.counters.dma_off {
            self.window = None;
            host.counters.report(Rule::BusMasterOff, Register::PciCommand, u64::from(place.number));
        } else if self.window.is_none() && self.bytes > 0 {
            place.lint(&mut host.counters, Rule::RingUnmapped, self.iova);
        }
        let head = host.pages.load(place.head());
        (self.base, self.got, self.next) = (if head < self.size { head } else { 0 }, 0, 0);
        self.published = head;
        self.tail = self.base;
        self.enabled = true;
    }

    /// Asks for the memory of an enabled ring again: mappings have changed.
    pub fn translate<D: Dma<Window = W>, P>(&mut self, host: &mut Host<D, P>) {
        let had = self.window.is_some();
        self.find_memory(&host.dma);
        if host.counters.dma_off {
            self.window = None;
            if had {
                host.counters.report(Rule::BusMasterOff, Register::PciCommand, u64::from(self.place.number));
            }
        } else if had && self.window.is_none() {
            self.place.lint(&mut host.counters, Rule::RingFreedWhileEnabled, self.iova);
        }
    }

    fn find_memory<D: Dma<Window = W>>(&mut self, dma: &D) {
        self.window = dma.window(self.iova, u64::from(self.bytes)).filter(|_| self.bytes > 0);
        self.size = self.bytes / DESCRIPTOR as u32;
    }

    /// Mappings have changed and the queue is not enabled: did the driver see
    /// that it had stopped, before it took the memory away?
    pub fn check_stopped<D: Dma<Window = W>, P>(&mut self, host: &mut Host<D, P>) {
        let gone = || host.dma.window(self.iova, u64::from(self.bytes)).is_none();
        if self.unread && self.bytes > 0 && !host.counters.dma_off && gone() {
            self.unread = false;
            self.place.lint(&mut host.counters, Rule::DisableNotAwaited, self.iova);
        }
    }

    /// Whether two enabled rings share memory.
    pub fn overlaps(&self, other: &RegisterRing<W>) -> bool {
        let end = |ring: &RegisterRing<W>| ring.iova.saturating_add(ring.bytes.into());
        self.enabled && other.enabled && self.iova < end(other) && other.iova < end(self)
    }

    /// The queue was disabled, or the device reset: it starts over from 0 when
    /// it is enabled again, whatever the driver does first.
    pub fn disable<P: Pages>(&mut self, pages: &P) {
        (self.enabled, self.window, self.size) = (false, None, 0);
        (self.base, self.tail, self.got, self.next) = (0, 0, 0, 0);
        self.published = u32::MAX;
        self.publish(pages);
        self.idle_tail = pages.load(self.place.tail());
    }

    /// Looks at a queue that is enabled for what must not change.
    pub fn inspect<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        let place = self.place;
        let now = [host.pages.load(place.low()), host.pages.load(place.high()), host.pages.load(place.len())];
        if now != self.seen {
            place.lint(
                &mut host.counters,
                Rule::RingBaseChangedWhileEnabled,
                u64::from(now[1]) << 32 | u64::from(now[0]),
            );
            self.seen = now;
        }
        self.poll(host);
        let head = host.pages.load(place.head());
        if head != self.published {
            place.lint(&mut host.counters, Rule::HeadWrittenWhileEnabled, u64::from(head));
            self.published = u32::MAX;
            self.publish(&host.pages);
        }
    }

    /// Looks at a queue that is not enabled: a tail moved now is a mistake.
    pub fn inspect_idle<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        let tail = host.pages.load(self.place.tail());
        // The driver may have enabled the queue and moved the tail since the
        // caller looked; having seen the second, we see the first.
        if tail != self.idle_tail && host.pages.load(self.place.control()) & ENABLE != 0 {
            return;
        }
        if tail != self.idle_tail && tail != 0 {
            self.place.lint(&mut host.counters, Rule::TailBeforeEnable, u64::from(tail));
        }
        self.idle_tail = tail;
    }

    /// Descriptors that the driver has given and that are not yet fetched.
    #[inline(always)]
    fn given(&self) -> u32 {
        let fetched = self.wrap(self.base + self.got as u32);
        if self.tail >= fetched { self.tail - fetched } else { self.tail + self.size - fetched }
    }

    /// Reads the doorbell.
    #[inline(always)]
    fn poll<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        let tail = host.pages.load(self.place.tail());
        if tail < self.size {
            let before = self.given();
            self.tail = tail;
            // A tail only gives: with less than before it has passed the head
            // or gone back.
            if self.given() < before {
                self.place.lint(&mut host.counters, Rule::TailPassedHead, u64::from(tail));
            }
        } else if self.size > 0 {
            self.place.lint(&mut host.counters, Rule::TailOutOfRange, u64::from(tail));
        }
    }

    #[inline(always)]
    fn wrap(&self, index: u32) -> u32 {
        if index >= self.size { index - self.size } else { index }
    }

    /// Forgets what is used up and fetches on: `words` is called with each new
    /// descriptor's place in the fetched ones and its words. Returns how many
    /// are at hand. The caller has written back all that is used up.
    #[inline(always)]
    pub fn fetch<D, P: Pages>(
        &mut self,
        host: &mut Host<D, P>,
        mut words: impl FnMut(usize, &W, usize),
    ) -> usize {
        debug_assert!(self.next == self.got, "fetched only when all is used up");
        self.base = self.wrap(self.base + self.next as u32);
        (self.next, self.got) = (0, 0);
        if self.window.is_none() {
            return 0;
        }
        if (self.given() as usize) < FETCH {
            self.poll(host);
        }
        let count = (self.given() as usize).min(FETCH);
        let Some(window) = &self.window else { return 0 };
        // In one piece to the ring's end, then the rest from its start.
        let first = count.min((self.size - self.base) as usize);
        for n in 0..first {
            words(n, window, (self.base as usize + n) * DESCRIPTOR);
        }
        for n in first..count {
            words(n, window, (n - first) * DESCRIPTOR);
        }
        self.got = count;
        count
    }

    /// Of the fetched ones, gives back those not used up, so that the next
    /// fetch reads them again with those behind them.
    pub fn unfetch(&mut self) {
        self.got = self.next;
    }

    /// Where the `n`th fetched descriptor lies, for writing it back.
    #[inline(always)]
    pub fn offset(&self, n: usize) -> usize {
        self.wrap(self.base + n as u32) as usize * DESCRIPTOR
    }

    /// The ring's memory, while it is usable.
    #[inline(always)]
    pub fn window(&self) -> Option<&W> {
        self.window.as_ref()
    }

    /// The first descriptor not used up: the head.
    #[inline(always)]
    pub fn head(&self) -> u32 {
        self.wrap(self.base + self.next as u32)
    }

    /// The words of the descriptor at the head, and of the one half a ring further, when the
    /// device owns none: head and tail are the same.
    pub fn behind_tail(&self) -> Option<[[u64; 2]; 2]> {
        let window = self.window.as_ref().filter(|_| self.next == self.got && self.given() == 0)?;
        Some([0, self.size / 2].map(|n| {
            let offset = self.wrap(self.head() + n) as usize * DESCRIPTOR;
            [window.load(offset), window.load(offset + 8)]
        }))
    }

    /// The tail as last seen.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Shows the head to the driver.
    pub fn publish<P: Pages>(&mut self, pages: &P) {
        let head = self.head();
        if head != self.published {
            pages.store(self.place.head(), head);
            self.published = head;
        }
    }

    /// How many descriptors are known to be at hand, fetched or not.
    #[inline(always)]
    pub fn at_hand<D, P: Pages>(&mut self, wanted: usize, host: &mut Host<D, P>) -> usize {
        if self.window.is_none() {
            return 0;
        }
        let known = self.got - self.next + self.given() as usize;
        if known >= wanted {
            return known;
        }
        self.poll(host);
        self.got - self.next + self.given() as usize
    }
}
