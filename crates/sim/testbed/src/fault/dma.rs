//! Faults of a device: descriptors that come back late, never, with a wrong
//! length or as garbage. A decorator around any [`model::Dma`].
//!
//! Which stores write a descriptor back, and what they say, is told by the model's
//! [`WriteBackFormat`]; only such stores are touched.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::chip::{WriteBack, WriteBackFormat};
use model::{Dma, Window};

use super::{Random, Spec};

/// The faults by their names in a [`Spec`].
pub const NAMES: &[&str] = &["late", "stuck", "length", "garbage"];

const MAX_LATE_STEPS: u64 = 64;
/// Stores held back at a time; more are made at once.
const MAX_HELD: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    late: u64,
    stuck: u64,
    length: u64,
    garbage: u64,
}

#[derive(Debug)]
struct Held<W> {
    due_step: u64,
    window: W,
    offset: usize,
    value: u64,
}

#[derive(Debug)]
struct State<W> {
    spec: Spec,
    format: WriteBackFormat,
    random: Random,
    counts: Counts,
    step: u64,
    generation: u64,
    held: Vec<Held<W>>,
}

/// What becomes of a store.
enum StoreAction {
    /// It is made, with this value.
    Make(u64),
    /// It is not made, or later.
    Skip,
}

impl<W: Clone> State<W> {
    fn decide(&mut self, window: &W, offset: usize, value: u64) -> StoreAction {
        let Some(WriteBack { done, length }) = (self.format)(offset, value) else {
            return StoreAction::Make(value);
        };
        let spec = self.spec;
        if self.random.happens(spec.stuck) {
            self.counts.stuck += 1;
            return StoreAction::Skip;
        }
        let mut value = value;
        if self.random.happens(spec.garbage) {
            self.counts.garbage += 1;
            // Still done, or it would only be stuck.
            value = self.random.next() | done;
        } else if length != 0 && self.random.happens(spec.length) {
            self.counts.length += 1;
            let largest = length >> length.trailing_zeros();
            let other = self.random.below(largest + 1) << length.trailing_zeros();
            value = value & !length | other;
        }
        if self.random.happens(spec.late) && self.held.len() < MAX_HELD {
            self.counts.late += 1;
            let due_step = self.step + 1 + self.random.below(MAX_LATE_STEPS);
            self.held.push(Held { due_step, window: window.clone(), offset, value });
            return StoreAction::Skip;
        }
        StoreAction::Make(value)
    }
}

/// Counts and steps a [`FaultyDma`] from outside of the model that owns it.
#[derive(Debug)]
pub struct Handle<W>(Arc<Mutex<State<W>>>);

impl<W> Clone for Handle<W> {
    fn clone(&self) -> Handle<W> {
        Handle(self.0.clone())
    }
}

impl<W: Window> Handle<W> {
    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step of the device has passed: makes the stores that are due.
    pub fn step(&self) {
        let mut state = self.state();
        state.step += 1;
        let step = state.step;
        state.held.retain(|held| {
            let due = held.due_step <= step;
            if due {
                held.window.store_release(held.offset, held.value);
            }
            !due
        });
    }

    /// Drops what is held back: after a reset, or when memory is taken back.
    pub fn forget(&self) {
        self.state().held.clear();
    }

    /// Faults that were injected, by name.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let Counts { late, stuck, length, garbage } = self.state().counts;
        let all = [("late", late), ("stuck", stuck), ("length", length), ("garbage", garbage)];
        all.into_iter().filter(|&(_, n)| n > 0).map(|(name, n)| (name.to_owned(), n)).collect()
    }
}

/// A view of host memory through which write-backs go wrong, or none does. One type for both:
/// a model that is generic over its memory is compiled once.
#[derive(Debug)]
pub struct FaultyDma<D: Dma> {
    dma: D,
    faults: Option<Handle<D::Window>>,
}

impl<D: Dma> FaultyDma<D> {
    /// Decorates `dma` of a device that writes descriptors back in this format; the handle
    /// must be stepped with the device.
    pub fn new(dma: D, spec: Spec, format: WriteBackFormat) -> (FaultyDma<D>, Handle<D::Window>) {
        let state = State {
            spec,
            format,
            random: Random::new(spec.seed),
            counts: Counts::default(),
            step: 0,
            generation: dma.generation(),
            held: Vec::new(),
        };
        let handle = Handle(Arc::new(Mutex::new(state)));
        (FaultyDma { dma, faults: Some(handle.clone()) }, handle)
    }

    /// Passes all on as it is.
    pub fn without_faults(dma: D) -> FaultyDma<D> {
        FaultyDma { dma, faults: None }
    }
}

impl<D: Dma<Window: Clone>> Dma for FaultyDma<D> {
    type Window = FaultyWindow<D::Window>;

    fn window(&self, iova: u64, len: u64) -> Option<Self::Window> {
        let window = self.dma.window(iova, len)?;
        Some(FaultyWindow { window, faults: self.faults.clone() })
    }

    fn read(&self, iova: u64, data: &mut [u8]) -> bool {
        self.dma.read(iova, data)
    }

    fn write(&self, iova: u64, data: &[u8]) -> bool {
        self.dma.write(iova, data)
    }

    fn generation(&self) -> u64 {
        let generation = self.dma.generation();
        if let Some(handle) = &self.faults {
            let mut state = handle.state();
            if state.generation != generation {
                state.generation = generation;
                state.held.clear();
            }
        }
        generation
    }

