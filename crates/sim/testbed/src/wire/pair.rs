//! Two devices joined: what one sends the other receives.
//!
//! The ends may be stepped by different threads. Frames cross in bursts, so
//! that the lock between them is taken once per burst.

use std::sync::{Arc, Mutex, PoisonError};

use super::queue::FrameQueue;

/// Frames on the way in one direction; more are lost, as in a full NIC.
const QUEUE_FRAMES: usize = 4096;
const QUEUE_BYTES: u32 = 4 << 20;
/// Frames that cross at a time.
const BURST_FRAMES: usize = 64;
const BURST_BYTES: u32 = 128 << 10;

type SharedQueue = Arc<Mutex<FrameQueue>>;

/// One of two ends: what it sends is received at the other.
#[derive(Debug)]
pub(super) struct PairEnd {
    sent: FrameQueue,
    to: SharedQueue,
    received: FrameQueue,
    from: SharedQueue,
    full: u64,
}

impl PairEnd {
    /// Makes two ends that are joined.
    pub(super) fn new() -> (PairEnd, PairEnd) {
        let queue = || Arc::new(Mutex::new(FrameQueue::new(QUEUE_FRAMES, QUEUE_BYTES)));
        let burst = || FrameQueue::new(BURST_FRAMES, BURST_BYTES);
        let (one, other) = (queue(), queue());
        let end = |to: &SharedQueue, from: &SharedQueue| PairEnd {
            sent: burst(),
            to: to.clone(),
            received: burst(),
            from: from.clone(),
            full: 0,
        };
        (end(&one, &other), end(&other, &one))
    }

    /// Frames that the other end was too slow for.
    pub(super) fn full(&self) -> u64 {
        self.full
    }

    /// Frames on the way to this end, and frames that it holds back.
    pub(super) fn waiting(&self) -> (u64, u64) {
        let incoming = self.received.len() + lock(&self.from).len();
        (incoming as u64, self.sent.len() as u64)
    }

    pub(super) fn transmit(&mut self, frame: &[u8]) {
        if !self.sent.push(frame) {
            self.flush();
            if !self.sent.push(frame) {
                self.full += 1;
            }
        }
    }

    /// Sends what was held back.
    pub(super) fn flush(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let mut to = lock(&self.to);
        while let Some(frame) = self.sent.front() {
            self.full += u64::from(!to.push(frame));
            self.sent.drop_front();
        }
    }

    pub(super) fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        if self.received.is_empty() {
            let mut from = lock(&self.from);
            while let Some(first) = from.front() {
                if !self.received.push(first) {
                    break;
                }
                from.drop_front();
            }
        }
        self.received.pop(frame)
    }
}

fn lock(queue: &SharedQueue) -> std::sync::MutexGuard<'_, FrameQueue> {
    // A queue is consistent whenever its methods return.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
