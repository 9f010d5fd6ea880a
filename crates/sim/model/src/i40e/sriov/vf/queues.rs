//! The queues of a virtual function, as the physical function wants them: started and stopped, the
//! resets between, how flows are spread, and what their driver waits for (datasheet 332464, chapter 8).

use regs::iavf::QUEUES;

use super::super::super::ring::Awaited;
use super::super::slot::Queue;
use super::Vf;
use crate::{Dma, Pages};

/// A bit for each queue of which something else is wanted than when its serial was noted.
fn changed<C>(queues: &[Queue<C>; QUEUES], serials: &[u64; QUEUES]) -> u32 {
    let queues = queues.iter().zip(serials).enumerate();
    queues.filter(|(_, (queue, serial))| queue.serial != **serial).fold(0, |bits, (n, _)| bits | 1 << n)
}

impl<D: Dma, P: Pages> Vf<D, P> {
    /// Does what the physical function wants since it was looked at: resets, queues, the hash.
    ///
    /// The slot is not held meanwhile: the client may make this function wait at the pages that
    /// it shares, and the physical function's device would wait as well.
    pub(super) fn follow(&mut self) {
        let Vf { rx, tx, serials, slot, .. } = self;
        let (resets, changed, hash) = {
            let slot = &mut *slot.lock();
            rx.queues.iter_mut().zip(&slot.rx).for_each(|(own, queue)| own.cause = queue.cause);
            tx.queues.iter_mut().zip(&slot.tx).for_each(|(own, queue)| own.cause = queue.cause);
            let changed = [changed(&slot.rx, &serials[0]), changed(&slot.tx, &serials[1])];
            let hash = std::mem::take(&mut slot.stale).then_some((slot.hash, slot.spread, slot.strips));
            (slot.resets, changed, hash)
        };
        if resets != self.resets {
            self.resets = resets;
            self.unseen_reset = true;
            self.reset_function();
        }
        let places = |bits: u32| (0..QUEUES).filter(move |n| bits >> n & 1 != 0);
        places(changed[0]).for_each(|n| self.follow_rx(n));
        places(changed[1]).for_each(|n| self.follow_tx(n));
        if let Some((hash, spread, strips)) = hash {
            self.rx.rss.configure_vf(&hash);
            self.rx.set_vsi(spread, strips);
        }
    }

    /// Starts or stops a receive queue as the physical function wants it.
    fn follow_rx(&mut self, n: usize) {
        let Vf { host, slot, rx, .. } = self;
        let queue = {
            let slot = slot.lock();
            // Behind another reset, which is followed first.
            if slot.resets != self.resets {
                return;
            }
            slot.rx[n]
        };
        self.serials[0][n] = queue.serial;
        rx.queues[n].ring.disable();
        let runs = queue.wanted.is_some_and(|(words, _)| rx.queues[n].start(n as u16, words, host));
        let mut slot = slot.lock();
        slot.failed |= slot.rx[n].tell(queue.serial, runs) && queue.wanted.is_some() && !runs;
    }

    /// Likewise a transmit queue.
    fn follow_tx(&mut self, n: usize) {
        let Vf { host, slot, tx, .. } = self;
        let queue = {
            let slot = slot.lock();
            if slot.resets != self.resets {
                return;
            }
            slot.tx[n]
        };
        self.serials[1][n] = queue.serial;
        if tx.queues[n].ring.enabled {
            tx.queues[n].disable(&mut host.counters);
            tx.queues[n].ring.set_tail(0, host);
        }
        let runs = queue.wanted.is_some_and(|(words, head)| {
            if head != 0 {
                tx.queues[n].ring.set_tail(head, host); // nobody gives anything before he knows that
            }
            tx.queues[n].start(n as u16, words, head, host)
        });
        let mut slot = slot.lock();
        slot.failed |= slot.tx[n].tell(queue.serial, runs) && queue.wanted.is_some() && !runs;
    }

    /// What the tails of transmit queues give from now on counts when the queues are started. The datasheet
    /// does not say so; Linux relies on it: after a reset it gives its queues packets a moment before they
    /// run, and what it gave would never be sent, nor another packet of a connection that waits for that.
    /// What was given before, to the rings of before the reset, does not count.
    pub(super) fn take_tails_from_now(&mut self) {
        for queue in self.tx.queues.iter().filter(|queue| !queue.ring.enabled) {
            queue.ring.set_tail(0, &self.host);
        }
    }

    /// The driver is to wait for something of queues that run, a bit each, or has to no longer.
    pub(super) fn await_queues(&mut self, rx: u32, tx: u32, awaited: Option<Awaited>) {
        let rings = self.rx.queues.iter_mut().map(|queue| &mut queue.ring).zip((0..).map(|n| rx >> n & 1));
        let sent = self.tx.queues.iter_mut().map(|queue| &mut queue.ring).zip((0..).map(|n| tx >> n & 1));
        for (ring, _) in rings.chain(sent).filter(|(_, bit)| *bit != 0) {
            ring.awaited = awaited.filter(|_| ring.enabled);
        }
    }
}
