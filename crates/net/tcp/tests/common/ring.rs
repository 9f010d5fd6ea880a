//! Rings of a port of which the test has the other end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use memory::{Batch, Pool};
use port::{RxQueue, RxStats, TxQueue, TxStats};

/// Packets that a receive ring holds.
pub const RING: usize = 256;

/// The frames in a ring, and how it gives them.
#[derive(Default)]
pub struct Frames {
    pub frames: VecDeque<Vec<u8>>,
    /// How many it gives in a turn; zero for as many as there is room for.
    pub pace: usize,
    /// The frame with which it is filled up in each turn.
    pub flood: Option<Vec<u8>>,
}

/// A ring that a host receives from, or sends by.
#[derive(Clone, Default)]
pub struct FrameRing(Arc<Mutex<Frames>>);

impl FrameRing {
    pub fn held(&self) -> MutexGuard<'_, Frames> {
        self.0.lock().unwrap()
    }

    pub fn put(&self, frame: Vec<u8>) {
        let mut held = self.held();
        assert!(held.frames.len() < RING, "the ring is full");
        held.frames.push_back(frame);
    }

    /// All frames that are in it.
    pub fn take(&self) -> VecDeque<Vec<u8>> {
        std::mem::take(&mut self.held().frames)
    }
}

impl RxQueue for FrameRing {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let mut held = self.held();
        if let Some(frame) = held.flood.clone() {
            let missing = (RING - 64).saturating_sub(held.frames.len());
            held.frames.extend(std::iter::repeat_n(frame, missing));
        }
        let most = if held.pace == 0 { usize::MAX } else { held.pace };
        let mut count = 0;
        while count < most
            && batch.room() > 0
            && let Some(frame) = held.frames.pop_front()
        {
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(&frame).unwrap();
            assert!(batch.push(packet).is_none());
            count += 1;
        }
        count
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }
}

impl TxQueue for FrameRing {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        while let Some(packet) = batch.pop_front() {
            self.held().frames.push_back(packet.to_vec());
            pool.free(packet);
        }
        count
    }

    fn clean(&mut self, _: &mut Pool) -> usize {
        0
    }

    fn stats(&self) -> TxStats {
        TxStats::default()
    }
}
