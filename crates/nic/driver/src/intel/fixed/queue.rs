//! A fixed ring's share of a port: a queue that the ring's owner reads statistics of and that
//! gives no packets out, since they stay in the ring.

use std::sync::Arc;

use bus::Register;
use memory::{Batch, Pool};
use port::{RxStats, TxStats};
use regs::ixgbe::descriptor::rx_legacy;

use super::{REST, WHOLE};
use crate::intel::chip::{Losses, Queues};
use crate::intel::writeback::Head;

/// The queue of the port that receives.
pub struct FixedRx {
    pub(super) owner: Arc<dyn Queues>,
    pub(super) index: usize,
    pub(super) tail: Register,
    pub(super) stats: RxStats,
    /// Frames that could not be used.
    pub(super) losses: Arc<Losses>,
}

impl FixedRx {
    /// What was written back is no whole good frame: counts it with its end. What a slot with
    /// a frame of its own looks like from here on.
    #[cold]
    pub(super) fn refuse(&mut self, word: u64) -> u64 {
        if word & rx_legacy::EOP == 0 {
            return REST;
        }
        self.losses.add(1);
        WHOLE
    }
}

impl port::RxQueue for FixedRx {
    fn recv(&mut self, _pool: &mut Pool, _batch: &mut Batch) -> usize {
        0
    }

    fn stats(&self) -> RxStats {
        RxStats { bad_descriptor: self.losses.read(), ..self.stats }
    }
}

/// The queue of an output.
pub struct FixedTx {
    pub(super) owner: Arc<dyn Queues>,
    pub(super) index: usize,
    pub(super) tail: Register,
    /// Where the device is, by its own register.
    pub(super) head: Register,
    /// Likewise, by what it wrote to memory when it was asked for a report.
    pub(super) written: Head,
    /// The first slot with which the device is not done, free-running.
    pub(super) done: u32,
    /// One past the last slot that the device was given, free-running.
    pub(super) posted: u32,
    pub(super) mask: u32,
    pub(super) stats: TxStats,
    /// Frames longer than a buffer.
    pub(super) unsendable: Arc<Losses>,
}

impl FixedTx {
    /// Slots before `next`, all of which it was given, with which the device was not done when
    /// it reported last.
    pub(super) fn with_device(&mut self, next: u32) -> u32 {
        let given = next.wrapping_sub(self.done);
        let done = done(self.written.read(), self.done, self.mask, given);
        self.done = self.done.wrapping_add(done);
        given - done
    }
}

/// With how many of the `given` slots from `first` on a device is done that wrote this head: none
/// when it says more than it was given, for then it lies.
fn done(head: u32, first: u32, mask: u32, given: u32) -> u32 {
    let done = head.wrapping_sub(first) & mask;
    if done <= given { done } else { 0 }
}

impl port::TxQueue for FixedTx {
    fn send(&mut self, _pool: &mut Pool, _batch: &mut Batch) -> usize {
        0
    }

    fn clean(&mut self, _pool: &mut Pool) -> usize {
        (self.posted.wrapping_sub(self.head.read()) & self.mask) as usize
    }

    fn stats(&self) -> TxStats {
        TxStats { unsendable: self.unsendable.read(), ..self.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_done_with_no_more_than_it_was_given_whatever_it_says() {
        for first in [0, 1, 40, 63, 64, u32::MAX - 5] {
            for given in 0..64 {
                for head in (0..200).chain([u32::MAX, 1 << 31]) {
                    assert!(done(head, first, 63, given) <= given);
                }
                for right in 0..=given {
                    assert_eq!(done(first.wrapping_add(right) & 63, first, 63, given), right);
                }
            }
        }
    }
}
