//! A device between two threads: the one that steps it, over and over, and the
//! ones that come with a register access and must not wait long.
//!
//! The stepping thread would take the lock again before a sleeping thread woke
//! up. So who waits says so, and the stepping thread then stays away until it
//! has been served.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::device::Device;

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
    clock: Clock,
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

    fn lock(&self) -> MutexGuard<'_, Device> {
        // A model that panicked is a bug of ours; its state is still memory-safe
        // and the other devices need not die with it.
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_awaited(&self) -> bool {
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

    /// Steps until somebody waits, nothing moves or `rounds` are over; packets
    /// moved.
    fn run(&self, rounds: usize) -> usize {
        let mut device = self.lock();
        let mut moved = 0;
        for _ in 0..rounds {
            let now = device.step_by_clock(self.clock.now_ns());
            moved += now;
            if now == 0 || self.is_awaited() {
                break;
            }
        }
        moved
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

/// What the stepping thread does when nothing moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Asks again at once.
    Spin,
    /// Lets others run after a while: for machines with few cores.
    #[default]
    Yield,
    /// Sleeps 50 µs after a while: hardly any load, slow to wake.
    Sleep,
}

/// Steps of a device before the next one's turn.
const ROUNDS: usize = 8;
/// Rounds without a packet before the thread gives way.
const EMPTY_ROUNDS: u32 = 2_000;
const SLEEP: Duration = Duration::from_micros(50);
/// How long a thread that waits for the lock is given before stepping goes on: many
/// turns of other threads, where each core has several.
const GIVE_WAY: Duration = Duration::from_millis(50);
/// Yields to a waiting thread before the stepping thread sleeps instead.
const YIELDS: u32 = 32;

/// A thread that steps devices until it is dropped.
#[derive(Debug)]
pub struct Stepper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stepper {
    pub(crate) fn start(
        devices: Vec<Arc<SharedDevice>>,
        core: Option<usize>,
        idle: Idle,
    ) -> std::io::Result<Stepper> {
        // From now on, not from the first step: accesses may come before the
        // thread is let run.
        devices.iter().for_each(|shared| shared.enter().follow_clock(shared.clock.now_ns()));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("model".to_owned()).spawn(move || {
            if let Some(core) = core {
                pin(core);
            }
            step_all(&devices, idle, &stopped);
        })?;
        Ok(Stepper { stop, thread: Some(thread) })
    }

    /// Stops the thread and waits for it.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        self.stop();
    }
}

fn pin(core: usize) {
    if core >= rustix::thread::CpuSet::MAX_CPU {
        tracing::warn!(core, "no such core, not pinned");
        return;
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(core, "cannot pin the stepping thread: {error}");
    }
}

fn step_all(devices: &[Arc<SharedDevice>], idle: Idle, stop: &AtomicBool) {
    let mut empty = 0;
    while !stop.load(Ordering::Relaxed) {
        let (mut moved, mut attached) = (0, false);
        for shared in devices {
            if !shared.is_attached() {
                continue;
            }
            attached = true;
            give_way(shared);
            moved += shared.run(ROUNDS);
        }
        empty = if moved > 0 { 0 } else { empty + 1 };
        match idle {
            _ if !attached => thread::sleep(SLEEP),
            Idle::Spin => std::hint::spin_loop(),
            _ if empty < EMPTY_ROUNDS => std::hint::spin_loop(),
            Idle::Yield => thread::yield_now(),
            Idle::Sleep => thread::sleep(SLEEP),
        }
        empty = empty.min(EMPTY_ROUNDS);
    }
}

/// Stays away from the lock while somebody waits for it.
fn give_way(shared: &SharedDevice) {
    if !shared.is_awaited() {
        return;
    }
    let (since, mut yields) = (Instant::now(), 0);
    // The waiting thread may share this core: yield, but not for ever. On a busy
    // machine a yield may come back before the waiting thread's turn, again and again;
    // a sleep does not.
    while shared.is_awaited() && since.elapsed() < GIVE_WAY {
        if yields < YIELDS {
            yields += 1;
            thread::yield_now();
        } else {
            thread::sleep(SLEEP);
        }
    }
}
