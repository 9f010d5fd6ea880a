//! Dropping a queue: the device must have let go of its ring before the memory
//! is used for anything else. And what a queue counted.

use super::rx::RxQueue;
use super::tx::TxQueue;
use super::writeback::Head;
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
            self.slots.leak();
            self.ring.leak();
        }
    }
}

impl Drop for TxQueue {
    fn drop(&mut self) {
        // The device must be quiet before its buffers go back to their pools.
        if !self.shared.disable_tx(self.index) {
            self.slots.leak();
            self.ring.leak();
            self.head.iter().for_each(Head::leak);
        }
    }
}
