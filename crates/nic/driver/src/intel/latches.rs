//! Places in a device that keep the times of some received frames until they are read.
//!
//! A descriptor tells that there is a time, and in which place. A place is given free when the upper half
//! of its time is read, and a device whose places are all taken stamps nothing. The time of a frame that
//! found no descriptor, or that a virtual function has, is read by nobody: a place is given free that was
//! taken for a second. A frame that waits in its ring for longer than that is one without a time, or has
//! that of another, later one.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bus::Register;

/// For so long a place may be taken; between one look at the places and the next.
pub(super) const KEPT: Duration = Duration::from_secs(1);

/// The places, which all queues of a port have in common.
#[derive(Debug)]
pub struct Latches(Mutex<Places>);

#[derive(Debug)]
struct Places {
    /// Which of them are taken, a bit each.
    taken: Register,
    /// Both halves of each, the lower one first.
    times: Vec<[Register; 2]>,
    /// Those that were taken at the last look, and that no frame was told to have since.
    waiting: u32,
    looked: Option<Instant>,
}

impl Latches {
    /// Places with these registers.
    pub fn new(taken: Register, times: Vec<[Register; 2]>) -> Latches {
        Latches(Mutex::new(Places { taken, times, waiting: 0, looked: None }))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives all of them free.
    pub fn clear(&self) {
        let places = &mut *self.places();
        places.times.iter().for_each(|[_, upper]| _ = upper.read());
        (places.waiting, places.looked) = (0, None);
    }

    /// The time in a place, which is free from then on; `None` where there is none.
    pub fn take(&self, n: usize) -> Option<u64> {
        let places = &mut *self.places();
        let [lower, upper] = places.times.get(n)?;
        if places.taken.read() >> n & 1 == 0 {
            return None;
        }
        let lower = lower.read();
        places.waiting &= !(1 << n);
        Some(u64::from(upper.read()) << 32 | u64::from(lower))
    }

    /// Gives those free that were taken at the last look already, if that is long enough ago.
    pub fn give_free(&self) {
        let places = &mut *self.places();
        if places.looked.is_some_and(|at| at.elapsed() < KEPT) {
            return;
        }
        let taken = places.taken.read();
        let old = mem::replace(&mut places.waiting, 0) & taken;
        for (_, [_, upper]) in (0..).zip(&places.times).filter(|(n, _)| old >> n & 1 != 0) {
            upper.read();
        }
        (places.waiting, places.looked) = (taken & !old, Some(Instant::now()));
    }
}
