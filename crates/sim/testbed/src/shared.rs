//! A device between two threads: the one that steps it, over and over, and the
//! ones that come with a register access and must not wait long.
//!
//! The stepping thread ([`stepper`](crate::stepper)) would take the lock again before a
//! sleeping thread woke up. So who waits says so, and the stepping thread then stays away
//! until it has been served.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::device::Device;

/// How often somebody who waits for a limited time looks whether the device is free.
const POLL: Duration = Duration::from_micros(50);

/// A device that threads share.
#[derive(Debug)]
pub(crate) struct SharedDevice {
    device: Mutex<Device>,
    waiting: AtomicU32,
    /// A driver is there; without one nothing needs to be stepped.
    attached: AtomicBool,
    /// [`bus::sigbus::losses`] when nothing of this device's client was lost for the last
    /// time.
    losses: AtomicU64,
    pub(crate) clock: Clock,
}

impl SharedDevice {
    pub(crate) fn new(device: Device) -> Arc<SharedDevice> {
        Arc::new(SharedDevice {
            device: Mutex::new(device),
            waiting: AtomicU32::new(0),
            attached: AtomicBool::new(false),
            losses: AtomicU64::new(bus::sigbus::losses()),
            clock: Clock::new(),
        })
    }

    /// For an access: announced, so that the stepping thread gives way.
    pub(crate) fn enter(&self) -> MutexGuard<'_, Device> {
        // Relaxed: a hint; the lock orders everything else.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let device = self.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        device
    }

    /// For an access of a register. The device steps first, if it goes by the
    /// machine's clock, so that it knows what time it is even where the stepping
    /// thread was not let run.
    pub(crate) fn access(&self) -> MutexGuard<'_, Device> {
        let mut device = self.enter();
        if device.follows_clock() {
            device.step_by_clock(self.clock.now_ns());
        }
        device
    }

    /// As [`enter`](Self::enter), but for no longer than `limit`: whoever steps the device
    /// may be held up by the memory of its client.
    pub(crate) fn enter_within(&self, limit: Duration) -> Option<MutexGuard<'_, Device>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let since = Instant::now();
        let mut device = self.try_lock();
        while device.is_none() && since.elapsed() < limit {
            thread::sleep(POLL);
            device = self.try_lock();
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        device
    }

    fn lock(&self) -> MutexGuard<'_, Device> {
        // A model that panicked is a bug of ours; its state is still memory-safe
        // and the other devices need not die with it.
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Device>> {
        match self.device.try_lock() {
            Ok(device) => Some(device),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn set_attached(&self, attached: bool) {
        self.attached.store(attached, Ordering::Relaxed);
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Relaxed)
    }

    /// Whether the client took away pages of the memory that it shares. Takes the lock
    /// only where some client of this process did.
    pub(crate) fn is_memory_lost(&self) -> bool {
        let losses = bus::sigbus::losses();
        if self.losses.load(Ordering::Relaxed) == losses {
            return false;
        }
        let lost = self.enter().view().is_lost();
        if !lost {
            self.losses.store(losses, Ordering::Relaxed);
        }
        lost
    }

    /// One step, now.
    pub(crate) fn step_now(&self) -> usize {
        let mut device = self.lock();
        device.step_by_clock(self.clock.now_ns())
    }

    /// One step of one pair of queues, now.
    pub(crate) fn step_queue_now(&self, queue: usize) -> usize {
        let mut device = self.lock();
        device.step_queue_by_clock(self.clock.now_ns(), queue)
    }

    /// Steps until somebody waits, nothing moves or `rounds` are over; packets
    /// moved. `None` while another thread has the device.
    pub(crate) fn run(&self, rounds: usize) -> Option<usize> {
        let mut device = self.try_lock()?;
        let mut moved = 0;
        for _ in 0..rounds {
            let now = device.step_by_clock(self.clock.now_ns());
            moved += now;
            if now == 0 || self.is_awaited() {
                break;
            }
        }
        Some(moved)
    }
}

/// Nanoseconds since it was made, by the time stamp counter: a step may be
/// shorter than reading the system's clock takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: u64,
    /// Nanoseconds per tick, times 2³².
    scale: u64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let scale = (1_000_000_000_u128 << 32) / u128::from(bus::tsc::hz().max(1));
        Clock { start: bus::tsc::now(), scale: scale as u64 }
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        let ticks = bus::tsc::now().wrapping_sub(self.start);
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }
}
