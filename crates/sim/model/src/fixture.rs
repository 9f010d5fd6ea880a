//! The other side of a model, for tests, fuzzing and measuring: host memory,
//! shared pages and wires without any operating system.
//!
//! [`Memory`] and [`Bar`] are shared by cloning: one clone for the model, one
//! for whoever plays the driver. All is safe code, so it is slower than what
//! the testbed uses.

pub mod guest;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{Dma, FrameError, MAX_FRAME, Pages, Window, Wire};

/// Bytes of the words that memory is made of.
const WORD: usize = size_of::<u64>();

/// One range of memory, at an IOVA of its own.
#[derive(Debug, Clone)]
pub struct Memory {
    words: Arc<[AtomicU64]>,
    iova: u64,
    generation: Arc<AtomicU64>,
    mapped: Arc<AtomicU64>,
}

impl Memory {
    /// `len` zeroed bytes (rounded up to 8) that the device sees at `iova`.
    pub fn new(iova: u64, len: usize) -> Memory {
        let words = (0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let bytes = AtomicU64::new(len as u64);
        Memory { words, iova, generation: Arc::new(AtomicU64::new(1)), mapped: Arc::new(bytes) }
    }

    /// Takes all but the first `len` bytes away from the device.
    pub fn map_only(&self, len: u64) {
        self.mapped.store(len.min(8 * self.words.len() as u64), Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// The word at `iova`, which is a multiple of 8. Panics outside, as all of
    /// the driver's accesses here do.
    pub fn load(&self, iova: u64) -> u64 {
        self.words[((iova - self.iova) / 8) as usize].load(Ordering::Acquire)
    }

    /// Sets the word at `iova`.
    pub fn store(&self, iova: u64, value: u64) {
        self.words[((iova - self.iova) / 8) as usize].store(value, Ordering::Release);
    }

    /// `len` bytes at `iova`.
    pub fn bytes(&self, iova: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        assert!(self.read(iova, &mut data), "outside of memory");
        data
    }

    /// Where an access of `len` bytes starts, if all of it is mapped.
    #[inline]
    fn place(&self, iova: u64, len: u64) -> Option<usize> {
        let start = iova.checked_sub(self.iova)?;
        let end = start.checked_add(len)?;
        (end <= self.mapped.load(Ordering::Relaxed)).then_some(start as usize)
    }
}

impl Dma for Memory {
    type Window = MemoryWindow;

    fn window(&self, iova: u64, len: u64) -> Option<MemoryWindow> {
        let start = self.place(iova, len).filter(|start| start % 8 == 0)?;
        Some(MemoryWindow { words: self.words.clone(), first: start / 8, count: len as usize / 8 })
    }

    #[inline]
    fn read(&self, iova: u64, data: &mut [u8]) -> bool {
        let Some(start) = self.place(iova, data.len() as u64) else { return false };
        let words = &self.words[start / 8..(start + data.len()).div_ceil(8)];
        if start % 8 == 0 {
            let (whole, rest) = data.as_chunks_mut::<WORD>();
            for (to, word) in whole.iter_mut().zip(words) {
                *to = word.load(Ordering::Relaxed).to_le_bytes();
            }
            let mut last = words.get(whole.len()).map_or(0, |word| word.load(Ordering::Relaxed));
            for to in rest {
                *to = last as u8;
                last >>= 8;
            }
        } else {
            for (n, to) in data.iter_mut().enumerate() {
                let at = start % 8 + n;
                *to = words[at / 8].load(Ordering::Relaxed).to_le_bytes()[at % 8];
            }
        }
        true
    }

    #[inline]
    fn write(&self, iova: u64, data: &[u8]) -> bool {
        let Some(start) = self.place(iova, data.len() as u64) else { return false };
        let words = &self.words[start / 8..(start + data.len()).div_ceil(8)];
        let set = |at: usize, from: &[u8]| {
            let mut bytes = words[at / 8].load(Ordering::Relaxed).to_le_bytes();
            bytes[at % 8..at % 8 + from.len()].copy_from_slice(from);
            words[at / 8].store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        };
        if start % 8 == 0 {
            let (whole, rest) = data.as_chunks::<WORD>();
            for (from, word) in whole.iter().zip(words) {
                word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
            }
            if let (Some(last), false) = (data.last_chunk::<WORD>(), rest.is_empty()) {
                // The rest by way of the last eight bytes, shifted into place.
                let (spare, word) = (64 - 8 * rest.len() as u32, &words[whole.len()]);
                let kept = word.load(Ordering::Relaxed) & (u64::MAX << (64 - spare));
                word.store(kept | u64::from_le_bytes(*last) >> spare, Ordering::Relaxed);
            } else if !rest.is_empty() {
                set(whole.len() * 8, rest);
            }
        } else {
            for (n, byte) in data.iter().enumerate() {
                set(start % 8 + n, &[*byte]);
            }
        }
        true
    }

    #[inline]
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
}

/// A window on [`Memory`].
#[derive(Debug, Clone)]
pub struct MemoryWindow {
    words: Arc<[AtomicU64]>,
    first: usize,
    count: usize,
}

impl MemoryWindow {
    #[inline]
    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let index = offset / 8;
        (index < self.count).then(|| self.words.get(self.first + index)).flatten()
    }

    /// Stores a shorter word, and leaves alone what another thread stores beside
    /// it meanwhile.
    #[inline]
    fn merge(&self, offset: usize, mask: u64, value: u64) {
        let shift = 8 * (offset % 8);
        if let Some(word) = self.word(offset) {
            let mut old = word.load(Ordering::Relaxed);
            loop {
                let new = old & !(mask << shift) | value << shift;
                match word.compare_exchange_weak(old, new, Ordering::Release, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(now) => old = now,
                }
            }
        }
    }
}

impl Window for MemoryWindow {
    #[inline]
    fn load(&self, offset: usize) -> u64 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Relaxed))
    }
    #[inline]
    fn load_acquire(&self, offset: usize) -> u64 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }
    #[inline]
    fn store(&self, offset: usize, value: u64) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Relaxed);
        }
    }
    #[inline]
    fn store_release(&self, offset: usize, value: u64) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Release);
        }
    }
    #[inline]
    fn store16_release(&self, offset: usize, value: u16) {
        self.merge(offset, 0xFFFF, value.into());
    }
    #[inline]
    fn store32(&self, offset: usize, value: u32) {
        self.merge(offset, 0xFFFF_FFFF, value.into());
    }
}

