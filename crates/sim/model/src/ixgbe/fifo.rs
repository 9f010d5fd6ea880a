//! The receive packet buffer: frames that wait for a descriptor.
//!
//! 82599 datasheet rev. 3.4, section 3.7.7.3.1: 512 KiB, shared out by
//! RXPBSIZE. One queue for all, so that a full ring without DROP_EN holds up
//! the rest, as the chip does.

use std::collections::VecDeque;

use super::rx::Classified;

const CAPACITY: usize = 512 << 10;

#[derive(Debug, Clone, Copy)]
struct Record {
    classified: Classified,
    start: usize,
    len: usize,
}

/// Frames in the order they came.
#[derive(Debug)]
pub(super) struct Fifo {
    bytes: Box<[u8]>,
    records: VecDeque<Record>,
    end: usize,
    held: usize,
    /// Bytes the driver gave to the buffer.
    pub limit: usize,
}

impl Fifo {
    pub fn new() -> Fifo {
        Fifo {
            bytes: vec![0; CAPACITY].into_boxed_slice(),
            records: VecDeque::new(),
            end: 0,
            held: 0,
            limit: CAPACITY,
        }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Keeps a frame; `false` when there is no room. Frames of a wire with backpressure
    /// may use all of the chip's memory.
    pub fn push(&mut self, classified: Classified, frame: &[u8], backpressure: bool) -> bool {
        let limit = if backpressure { CAPACITY } else { self.limit.min(CAPACITY) };
        if self.held + frame.len() > limit {
            return false;
        }
        let Some(start) = self.room(frame.len()) else { return false };
        self.bytes[start..start + frame.len()].copy_from_slice(frame);
        self.end = start + frame.len();
        self.held += frame.len();
        self.records.push_back(Record { classified, start, len: frame.len() });
        true
    }

    /// A free range of `len` bytes; frames are kept in one piece.
    fn room(&self, len: usize) -> Option<usize> {
        let Some(oldest) = self.records.front() else { return Some(0) };
        if self.end > oldest.start {
            if self.end + len <= self.bytes.len() {
                return Some(self.end);
            }
            return (len < oldest.start).then_some(0);
        }
        (self.end + len < oldest.start).then_some(self.end)
    }

    /// The frame that came first.
    pub fn front(&self) -> Option<(Classified, &[u8])> {
        let record = self.records.front()?;
        Some((record.classified, &self.bytes[record.start..record.start + record.len]))
    }

    pub fn pop(&mut self) {
        if let Some(record) = self.records.pop_front() {
            self.held -= record.len;
        }
    }

    /// Throws everything away; how many frames that was.
    pub fn clear(&mut self) -> u64 {
        let count = self.records.len() as u64;
        self.records.clear();
        (self.end, self.held) = (0, 0);
        count
    }
}
