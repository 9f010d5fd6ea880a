//! The rounds over all queues: which were enabled or disabled, and whether the
//! driver left their registers alone.
//!
//! 82599 datasheet rev. 3.4, sections 4.6.7.1 and 4.6.8.1. The registers lie in
//! memory that both sides see, so a driver reads back its own enable bit at
//! once; it must leave a disabled ring's memory alone for 100 µs longer, as the
//! datasheet asks for anyway.

use regs::ixgbe::*;

use super::books::Books;
use super::lint::{Register, Rule};
use super::queue::Ring;
use super::watch::SETTLED_NS;
use super::{ENABLE, Ixgbe};
use crate::{Dma, Pages, Window};

/// DCA_RXCTRL after a reset (8.2.3.11.1): relaxed ordering of descriptor reads,
/// payload and header writes; and bit 12, which the driver must clear.
const DCA_RXCTRL_RESET: u32 = DCA_RXCTRL::MUST_CLEAR | 1 << 9 | 1 << 13 | 1 << 15;

/// Queue `n` was enabled: its ring should be its own.
fn check_overlap<'a, W: Window + 'a>(
    rings: impl Iterator<Item = &'a Ring<W>> + Clone,
    n: usize,
    books: &mut Books,
) {
    let Some(ring) = rings.clone().nth(n) else { return };
    if rings.enumerate().any(|(other, with)| other != n && ring.overlaps(with)) {
        ring.place.lint(books, Rule::RingsOverlap, n as u64);
    }
}

impl<D: Dma, P: Pages> Ixgbe<D, P> {
    /// Looks at all queues.
    #[cold]
    pub(super) fn survey(&mut self) {
        if self.stale {
            self.configure();
        }
        if self.books.lint.is_settled(self.now_ns, SETTLED_NS) {
            self.check_no_snoop();
        }
        for n in 0..RDT::COUNT {
            self.survey_rx(n);
        }
        for n in 0..TDT::COUNT {
            self.survey_tx(n);
        }
        self.settle();
        self.show_counters();
    }

    pub(super) fn survey_rx(&mut self, n: usize) {
        let wanted = self.pages.load(RXDCTL::at(n)) & ENABLE != 0;
        let queue = &mut self.rx.queues[n];
        match (queue.ring.enabled, wanted) {
            (true, true) => {
                queue.inspect(&self.pages, &mut self.books);
                queue.ring.inspect(&self.pages, &mut self.books);
                queue.look(&self.dma, &self.pages, &mut self.books, self.now_ns);
            }
            (false, false) => queue.ring.inspect_idle(&self.pages, &mut self.books),
            (false, true) => {
                queue.enable(&self.dma, &self.pages, &mut self.books);
                self.rx.active.push(n as u8);
                self.rx.active.sort_unstable();
                let rings = self.rx.queues.iter().map(|queue| &queue.ring);
                check_overlap(rings, n, &mut self.books);
            }
            (true, false) => {
                queue.disable(&self.pages, &mut self.books);
                self.rx.active.retain(|&other| usize::from(other) != n);
            }
        }
    }

    pub(super) fn survey_tx(&mut self, n: usize) {
        let control = self.pages.load(TXDCTL::at(n));
        let mut wanted = control & ENABLE != 0;
        if wanted && !self.tx.enabled {
            let register = Register::of(TXDCTL::ID, n);
            self.books.report(Rule::TxEnableBeforeDma, register, u64::from(control));
            wanted = false;
        }
        if control & TXDCTL::SWFLSH != 0 {
            // Write-backs never lag behind here; the bit clears itself.
            self.pages.store(TXDCTL::at(n), control & !TXDCTL::SWFLSH);
        }
        let queue = &mut self.tx.queues[n];
        match (queue.ring.enabled, wanted) {
            (true, true) => {
                queue.inspect(&self.pages, &mut self.books);
                queue.ring.inspect(&self.pages, &mut self.books);
            }
            (false, false) => queue.ring.inspect_idle(&self.pages, &mut self.books),
            (false, true) => {
                queue.enable(&self.dma, &self.pages, &mut self.books);
                self.tx.active.push(n as u8);
                self.tx.active.sort_unstable();
                let rings = self.tx.queues.iter().map(|queue| &queue.ring);
                check_overlap(rings, n, &mut self.books);
                let arbiter = self.registers.read(RTTDCS::AT);
                if arbiter & RTTDCS::ARBDIS != 0 {
                    let register = Register::of(RTTDCS::ID, 0);
                    self.books.report(Rule::ArbiterLeftDisabled, register, u64::from(arbiter));
                }
            }
            (true, false) => {
                queue.disable(&self.pages, &mut self.books);
                self.tx.active.retain(|&other| usize::from(other) != n);
            }
        }
    }

    /// A reset: all queues stop at once.
    pub(super) fn stop_queues(&mut self) {
        for n in std::mem::take(&mut self.rx.active) {
            self.rx.queues[usize::from(n)].disable(&self.pages, &mut self.books);
        }
        for n in std::mem::take(&mut self.tx.active) {
            self.tx.queues[usize::from(n)].disable(&self.pages, &mut self.books);
        }
        self.rx.queues.iter_mut().for_each(|queue| queue.ring.unread = false);
        self.tx.queues.iter_mut().for_each(|queue| queue.ring.unread = false);
    }

    /// The ring registers as a reset leaves them.
    pub(super) fn clear_pages(&mut self) {
        for n in 0..RDT::COUNT {
            for offset in (0..RDBAL::REGISTER.stride).step_by(4) {
                self.pages.store(RDBAL::at(n) + offset, 0);
            }
            self.pages.store(DCA_RXCTRL::at(n), DCA_RXCTRL_RESET);
        }
        for n in 0..TDT::COUNT {
            for offset in (0..TDBAL::REGISTER.stride).step_by(4) {
                self.pages.store(TDBAL::at(n) + offset, 0);
            }
        }
    }

    /// Counts gathered by the queues go to the registers.
    pub(super) fn settle(&mut self) {
        for &n in &self.rx.active {
            self.rx.queues[usize::from(n)].settle(&mut self.books);
        }
        for &n in &self.tx.active {
            self.tx.queues[usize::from(n)].settle(&mut self.books);
        }
    }

    /// Heads, for a driver that asks.
    pub(super) fn publish_heads(&mut self) {
        for &n in &self.rx.active {
            self.rx.queues[usize::from(n)].ring.publish(&self.pages);
        }
        for &n in &self.tx.active {
            self.tx.queues[usize::from(n)].ring.publish(&self.pages);
        }
    }
}