/// The first 64 KiB of BAR 0, of which the polled pages are used.
#[derive(Debug, Clone)]
pub struct Bar(Arc<[AtomicU32]>);

impl Default for Bar {
    fn default() -> Bar {
        Bar((0..0x1_0000 / 4).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Pages for Bar {
    #[inline]
    fn load(&self, offset: u32) -> u32 {
        self.0.get(offset as usize / 4).map_or(0, |word| word.load(Ordering::Acquire))
    }
    #[inline]
    fn store(&self, offset: u32, value: u32) {
        if let Some(word) = self.0.get(offset as usize / 4) {
            word.store(value, Ordering::Release);
        }
    }
}

/// A cable with both ends in hand.
#[derive(Debug, Default)]
pub struct Cable {
    /// Frames on their way to the host.
    pub to_host: VecDeque<(Vec<u8>, FrameError)>,
    /// Frames the host sent.
    pub from_host: Vec<Vec<u8>>,
    /// Whether frames wait while the NIC has no room.
    pub backpressure: bool,
    /// Whether the other end is gone.
    pub unplugged: bool,
    /// What happened to the frame given last.
    pub last: FrameError,
}

impl Cable {
    /// Sends a frame towards the host.
    pub fn send(&mut self, frame: &[u8]) {
        self.to_host.push_back((frame.to_vec(), FrameError::None));
    }
}

impl Wire for Cable {
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        let (next, fault) = self.to_host.pop_front()?;
        let len = next.len().min(MAX_FRAME).min(frame.len());
        frame[..len].copy_from_slice(&next[..len]);
        self.last = fault;
        Some(len)
    }

    fn transmit(&mut self, frame: &[u8]) {
        self.from_host.push(frame.to_vec());
    }

    fn frame_error(&self) -> FrameError {
        self.last
    }

    fn has_backpressure(&self) -> bool {
        self.backpressure
    }

    fn is_up(&self) -> bool {
        !self.unplugged
    }
}

/// A source that always has the same frame, and a sink that counts.
#[derive(Debug)]
pub struct Source {
    /// The frame that comes again and again.
    pub frame: Vec<u8>,
    /// How many frames the host may still have.
    pub left: u64,
    /// Frames the host sent.
    pub sunk: u64,
}

impl Wire for Source {
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        frame[..self.frame.len()].copy_from_slice(&self.frame);
        Some(self.frame.len())
    }

    #[inline]
    fn transmit(&mut self, _: &[u8]) {
        self.sunk += 1;
    }

    #[inline]
    fn receive_burst(&mut self, _: &mut [u8], max: usize, sink: &mut impl FnMut(&[u8], FrameError)) -> usize {
        let count = self.left.min(max as u64);
        self.left -= count;
        for _ in 0..count {
            sink(&self.frame, FrameError::None);
        }
        count as usize
    }

    fn has_backpressure(&self) -> bool {
        true
    }
}
