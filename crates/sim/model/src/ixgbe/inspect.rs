//! The rounds over all queues: which were enabled or disabled, and whether the
//! driver left their registers alone.
//!
//! 82599 datasheet rev. 3.4, sections 4.6.7.1 and 4.6.8.1. The registers lie in
//! memory that both sides see, so a driver reads back its own enable bit at
//! once; it must leave a disabled ring's memory alone for 100 µs longer, as the
//! datasheet asks for anyway.

use regs::ixgbe::*;

use super::host::Counters;
use super::lint::{Register, Rule};
use super::queue::RegisterRing;
use super::watch::SETUP_NS;
use super::{ENABLE, Ixgbe};
use crate::{Dma, Pages, Window};

/// DCA_RXCTRL after a reset (8.2.3.11.1): relaxed ordering of descriptor reads,
/// payload and header writes; and bit 12, which the driver must clear.
const DCA_RXCTRL_RESET: u32 = DCA_RXCTRL::MUST_CLEAR | 1 << 9 | 1 << 13 | 1 << 15;

/// Queue `n` was enabled: its ring should be its own.
fn check_overlap<'a, W: Window + 'a>(
    rings: impl Iterator<Item = &'a RegisterRing<W>> + Clone,
    n: usize,
    counters: &mut Counters,
) {
    let Some(ring) = rings.clone().nth(n) else { return };
    if rings.enumerate().any(|(other, with)| other != n && ring.overlaps(with)) {
        ring.place.lint(counters, Rule::RingsOverlap, n as u64);
    }
}

impl<D: Dma, P: Pages> Ixgbe<D, P> {
    /// Looks at all queues.
    #[cold]
    pub(super) fn inspect_queues(&mut self) {
        if self.stale {
            self.configure();
        }
        if self.host.counters.lint.has_received_for(self.now_ns, SETUP_NS) {
            self.check_no_snoop();
        }
        for n in 0..RDT::COUNT {
            self.inspect_rx(n);
        }
        for n in 0..TDT::COUNT {
            self.inspect_tx(n);
        }
        self.flush_counters();
        self.show_counters();
    }

    pub(super) fn inspect_rx(&mut self, n: usize) {
        let wanted = self.host.pages.load(RXDCTL::at(n)) & ENABLE != 0;
        let queue = &mut self.rx.queues[n];
        match (queue.ring.enabled, wanted) {
            (true, true) => {
                queue.inspect(&mut self.host);
                queue.ring.inspect(&mut self.host);
                queue.watch_ring(&mut self.host, self.now_ns);
            }
            (false, false) => queue.ring.inspect_idle(&mut self.host),
            (false, true) => {
                queue.enable(&mut self.host);
                self.rx.active.push(n as u8);
                self.rx.active.sort_unstable();
                let rings = self.rx.queues.iter().map(|queue| &queue.ring);
                check_overlap(rings, n, &mut self.host.counters);
            }
            (true, false) => {
                queue.disable(&mut self.host);
                self.rx.active.retain(|&other| usize::from(other) != n);
            }
        }
    }

    pub(super) fn inspect_tx(&mut self, n: usize) {
        let control = self.host.pages.load(TXDCTL::at(n));
        let mut wanted = control & ENABLE != 0;
        if wanted && !self.tx.enabled {
            let register = Register::of(TXDCTL::ID, n);
            self.host.counters.report(Rule::TxEnableBeforeDma, register, u64::from(control));
            wanted = false;
        }
        if control & TXDCTL::SWFLSH != 0 {
            // Write-backs never lag behind here; the bit clears itself.
            self.host.pages.store(TXDCTL::at(n), control & !TXDCTL::SWFLSH);
        }
        let queue = &mut self.tx.queues[n];
        match (queue.ring.enabled, wanted) {
            (true, true) => {
                queue.inspect(&mut self.host);
                queue.ring.inspect(&mut self.host);
            }
            (false, false) => queue.ring.inspect_idle(&mut self.host),
            (false, true) => {
                queue.enable(&mut self.host);
                self.tx.active.push(n as u8);
                self.tx.active.sort_unstable();
                let rings = self.tx.queues.iter().map(|queue| &queue.ring);
                check_overlap(rings, n, &mut self.host.counters);
                let arbiter = self.registers.read(RTTDCS::AT);
                if arbiter & RTTDCS::ARBDIS != 0 {
                    let register = Register::of(RTTDCS::ID, 0);
                    self.host.counters.report(Rule::ArbiterLeftDisabled, register, u64::from(arbiter));
                }
            }
            (true, false) => {
                queue.disable(&mut self.host);
                self.tx.active.retain(|&other| usize::from(other) != n);
            }
        }
    }

    /// A reset: all queues stop at once.
    pub(super) fn stop_queues(&mut self) {
        for n in std::mem::take(&mut self.rx.active) {
            self.rx.queues[usize::from(n)].disable(&mut self.host);
        }
        for n in std::mem::take(&mut self.tx.active) {
            self.tx.queues[usize::from(n)].disable(&mut self.host);
        }
        self.rx.queues.iter_mut().for_each(|queue| queue.ring.unread = false);
        self.tx.queues.iter_mut().for_each(|queue| queue.ring.unread = false);
    }

    /// The ring registers as a reset leaves them.
    pub(super) fn clear_pages(&mut self) {
        for n in 0..RDT::COUNT {
            for offset in (0..RDBAL::REGISTER.stride).step_by(4) {
                self.host.pages.store(RDBAL::at(n) + offset, 0);
            }
            self.host.pages.store(DCA_RXCTRL::at(n), DCA_RXCTRL_RESET);
        }
        for n in 0..TDT::COUNT {
            for offset in (0..TDBAL::REGISTER.stride).step_by(4) {
                self.host.pages.store(TDBAL::at(n) + offset, 0);
            }
        }
    }

    /// Counts gathered by the queues go to the registers.
    pub(super) fn flush_counters(&mut self) {
        for &n in &self.rx.active {
            self.rx.queues[usize::from(n)].flush_counters(&mut self.host.counters);
        }
        for &n in &self.tx.active {
            self.tx.queues[usize::from(n)].flush_counters(&mut self.host.counters);
        }
    }

    /// Heads, for a driver that asks.
    pub(super) fn publish_heads(&mut self) {
        for &n in &self.rx.active {
            self.rx.queues[usize::from(n)].ring.publish(&self.host.pages);
        }
        for &n in &self.tx.active {
            self.tx.queues[usize::from(n)].ring.publish(&self.host.pages);
        }
    }
}
