//! A port's queues that are lists of frames.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use memory::{Batch, Pool};
use port::{RxQueue, RxStats, TxQueue, TxStats};

/// Frames that wait at one end of a port.
#[derive(Clone, Default)]
pub struct Frames(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Frames {
    /// Lets a frame wait.
    pub fn put(&self, frame: &[u8]) {
        self.0.lock().unwrap().push_back(frame.to_vec());
    }

    /// Takes all frames that wait.
    pub fn take(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().drain(..).collect()
    }
}

impl RxQueue for Frames {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let frames = self.take();
        for frame in &frames {
            let mut packet = pool.alloc().unwrap();
            packet.copy_at(memory::HEADROOM, frame).unwrap();
            assert!(batch.push(packet).is_none());
        }
        frames.len()
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }
}

impl TxQueue for Frames {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        for packet in batch.drain() {
            self.put(&packet);
            pool.free(packet);
        }
        count
    }

    fn clean(&mut self, _pool: &mut Pool) -> usize {
        0
    }

    fn stats(&self) -> TxStats {
        TxStats::default()
    }
}
