//! The threads that step devices: one for all, and one for each device of clients that do
//! not trust each other.
//!
//! Touching memory that a client shares may take long: while the client punches a hole into
//! it (fallocate(2)), whoever touches a page of the hole waits in the kernel. A register
//! access that steps the device waits likewise, with the device's lock. So the stepping
//! thread waits for no lock, and says when it turns to the next device; where it does not do so
//! for a while, the threads of the other devices step theirs. A device at which it was held
//! up for too long altogether is stepped by its own thread alone from then on. Devices of one
//! client have no other thread, and the stepping thread never leaves one of them out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::shared::SharedDevice;

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
/// How long the stepping thread may be at one device before others are stepped without it.
const HELD_UP: Duration = Duration::from_millis(5);
/// A turn longer than this, in which pages were missing, counts as one that was held up.
const LONG_TURN: Duration = Duration::from_millis(1);
/// How long a device may hold the stepping thread up, in all such turns together. Memory
/// that is touched for the first time takes less.
const MOST_HELD_UP: Duration = Duration::from_millis(50);
/// How long the end of a thread is waited for that may be held up.
const END: Duration = Duration::from_secs(5);

/// Threads that step devices until this is dropped.
#[derive(Debug)]
pub struct Stepper {
    stop: Arc<AtomicBool>,
    rounds: Arc<CountedRounds>,
    threads: Vec<JoinHandle<()>>,
}

/// Rounds of a stepping thread over its devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rounds {
    /// All rounds that were made.
    pub all: u64,
    /// Those in which no device moved a packet.
    pub empty: u64,
}

impl Rounds {
    /// Share of the rounds since `before` that moved nothing; all, where there were none.
    pub fn idle_since(self, before: Rounds) -> f64 {
        match self.all.saturating_sub(before.all) {
            0 => 1.0,
            all => self.empty.saturating_sub(before.empty) as f64 / all as f64,
        }
    }
}

/// The same, as the one thread that counts them shares them.
#[derive(Debug, Default)]
struct CountedRounds {
    all: AtomicU64,
    empty: AtomicU64,
}

impl CountedRounds {
    fn add(&self, is_empty: bool) {
        // One thread writes; who reads wants no more than figures.
        self.all.store(self.all.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.empty.store(self.empty.load(Ordering::Relaxed) + u64::from(is_empty), Ordering::Relaxed);
    }
}

/// A device as its stepping threads see it.
struct SteppedDevice {
    shared: Arc<SharedDevice>,
    /// Only its own thread steps it.
    apart: AtomicBool,
}

impl Stepper {
    /// Steps devices in one thread: those of one client, who has only himself to hold up.
    pub(crate) fn start(
        devices: Vec<Arc<SharedDevice>>,
        core: Option<usize>,
        idle: Idle,
    ) -> std::io::Result<Stepper> {
        let mut stepper = Stepper::new();
        stepper.step_all(turns(devices), core, idle, None)?;
        Ok(stepper)
    }

    /// Steps devices of clients of which none may hold up another's.
    pub(crate) fn for_strangers(
        devices: Vec<Arc<SharedDevice>>,
        core: Option<usize>,
        idle: Idle,
    ) -> std::io::Result<Stepper> {
        let (mut stepper, turn, devices) = (Stepper::new(), Arc::new(AtomicU64::new(0)), turns(devices));
        let strangers = devices.len() > 1;
        stepper.step_all(devices.clone(), core, idle, strangers.then(|| turn.clone()))?;
        if strangers {
            for n in 0..devices.len() {
                let (devices, turn) = (devices.clone(), turn.clone());
                let stop = stepper.stop.clone();
                stepper.spawn("stand-in", move || stand_in(&devices[n], idle, &turn, &stop))?;
            }
        }
        Ok(stepper)
    }

