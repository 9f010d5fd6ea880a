//! Faults of a virtio device: used indices that jump, buffers that it was not
//! given or returned before, lengths beyond a buffer, flags of another lap. A
//! decorator around any [`model::Dma`].
//!
//! It tells what a store means by its width and place (virtio 1.3, sections
//! 2.7.8 and 2.8.1): in a used ring 16 bits at 2 are the index, 32 bits at 4 and
//! behind are ids and lengths in turn; in a packed ring the second word of 16
//! bytes has length, id and flags. Event suppression is left alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Dma, Window};
use regs::virtio::packed::descriptor;
use regs::virtio::split::used;

use super::{Random, Spec};
use crate::device::FaultHandle;

/// The faults by their names in a [`Spec`].
pub const NAMES: &[&str] = &["jump", "foreign", "twice", "lap", "length", "garbage"];

/// No ring has so many entries.
const FOREIGN: u32 = 0x8000;
/// The flags of a packed descriptor that tell the lap, in its second word.
const LAP: u64 = ((descriptor::AVAIL | descriptor::USED) as u64) << 48;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    jump: u64,
    foreign: u64,
    twice: u64,
    length: u64,
    lap: u64,
    garbage: u64,
}

#[derive(Debug)]
struct State {
    spec: Spec,
    random: Random,
    counts: Counts,
}

impl State {
    /// A used index.
    fn index(&mut self, index: u16) -> u16 {
        if !self.random.happens(self.spec.jump) {
            return index;
        }
        self.counts.jump += 1;
        index.wrapping_add(1 + self.random.below(0xFFFF) as u16)
    }

    /// The id of a used buffer; `last` is the one before.
    fn id(&mut self, id: u32, last: Option<u32>) -> u32 {
        if self.random.happens(self.spec.foreign) {
            self.counts.foreign += 1;
            return id | FOREIGN;
        }
        match last {
            Some(last) if self.random.happens(self.spec.twice) => {
                self.counts.twice += 1;
                last
            }
            _ => id,
        }
    }

    /// The length of a used buffer.
    fn length(&mut self, length: u32) -> u32 {
        if !self.random.happens(self.spec.length) {
            return length;
        }
        self.counts.length += 1;
        match self.random.below(4) {
            0 => self.random.below(12) as u32,
            1 => u32::MAX - self.random.below(16) as u32,
            _ => 2048 + self.random.below(1 << 20) as u32,
        }
    }

    /// A used descriptor of a packed ring.
    fn descriptor(&mut self, word: u64, last: Option<u32>) -> u64 {
        let id = self.id((word >> 32) as u32 & 0xFFFF, last);
        let mut word = word & !(0xFFFF << 32) | u64::from(id & 0xFFFF) << 32;
        if word as u32 > 0 {
            word = word & !0xFFFF_FFFF | u64::from(self.length(word as u32));
        }
        if self.random.happens(self.spec.garbage) {
            self.counts.garbage += 1;
            word = word & LAP | self.random.next() & !LAP;
        }
        if self.random.happens(self.spec.lap) {
            self.counts.lap += 1;
            word ^= LAP;
        }
        word
    }
}

/// Counts of a [`FaultyRingDma`], from outside of the model that owns it.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Mutex<State>>);

impl Handle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultHandle for Handle {
    fn step(&self) {}

    fn forget(&self) {}

    fn counts(&self) -> BTreeMap<String, u64> {
        let Counts { jump, foreign, twice, length, lap, garbage } = self.state().counts;
        let all = [
            ("jump", jump),
            ("foreign", foreign),
            ("twice", twice),
            ("length", length),
            ("lap", lap),
            ("garbage", garbage),
        ];
        all.into_iter().filter(|&(_, n)| n > 0).map(|(name, n)| (name.to_owned(), n)).collect()
    }
}

/// A view of host memory that injects faults into what a device writes to its rings, or none.
/// One type for both: a model that is generic over its memory is compiled once.
#[derive(Debug)]
pub struct FaultyRingDma<D> {
    dma: D,
    faults: Option<Handle>,
}

impl<D: Dma> FaultyRingDma<D> {
    /// Puts the faults of `spec` between a device and `dma`; the handle counts them.
    pub fn new(dma: D, spec: Spec) -> (FaultyRingDma<D>, Handle) {
        let state = State { spec, random: Random::new(spec.seed), counts: Counts::default() };
        let handle = Handle(Arc::new(Mutex::new(state)));
        (FaultyRingDma { dma, faults: Some(handle.clone()) }, handle)
    }

    /// Passes all on as it is.
    pub fn without_faults(dma: D) -> FaultyRingDma<D> {
        FaultyRingDma { dma, faults: None }
    }
}

impl<D: Dma> Dma for FaultyRingDma<D> {
    type Window = FaultyRingWindow<D::Window>;

    fn window(&self, iova: u64, len: u64) -> Option<Self::Window> {
        let window = self.dma.window(iova, len)?;
        let faults = self.faults.clone().map(|handle| RingFaults { handle, last: Mutex::new(None) });
        Some(FaultyRingWindow { window, faults })
    }

    fn read(&self, iova: u64, data: &mut [u8]) -> bool {
        self.dma.read(iova, data)
    }

    fn write(&self, iova: u64, data: &[u8]) -> bool {
        self.dma.write(iova, data)
    }

