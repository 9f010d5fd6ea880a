//! What the rounds look at in a receive queue that is enabled: rules about
//! states that last, and about what descriptors hold.
//!
//! 82599 datasheet rev. 3.4, sections 4.6.7.1, 7.1.9 and 8.2.3.8.7. Nothing here
//! is on the way of a packet.

use regs::ixgbe::DCA_RXCTRL;
use regs::ixgbe::descriptor::{rx_high, rx_legacy};

use super::host::{Counters, Host};
use super::lint::{Register, Rule};
use super::rx_queue::RxQueue;
use crate::rest::Rest;
use crate::{Dma, Pages, Window};

/// A driver may set up what 4.6.7 lists in an order of its own; this long after
/// its start a queue should be as the section wants it.
pub(super) const SETUP_NS: u64 = 10_000_000;

/// Rounds between two looks at the buffers' addresses, which have to be sorted.
const ADDRESS_ROUNDS: u32 = 64;

/// What is remembered between two rounds.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// A frame found no descriptor since the last round.
    pub starved: bool,
    /// When the queue was first looked at.
    since_ns: Option<u64>,
    /// DCA_RXCTRL has been checked.
    dca_checked: bool,
    /// A tail at which frames found no descriptor.
    rest: Rest,
    /// Rounds since the buffers' addresses were looked at.
    rounds: u32,
    /// The addresses of the first descriptors were looked at.
    addresses_checked: bool,
}

impl<W: Window> RxQueue<W> {
    /// Looks at an enabled queue.
    pub fn watch_ring<D, P>(&mut self, host: &mut Host<D, P>, now_ns: u64)
    where
        D: Dma<Window = W>,
        P: Pages,
    {
        let since = *self.watch.since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since) >= SETUP_NS {
            self.check_dca(host);
        }
        self.check_rest(host, now_ns);
        // The first descriptors are looked at at once: with buffers that lie in each
        // other, the first long frame may end the driver.
        let first = !self.watch.addresses_checked && !self.fetched().is_empty();
        self.watch.addresses_checked |= first;
        self.watch.rounds += 1;
        if first || self.watch.rounds >= ADDRESS_ROUNDS {
            self.check_buffers(&mut host.counters);
        }
    }

    /// Bit 12 resets to one and must be cleared (4.6.7.1).
    pub fn check_dca<D, P: Pages>(&mut self, host: &mut Host<D, P>) {
        let number = usize::from(self.ring.place.number);
        let value = host.pages.load(DCA_RXCTRL::at(number));
        if !self.watch.dca_checked && value & DCA_RXCTRL::MUST_CLEAR != 0 {
            host.counters.report(Rule::DcaRxctrlBitSet, Register::of(DCA_RXCTRL::ID, number), value.into());
        }
        self.watch.dca_checked = true;
    }

    /// Frames find no descriptor. If the driver has filled some and the tail rests, the device
    /// will never know.
    fn check_rest<D: Dma<Window = W>, P>(&mut self, host: &mut Host<D, P>, now_ns: u64) {
        let starved = std::mem::take(&mut self.watch.starved);
        let tail = self.ring.tail();
        let Some(behind) = self.ring.behind_tail() else {
            self.watch.rest.end();
            return;
        };
        let done = if self.legacy { rx_legacy::DD } else { rx_high::DD };
        // Drivers fill some before they tell, and may be left without buffers then: not half a ring.
        let filled = || {
            let is_filled = |[address, command]: &[u64; 2]| command & done == 0 && *address != 0;
            behind.iter().all(is_filled) && host.dma.read(behind[0][0], &mut [0])
        };
        if self.watch.rest.is_too_long(tail, starved, now_ns, filled) {
            self.ring.place.lint(&mut host.counters, Rule::RxTailRests, tail.into());
        }
    }

    /// Whether buffers that are fetched lie in each other.
    pub fn check_buffers(&mut self, counters: &mut Counters) {
        self.watch.rounds = 0;
        let mut addresses = self.fetched().to_vec();
        addresses.retain(|address| *address != 0);
        addresses.sort_unstable();
        let overlaps = |pair: &&[u64]| pair[1] - pair[0] < self.buffer() as u64;
        if let Some(pair) = addresses.windows(2).find(overlaps) {
            self.ring.place.lint(counters, Rule::RxBuffersOverlap, pair[1]);
        }
    }
}
