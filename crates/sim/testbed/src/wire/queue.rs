//! A bounded queue of frames in one allocation.

use std::collections::VecDeque;

/// Frames in order, at most so many and at most so many bytes.
#[derive(Debug)]
pub(crate) struct FrameQueue {
    bytes: Box<[u8]>,
    /// Where each frame begins, and its length.
    frames: VecDeque<(u32, u32)>,
    max_frames: usize,
    /// Where the next frame goes.
    end: usize,
}

impl FrameQueue {
    pub(crate) fn new(max_frames: usize, bytes: u32) -> FrameQueue {
        let frames = VecDeque::with_capacity(max_frames);
        FrameQueue { bytes: vec![0; bytes as usize].into(), frames, max_frames, end: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Appends a frame; `false` when there is no room.
    pub(crate) fn push(&mut self, frame: &[u8]) -> bool {
        let Some(start) = self.place(frame.len()) else { return false };
        self.bytes[start..start + frame.len()].copy_from_slice(frame);
        self.frames.push_back((start as u32, frame.len() as u32));
        self.end = start + frame.len();
        true
    }

    /// Where `len` bytes in one piece are free.
    fn place(&self, len: usize) -> Option<usize> {
        if self.frames.len() >= self.max_frames {
            return None;
        }
        let Some(&(first, _)) = self.frames.front() else { return (len <= self.bytes.len()).then_some(0) };
        let (first, last) = (first as usize, self.frames.back().map_or(0, |&(start, _)| start as usize));
        if last >= first {
            // Used in one piece: behind it, or at the very beginning. Strictly
            // less, or frames of length zero could make full look like empty.
            let behind = (self.end + len <= self.bytes.len()).then_some(self.end);
            return behind.or((len < first).then_some(0));
        }
        (self.end + len < first).then_some(self.end)
    }

    pub(crate) fn front(&self) -> Option<&[u8]> {
        let &(start, len) = self.frames.front()?;
        Some(&self.bytes[start as usize..][..len as usize])
    }

    pub(crate) fn drop_front(&mut self) {
        self.frames.pop_front();
    }

    /// Copies the first frame out; one too long for `frame` is cut.
    pub(crate) fn pop(&mut self, frame: &mut [u8]) -> Option<usize> {
        let first = self.front()?;
        let len = first.len().min(frame.len());
        frame[..len].copy_from_slice(&first[..len]);
        self.drop_front();
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_queue_of_vectors(ops in prop::collection::vec(prop::option::of(0_usize..90), 1..400)) {
            let mut queue = FrameQueue::new(9, 256);
            let mut truth: VecDeque<Vec<u8>> = VecDeque::new();
            for (n, op) in ops.into_iter().enumerate() {
                match op {
                    Some(len) => {
                        let frame: Vec<u8> = (0..len).map(|at| (at * 7 + n) as u8).collect();
                        let used: usize = truth.iter().map(Vec::len).sum();
                        if queue.push(&frame) {
                            truth.push_back(frame);
                        } else {
                            prop_assert!(truth.len() == 9 || used + 2 * 90 > 256 - 90);
                        }
                    }
                    None => {
                        let mut out = [0; 128];
                        let got = queue.pop(&mut out).map(|len| out[..len].to_vec());
                        prop_assert_eq!(got, truth.pop_front());
                    }
                }
                prop_assert_eq!(queue.len(), truth.len());
            }
        }
    }
}
