//! Dropping a queue: the device must have let go of its ring before the memory
//! is used for anything else. And what a queue counted.

use std::mem;

use super::rx::RxQueue;
use super::tx::TxQueue;
use super::writeback::Head;
use crate::ring::Ring;
use crate::{RxStats, TxStats};

impl RxQueue {
    /// Counters since the queue was opened.
    pub fn stats(&self) -> RxStats {
        self.stats
    }
}

impl TxQueue {
    /// Counters since the queue was opened.
    pub fn stats(&self) -> TxStats {
        self.stats
    }
}

impl Drop for RxQueue {
    fn drop(&mut self) {
        // The device must be quiet before its buffers go back to their pool.
        if !self.shared.disable_rx(self.index) {
            leak(&mut self.ring);
        }
    }
}

impl Drop for TxQueue {
    fn drop(&mut self) {
        // The device must be quiet before its buffers go back to their pools.
        if !self.shared.disable_tx(self.index) {
            leak(&mut self.ring);
            self.head.iter().for_each(Head::leak);
        }
    }
}

/// Keeps a ring and its buffers for ever: the device may still write to them.
fn leak(ring: &mut Ring) {
    mem::forget(ring.region.clone());
    mem::forget(mem::take(&mut ring.packets));
}