    fn forget(&self) {
        self.dma.forget();
    }
}

/// A descriptor ring whose write-backs go wrong, if there are faults.
#[derive(Debug)]
pub struct FaultyWindow<W> {
    window: W,
    faults: Option<Handle<W>>,
}

impl<W: Window + Clone> FaultyWindow<W> {
    /// What becomes of a store.
    #[inline]
    fn decide(&self, offset: usize, value: u64) -> StoreAction {
        match &self.faults {
            None => StoreAction::Make(value),
            Some(handle) => handle.state().decide(&self.window, offset, value),
        }
    }
}

impl<W: Window + Clone> Window for FaultyWindow<W> {
    fn load(&self, offset: usize) -> u64 {
        self.window.load(offset)
    }

    fn load_acquire(&self, offset: usize) -> u64 {
        self.window.load_acquire(offset)
    }

    fn store(&self, offset: usize, value: u64) {
        match self.decide(offset, value) {
            StoreAction::Make(value) => self.window.store(offset, value),
            StoreAction::Skip => {}
        }
    }

    fn store_release(&self, offset: usize, value: u64) {
        match self.decide(offset, value) {
            StoreAction::Make(value) => self.window.store_release(offset, value),
            StoreAction::Skip => {}
        }
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
        self.window.store16_release(offset, value);
    }

    fn store32(&self, offset: usize, value: u32) {
        self.window.store32(offset, value);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::view::BarPages;
    use crate::view::{Access, View};

    /// As a chip whose length stands from bit 38 on and which says that it sent by type 0xF.
    fn format(offset: usize, word: u64) -> Option<WriteBack> {
        match word & 0xF {
            0xF => Some(WriteBack { done: 0xF, length: 0 }),
            bits if bits & 1 != 0 && offset % 32 == 8 => {
                Some(WriteBack { done: 1, length: 0x3FFF << LENGTH_SHIFT })
            }
            _ => None,
        }
    }

    const LENGTH_SHIFT: u32 = 38;
    const RX: u64 = 60 << LENGTH_SHIFT | 0b11;
    const TX: u64 = 0xF;

    fn ring(spec: &str) -> (View, FaultyWindow<crate::view::Window>, Handle<crate::view::Window>) {
        let view = View::default();
        let file = BarPages::new(0x1000).unwrap().file().try_clone_to_owned().unwrap();
        view.map(0, 0x1000, file, 0, Access::BOTH).unwrap();
        let (dma, handle) = FaultyDma::new(view.clone(), spec.parse().unwrap(), format);
        let window = dma.window(0, 0x1000).unwrap();
        (view, window, handle)
    }

    #[test]
    fn without_faults_nothing_changes() {
        let (_, window, handle) = ring("");
        window.store(0, 5);
        window.store_release(8, RX);
        assert_eq!((window.load(0), window.load_acquire(8)), (5, RX));
        assert!(handle.counts().is_empty());
    }

    #[test]
    fn a_ring_of_a_device_without_faults_is_as_it_was() {
        let (view, _, _) = ring("");
        let dma = FaultyDma::without_faults(view.clone());
        let window = dma.window(0, 0x1000).unwrap();
        window.store(0, 5);
        window.store_release(8, RX);
        assert_eq!((window.load(0), window.load_acquire(8)), (5, RX));
        assert_eq!(dma.generation(), view.generation());
    }

    #[test]
    fn a_stuck_descriptor_never_comes() {
        let (_, window, handle) = ring("stuck=1");
        window.store_release(8, RX);
        window.store_release(24, TX);
        (0..1000).for_each(|_| handle.step());
        assert_eq!((window.load(8), window.load(24)), (0, 0));
        assert_eq!(handle.counts()["stuck"], 2);
    }

    #[test]
    fn a_late_descriptor_comes_after_steps() {
        let (_, window, handle) = ring("late=1");
        window.store_release(8, RX);
        assert_eq!(window.load(8), 0);
        (0..=MAX_LATE_STEPS).for_each(|_| handle.step());
        assert_eq!(window.load(8), RX);
        assert_eq!(handle.counts()["late"], 1);
    }

    #[test]
    fn what_is_late_is_forgotten_when_memory_goes() {
        let (view, window, handle) = ring("late=1");
        let dma = FaultyDma { dma: view.clone(), faults: Some(handle.clone()) };
        window.store_release(8, RX);
        view.clear();
        dma.generation();
        (0..=MAX_LATE_STEPS).for_each(|_| handle.step());
        assert_eq!(window.load(8), 0);
    }

    #[test]
    fn a_wrong_length_changes_nothing_else() {
        let (_, window, handle) = ring("length=1");
        window.store_release(8, RX);
        let mask = !(0x3FFF << LENGTH_SHIFT);
        assert_eq!(window.load(8) & mask, RX & mask);
        assert_ne!(window.load(8), RX);
        window.store_release(24, TX);
        assert_eq!(window.load(24), TX, "transmit has no length");
        assert_eq!(handle.counts()["length"], 1);
    }

    #[test]
    fn garbage_still_says_done() {
        let (_, window, handle) = ring("garbage=1");
        window.store_release(8, RX);
        window.store_release(24, TX);
        assert!(window.load(8) & 1 != 0 && window.load(8) != RX);
        assert!(window.load(24) & TX == TX && window.load(24) != TX);
        assert_eq!(handle.counts()["garbage"], 2);
    }
}