    fn generation(&self) -> u64 {
        self.dma.generation()
    }

    fn forget(&self) {
        self.dma.forget();
    }
}

/// A ring, or a part of one, into which faults are injected, if there are any.
#[derive(Debug)]
pub struct FaultyRingWindow<W> {
    window: W,
    faults: Option<RingFaults>,
}

/// The faults of one ring.
#[derive(Debug)]
struct RingFaults {
    handle: Handle,
    /// The id last returned.
    last: Mutex<Option<u32>>,
}

impl RingFaults {
    /// Remembers an id; the one before.
    fn swap(&self, id: u32) -> Option<u32> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(id)
    }

    /// What is stored for 8 bytes of a packed ring.
    fn word(&self, offset: usize, word: u64) -> u64 {
        if offset % descriptor::BYTES != descriptor::LEN {
            return word;
        }
        let last = self.swap((word >> 32) as u32 & 0xFFFF);
        self.handle.state().descriptor(word, last)
    }

    /// What is stored for the index of a split ring, if this is its place.
    fn index(&self, offset: usize, value: u16) -> u16 {
        if offset == used::INDEX { self.handle.state().index(value) } else { value }
    }

    /// What is stored for half an entry of a split ring.
    fn entry(&self, offset: usize, value: u32) -> u32 {
        match offset.checked_sub(used::RING).map(|at| at % used::ENTRY) {
            Some(used::ENTRY_ID) => {
                let last = self.swap(value);
                self.handle.state().id(value, last)
            }
            Some(used::ENTRY_LEN) if value > 0 => self.handle.state().length(value),
            _ => value,
        }
    }
}

impl<W: Window> Window for FaultyRingWindow<W> {
    fn load(&self, offset: usize) -> u64 {
        self.window.load(offset)
    }

    fn load_acquire(&self, offset: usize) -> u64 {
        self.window.load_acquire(offset)
    }

    fn store(&self, offset: usize, value: u64) {
        let told = self.faults.as_ref().map_or(value, |faults| faults.word(offset, value));
        self.window.store(offset, told);
    }

    fn store_release(&self, offset: usize, value: u64) {
        let told = self.faults.as_ref().map_or(value, |faults| faults.word(offset, value));
        self.window.store_release(offset, told);
    }

    fn load16(&self, offset: usize) -> u16 {
        self.window.load16(offset)
    }

    fn load16_acquire(&self, offset: usize) -> u16 {
        self.window.load16_acquire(offset)
    }

    fn load32_acquire(&self, offset: usize) -> u32 {
        self.window.load32_acquire(offset)
    }

    fn store16_release(&self, offset: usize, value: u16) {
        let told = self.faults.as_ref().map_or(value, |faults| faults.index(offset, value));
        self.window.store16_release(offset, told);
    }

    fn store32(&self, offset: usize, value: u32) {
        let told = self.faults.as_ref().map_or(value, |faults| faults.entry(offset, value));
        self.window.store32(offset, told);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::view::{Access, BarPages, View};

    fn ring(spec: &str) -> (FaultyRingWindow<crate::view::Window>, Handle) {
        let view = View::default();
        let file = BarPages::new(0x1000).unwrap().file().try_clone_to_owned().unwrap();
        view.map(0, 0x1000, file, 0, Access::BOTH).unwrap();
        let (dma, handle) = FaultyRingDma::new(view, spec.parse().unwrap());
        (dma.window(0, 0x1000).unwrap(), handle)
    }

    const WORD: u64 = LAP | 3 << 32 | 60;

    #[test]
    fn without_faults_nothing_changes() {
        let (window, handle) = ring("");
        window.store32(4, 7);
        window.store32(8, 60);
        window.store16_release(2, 1);
        window.store(24, WORD);
        assert_eq!((window.load(0), window.load(8) as u32, window.load(24)), (1 << 16 | 7 << 32, 60, WORD));
        assert!(handle.counts().is_empty());
    }

    #[test]
    fn each_forgery_is_the_one_it_says() {
        let split = |spec: &str| {
            let (window, handle) = ring(spec);
            for id in [5, 6] {
                window.store32(4, id);
                window.store32(8, 60);
            }
            window.store16_release(2, 2);
            let index = window.load16(2);
            let head = window.load(0) >> 32;
            (index, head, window.load(8) as u32, handle.counts())
        };
        let (index, .., counts) = split("jump=1");
        assert!(index != 2 && counts["jump"] == 1);
        assert_eq!(split("foreign=1").1, 6 | u64::from(FOREIGN));
        assert_eq!(split("twice=1").1, 5);
        assert!(split("length=1").2 != 60);
        let packed = |spec: &str| {
            let (window, handle) = ring(spec);
            window.store(8, WORD - (1 << 32));
            window.store_release(24, WORD);
            (window.load(24), handle.counts())
        };
        assert_eq!(packed("foreign=1").0, WORD | u64::from(FOREIGN) << 32);
        assert_eq!(packed("twice=1").0, WORD - (1 << 32));
        assert_eq!(packed("lap=1").0, WORD ^ LAP);
        assert_eq!(packed("length=1").0 >> 32, WORD >> 32);
        assert_ne!(packed("garbage=1").0, WORD);
        assert_eq!(packed("jump=1"), (WORD, BTreeMap::new()));
    }
}