    fn new() -> Stepper {
        Stepper { stop: Arc::default(), rounds: Arc::default(), threads: Vec::new() }
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    fn step_all(
        &mut self,
        devices: Arc<[SteppedDevice]>,
        core: Option<usize>,
        idle: Idle,
        turn: Option<Arc<AtomicU64>>,
    ) -> std::io::Result<()> {
        let (stop, rounds) = (self.stop.clone(), self.rounds.clone());
        self.spawn("model", move || {
            if let Some(core) = core {
                pin(core);
            }
            step_all(&devices, idle, turn.as_deref(), &stop, &rounds);
        })
    }

    /// Rounds of the thread that steps all devices, up to now.
    pub fn rounds(&self) -> Rounds {
        let CountedRounds { all, empty } = &*self.rounds;
        Rounds { all: all.load(Ordering::Relaxed), empty: empty.load(Ordering::Relaxed) }
    }

    /// Stops the threads and waits for them; for one that a client's memory holds up, some
    /// seconds.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| join(thread, END));
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for the end of a thread, but not for ever.
pub(crate) fn join(thread: JoinHandle<()>, limit: Duration) {
    let since = Instant::now();
    while !thread.is_finished() {
        if since.elapsed() >= limit {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            return tracing::warn!(name, "a thread does not end: a client's memory holds it up");
        }
        thread::sleep(SLEEP);
    }
    let _ = thread.join();
}

fn turns(devices: Vec<Arc<SharedDevice>>) -> Arc<[SteppedDevice]> {
    // From now on, not from the first step: accesses may come before the thread is let run.
    devices.iter().for_each(|shared| shared.enter().follow_clock(shared.clock.now_ns()));
    devices.into_iter().map(|shared| SteppedDevice { shared, apart: AtomicBool::new(false) }).collect()
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

/// Steps devices in turn. Where each has a thread of its own as well, `turn` tells those
/// threads that this one goes on, and devices that hold it up are left to them.
fn step_all(
    devices: &[SteppedDevice],
    idle: Idle,
    turn: Option<&AtomicU64>,
    stop: &AtomicBool,
    rounds: &CountedRounds,
) {
    let mut empty = 0;
    let mut strangers = turn.map(|turn| (turn, Watch::new(devices.len())));
    while !stop.load(Ordering::Relaxed) {
        let (mut moved, mut attached) = (0, false);
        for (n, SteppedDevice { shared, apart }) in devices.iter().enumerate() {
            // Relaxed, here and in the stand-ins: these only tell who is to step, what is
            // stepped has its lock.
            let is_attached = shared.is_attached();
            if let Some((turn, watch)) = &mut strangers {
                turn.fetch_add(1, Ordering::Relaxed);
                if !is_attached {
                    // The next client has not held anybody up yet.
                    apart.store(false, Ordering::Relaxed);
                    watch.held_up[n] = 0;
                }
            }
            if !is_attached || apart.load(Ordering::Relaxed) {
                continue;
            }
            attached = true;
            give_way(shared);
            let since = bus::tsc::now();
            moved += shared.run(ROUNDS).unwrap_or(0);
            if strangers.as_mut().is_some_and(|(_, watch)| watch.is_too_much(n, since)) {
                apart.store(true, Ordering::Relaxed);
            }
        }
        rounds.add(moved == 0);
        empty = if moved > 0 { 0 } else { empty + 1 };
        rest(attached, empty, idle);
        empty = empty.min(EMPTY_ROUNDS);
    }
}

/// What a thread does after a round; `empty` is how many rounds moved nothing.
fn rest(attached: bool, empty: u32, idle: Idle) {
    match idle {
        _ if !attached => thread::sleep(SLEEP),
        Idle::Spin => std::hint::spin_loop(),
        _ if empty < EMPTY_ROUNDS => std::hint::spin_loop(),
        Idle::Yield => thread::yield_now(),
        Idle::Sleep => thread::sleep(SLEEP),
    }
}

/// How long each device held the stepping thread up.
struct Watch {
    long_turn: u64,
    most: u64,
    held_up: Vec<u64>,
    page_faults: u64,
}

impl Watch {
    fn new(devices: usize) -> Watch {
        let ticks = |time: Duration| (u128::from(bus::tsc::hz()) * time.as_micros() / 1_000_000) as u64;
        let (long_turn, most) = (ticks(LONG_TURN), ticks(MOST_HELD_UP));
        Watch { long_turn, most, held_up: vec![0; devices], page_faults: bus::sigbus::page_faults() }
    }

    /// Whether device `n`, whose turn began at `since`, has held the thread up for too long.
    /// A turn may be long, too, because the thread was not let run: then no page was missing.
    #[inline]
    fn is_too_much(&mut self, n: usize, since: u64) -> bool {
        let took = bus::tsc::now().wrapping_sub(since);
        took >= self.long_turn && self.add(n, took)
    }

    #[cold]
    fn add(&mut self, n: usize, took: u64) -> bool {
        let page_faults = bus::sigbus::page_faults();
        if std::mem::replace(&mut self.page_faults, page_faults) == page_faults {
            return false;
        }
        self.held_up[n] = self.held_up[n].saturating_add(took);
        self.held_up[n] > self.most
    }
}

/// Steps a device while the stepping thread is held up at another, or always where the
/// device holds it up itself.
fn stand_in(device: &SteppedDevice, idle: Idle, turn: &AtomicU64, stop: &AtomicBool) {
    let (SteppedDevice { shared, apart }, mut empty) = (device, 0);
    let mut seen = turn.load(Ordering::Relaxed);
    thread::sleep(HELD_UP); // by then the stepping thread has had its turn, or is held up
    while !stop.load(Ordering::Relaxed) {
        let now = turn.load(Ordering::Relaxed);
        let is_own = apart.load(Ordering::Relaxed);
        if !shared.is_attached() || (now != seen && !is_own) {
            (seen, empty) = (now, 0);
            thread::sleep(HELD_UP);
            continue;
        }
        give_way(shared);
        let Some(moved) = shared.run(ROUNDS) else {
            thread::sleep(SLEEP);
            continue;
        };
        empty = if moved > 0 { 0 } else { (empty + 1).min(EMPTY_ROUNDS) };
        rest(true, empty, idle);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use model::Chip;

    use super::*;
    use crate::device::{Device, Edge, Parts, Vectors};
    use crate::view::{Trust, View};
    use crate::wire::Cable;

    fn attached() -> Arc<SharedDevice> {
        let cable = Cable::open(&"sink".parse().unwrap()).unwrap();
        let device: Device = crate::virtio::open(&Default::default(), cable);
        let shared = SharedDevice::new(device);
        shared.set_attached(true);
        shared
    }

    fn steps(shared: &SharedDevice) -> u64 {
        shared.enter().report().steps
    }

    /// Waits until a device was stepped some more.
    fn is_stepped(shared: &SharedDevice) {
        let (before, since) = (steps(shared), Instant::now());
        while steps(shared) < before + 100 {
            assert!(since.elapsed() < Duration::from_secs(30), "it is not stepped");
            thread::sleep(SLEEP);
        }
    }

    /// A device whose every turn is long, and touches memory that was not there yet.
    #[derive(Default)]
    struct Slow(Arc<Turned>);

    /// Its turns, by the thread that stepped it.
    #[derive(Default)]
    struct Turned {
        shared: AtomicU64,
        own: AtomicU64,
    }

    impl Chip<Edge> for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }
        fn read(&mut self, _: u32) -> u32 {
            0
        }
        fn write(&mut self, _: u32, _: u32) {}
        fn step(&mut self, _: &mut Edge, _: u64) -> usize {
            miss_a_page();
            thread::sleep(2 * LONG_TURN);
            let is_own = thread::current().name() == Some("stand-in");
            let turns = if is_own { &self.0.own } else { &self.0.shared };
            turns.fetch_add(1, Ordering::Relaxed);
            0
        }
        fn reset(&mut self) {}
        fn counters(&mut self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
        fn drops(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    fn slow(slow: Slow) -> Arc<SharedDevice> {
        let shared = SharedDevice::new(Device::new(Parts {
            chip: Box::new(slow),
            shape: crate::ixgbe::shape(crate::ixgbe::DEVICE_SFP),
            view: View::new(Trust::Hostile),
            polled: None,
            vectors: Vectors::default(),
            edge: Edge::new(Cable::open(&"sink".parse().unwrap()).unwrap(), None),
            faults: None,
        }));
        shared.set_attached(true);
        shared
    }

    fn miss_a_page() {
        // More than the allocator keeps.
        std::hint::black_box(&mut vec![0_u8; 64 << 20])[1 << 20] = 1;
    }

    /// On a busy machine a thread that misses a page may wait for its processor as well, in
    /// which time it is held up by nobody.
    #[test]
    fn devices_of_one_client_are_stepped_however_long_their_turns_take() {
        let devices = [Slow::default(), Slow::default()].map(slow);
        let _stepper = Stepper::start(devices.to_vec(), None, Idle::Yield).unwrap();
        thread::sleep(4 * MOST_HELD_UP);
        devices.iter().for_each(|shared| is_stepped(shared));
    }

    /// A long turn takes 2 ms at least, however busy the machine is: 25 of them make 50 ms.
    #[test]
    fn a_client_that_holds_others_up_for_50_ms_is_stepped_apart() {
        const MOST: u64 = 50 / 2 + 1;
        let (turned, wait) = (Arc::<Turned>::default(), |what: &str, done: &dyn Fn() -> bool| {
            let since = Instant::now();
            while !done() {
                assert!(since.elapsed() < Duration::from_secs(60), "{what}");
                thread::sleep(SLEEP);
            }
        });
        let shared = || turned.shared.load(Ordering::Relaxed);
        let (slow, quick) = (slow(Slow(turned.clone())), attached());
        let devices = vec![slow.clone(), quick.clone()];
        let stepper = Stepper::for_strangers(devices, None, Idle::Yield).unwrap();
        let own = || turned.own.load(Ordering::Relaxed);
        let (mut before, mut enough) = (0, 2 * MOST);
        for client in 1..=2 {
            wait("it is not stepped apart", &|| own() >= enough);
            let held_up = shared() - before;
            assert!((1..=MOST).contains(&held_up), "client {client}: {held_up} turns with the others");
            is_stepped(&quick);
            assert_eq!(shared() - before, held_up, "apart from then on");
            // The next client has held nobody up.
            slow.set_attached(false);
            let rounds = stepper.rounds().all;
            wait("a round without it", &|| stepper.rounds().all > rounds + 1);
            (before, enough) = (shared(), own() + 2 * MOST);
            slow.set_attached(true);
        }
    }

    /// As a client's thread does that steps the device, which waits for its client's memory.
    #[test]
    fn a_device_that_somebody_has_stops_no_other() {
        let devices: Vec<_> = (0..3).map(|_| attached()).collect();
        for idle in [Idle::Spin, Idle::Yield, Idle::Sleep] {
            let mut stepper = Stepper::start(devices.clone(), None, idle).unwrap();
            for (n, shared) in devices.iter().enumerate() {
                let held = shared.enter();
                devices.iter().enumerate().filter(|(m, _)| *m != n).for_each(|(_, other)| is_stepped(other));
                drop(held);
                is_stepped(shared);
            }
            stepper.stop();
        }
    }

    /// The stepping thread is at a device, and does not come back.
    #[test]
    fn others_are_stepped_while_the_stepping_thread_is_held_up() {
        let (turn, stop) = (AtomicU64::new(7), AtomicBool::new(false));
        let devices = turns(vec![attached(), attached()]);
        /// Ends the threads, also where the test fails.
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        thread::scope(|scope| {
            let _ends = Ends(&stop);
            for device in &*devices {
                scope.spawn(|| stand_in(device, Idle::Yield, &turn, &stop));
            }
            let held = devices[0].shared.enter();
            is_stepped(&devices[1].shared);
            drop(held);
            is_stepped(&devices[0].shared);
            // It goes on: those who stand in for it end.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    turn.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(SLEEP);
                }
            });
            thread::sleep(4 * HELD_UP);
            // Twice, for one that was let run late.
            let rests = (0..100).any(|_| {
                let before = steps(&devices[0].shared);
                thread::sleep(2 * HELD_UP);
                steps(&devices[0].shared) == before
            });
            // One that is to be stepped by its own thread is.
            devices[1].apart.store(true, Ordering::Relaxed);
            is_stepped(&devices[1].shared);
            assert!(rests, "nobody stands in for a thread that goes on");
        });
    }

    #[test]
    fn long_turns_without_missing_pages_do_not_count() {
        let mut watch = Watch::new(2);
        let ago = |time: Duration| {
            let ticks = u128::from(bus::tsc::hz()) * time.as_micros() / 1_000_000;
            bus::tsc::now().wrapping_sub(ticks as u64)
        };
        (0..100).for_each(|_| _ = watch.is_too_much(0, ago(MOST_HELD_UP / 4)));
        miss_a_page();
        assert!(!watch.is_too_much(0, ago(LONG_TURN / 2)), "a short turn");
        for _ in 0..3 {
            miss_a_page();
            assert!(!watch.is_too_much(0, ago(MOST_HELD_UP / 4)));
        }
        miss_a_page();
        assert!(!watch.is_too_much(1, ago(MOST_HELD_UP / 4)), "each device for itself");
        miss_a_page();
        assert!(watch.is_too_much(0, ago(MOST_HELD_UP / 2)));
    }
}
