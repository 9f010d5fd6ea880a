//! One thread: it polls its pollers in turn and, at the end, takes the rings down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use memory::{Batch, Pool};
use rustix::event::{PollFd, PollFlags};

use crate::{Error, Instant, OnPanic, Options, Poller, PollerStats, Progress, Queue, Wakeup, cores, sleep};

/// Turns of each poller between two looks at the stop flag.
const TURNS: usize = 64;
/// Idle looks before a thread sleeps or yields.
const IDLE: usize = 64;
/// The longest sleep of a thread that polls and expects no packets.
const RESTING: Duration = Duration::from_millis(10);
/// How long devices may take in the end to send another of the packets that they were given,
/// and how often they are asked meanwhile at least: on a busy machine few looks fit the time.
const DRAIN: (Duration, u32) = (Duration::from_millis(200), 64);
/// How long they may take for all.
const DRAIN_ALL: Duration = Duration::from_secs(2);

/// What all threads share.
pub(crate) struct Control {
    pub stop: Arc<AtomicBool>,
    pub progress: Arc<Progress>,
    /// One for each thread.
    pub wakeups: Vec<Wakeup>,
    /// Ends the run once so many packets were moved.
    pub count: u64,
}

impl Control {
    /// Ends all threads, those that sleep as well.
    pub fn end(&self) {
        // Relaxed: threads that poll may see it a little later, and those that sleep find it
        // after the wake-up, whose system calls order it.
        self.stop.store(true, Ordering::Relaxed);
        self.wakeups.iter().for_each(Wakeup::wake);
    }
}

/// Counts a thread as working as long as it lives.
struct AtWork(Arc<Progress>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread's part.
pub(crate) struct Worker {
    pollers: Vec<Box<dyn Poller>>,
    pool: Pool,
    batch: Batch,
    core: Option<usize>,
    /// The longest sleep. None where threads are to poll, and from the time on at which a
    /// queue turned out to have no interrupt.
    sleep: Option<Duration>,
    /// Those that pollers have.
    wakeups: Vec<Arc<Wakeup>>,
    /// Its place among the threads.
    index: usize,
    /// Losses that were shown already.
    shown: [u64; 3],
    control: Arc<Control>,
    _at_work: AtWork,
}

/// What one thread brings back.
pub(crate) struct Ended {
    pub pollers: Vec<PollerStats>,
    /// To be counted once nobody else holds its buffers.
    pub pool: Pool,
    pub failure: Option<Error>,
}

impl Worker {
    pub fn new(
        pool: Pool,
        pollers: Vec<Box<dyn Poller>>,
        options: &Options,
        index: usize,
        control: &Arc<Control>,
    ) -> Worker {
        control.progress.working.fetch_add(1, Ordering::Relaxed);
        Worker {
            wakeups: pollers.iter().filter_map(|poller| poller.wakeup()).collect(),
            pollers,
            pool,
            batch: Batch::with_limit(options.batch),
            core: options.cores.get(index).copied(),
            sleep: options.sleep,
            index,
            shown: [0; 3],
            control: control.clone(),
            _at_work: AtWork(control.progress.clone()),
        }
    }

    /// Gives receive rings their buffers and waits to be let go; then polls until all its pollers
    /// are done, one fails or the run is ended.
    pub fn run(mut self, wait: impl FnOnce()) -> Ended {
        let control = self.control.clone();
        let _others = OnPanic(|| control.end());
        if let Some(core) = self.core
            && !cores::pin(core)
        {
            tracing::warn!(core, "cannot pin a thread to this core");
        }
        self.fill();
        wait();
        let mut idle = 0;
        let mut failure = None;
        while !self.control.stop.load(Ordering::Relaxed) {
            let moved = self.turns();
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle >= IDLE {
                self.rest();
            }
            failure = self.pollers.iter_mut().find_map(|poller| poller.failure()).map(Error::Poller);
            if failure.is_some()
                || self.control.progress.packets.load(Ordering::Relaxed) >= self.control.count
            {
                self.control.end();
            }
            if self.pollers.iter().all(|poller| poller.is_done()) {
                break;
            }
        }
        self.finish(failure)
    }

    /// Fills the rings of its receive queues, and takes no packet.
    fn fill(&mut self) {
        let (pool, mut none) = (&mut self.pool, Batch::with_limit(0));
        for poller in &mut self.pollers {
            poller.queues(&mut |queue| {
                if let Queue::Rx(rx) = queue {
                    rx.recv(pool, &mut none);
                }
            });
        }
    }

    /// Some turns of each poller; packets moved.
    fn turns(&mut self) -> usize {
        let (mut packets, mut empty, mut busy) = (0, 0, 0);
        let mut now = Instant::now();
        for _ in 0..TURNS {
            for poller in &mut self.pollers {
                let moved = poller.turn(now, &mut self.pool, &mut self.batch);
                let before = std::mem::replace(&mut now, Instant::now());
                if moved > 0 {
                    // Saturating: another core's counter may be behind.
                    busy += now.ticks().saturating_sub(before.ticks());
                } else {
                    empty += 1;
                }
                packets += moved;
            }
        }
        let progress = &self.control.progress;
        progress.packets.fetch_add(packets as u64, Ordering::Relaxed);
        progress.turns.fetch_add((TURNS * self.pollers.len()) as u64, Ordering::Relaxed);
        progress.empty.fetch_add(empty, Ordering::Relaxed);
        progress.busy.fetch_add(busy, Ordering::Relaxed);
        self.show_losses();
        packets
    }

    /// Adds what was lost since the last time.
    fn show_losses(&mut self) {
        let mut lost = [0; 3];
        for poller in &mut self.pollers {
            let refused_is_lost = !poller.retries();
            poller.queues(&mut |queue| match queue {
                Queue::Rx(rx) => lost[1] += rx.stats().bad_descriptor,
                Queue::Tx(tx) => {
                    let tx = tx.stats();
                    lost[0] += if refused_is_lost { tx.ring_full } else { 0 };
                    lost[2] += tx.unsendable;
                }
            });
        }
        for ((shown, now), total) in self.shown.iter_mut().zip(lost).zip(&self.control.progress.lost) {
            if now != *shown {
                total.fetch_add(now - *shown, Ordering::Relaxed);
                *shown = now;
            }
        }
    }

    /// Nothing has come for a while: sleeps until something does, or lets others run.
    fn rest(&mut self) {
        let Some(longest) = self.sleep.filter(|_| self.can_be_woken()) else {
            return match self.pollers.iter().all(|poller| poller.rests()) {
                true => self.sleep_for(self.until_deadline(RESTING)),
                false => thread::yield_now(),
            };
        };
        if self.arm().is_none() {
            self.sleep = None; // a queue without an interrupt is polled
        } else if self.turns() == 0 {
            // What came before the interrupts were armed does not signal again: the turns
            // looked for it.
            let left = self.until_deadline(longest);
            if !left.is_zero() {
                self.sleep_for(left);
            }
        }
        self.each_rx(|rx| rx.disarm());
    }

    /// The time until a poller must have a turn, or so much.
    fn until_deadline(&self, longest: Duration) -> Duration {
        let first = self.pollers.iter().filter_map(|poller| poller.deadline()).min();
        first.map_or(longest, |deadline| deadline.since(Instant::now()).min(longest))
    }

    /// Whether each poller has something that wakes it: one that only sends wants turns.
    fn can_be_woken(&mut self) -> bool {
        self.pollers.iter_mut().all(|poller| {
            let mut receives = false;
            poller.queues(&mut |queue| receives |= matches!(queue, Queue::Rx(_)));
            receives || poller.deadline().is_some() || poller.wakeup().is_some()
        })
    }

    /// Until a packet, a call of a wake-up, or so much time.
    fn sleep_for(&mut self, time: Duration) {
        let (control, index, wakeups) = (self.control.clone(), self.index, self.wakeups.clone());
        let calls = || wakeups.iter().map(|wakeup| &**wakeup).chain([&control.wakeups[index]]);
        let mut files = self.arm().unwrap_or_default();
        files.extend(calls().map(|wakeup| PollFd::new(wakeup, PollFlags::IN)));
        // Woken, timed out or interrupted: the next turn looks.
        if sleep(&mut files, Some(time)) {
            calls().for_each(Wakeup::clear);
        }
    }

    /// Arms the interrupts of all receive queues; `None` if one has none.
    fn arm(&mut self) -> Option<Vec<PollFd<'_>>> {
        let mut files = Some(Vec::new());
        for poller in &mut self.pollers {
            poller.queues(&mut |queue| {
                let Queue::Rx(rx) = queue else { return };
                match (rx.arm(), &mut files) {
                    (Some(file), Some(files)) => files.push(PollFd::from_borrowed_fd(file, PollFlags::IN)),
                    _ => files = None,
                }
            });
        }
        files
    }

    fn each_rx(&mut self, mut work: impl FnMut(&mut dyn port::RxQueue)) {
        for poller in &mut self.pollers {
            poller.queues(&mut |queue| {
                if let Queue::Rx(rx) = queue {
                    work(rx);
                }
            });
        }
    }

    /// Lets the devices send what they have, then takes the rings down.
    fn finish(self, failure: Option<Error>) -> Ended {
        let Worker { mut pollers, mut pool, mut batch, .. } = self;
        let mut sending = || {
            let mut with_devices = 0;
            for poller in &mut pollers {
                poller.queues(&mut |queue| {
                    if let Queue::Tx(tx) = queue {
                        with_devices += tx.clean(&mut pool);
                    }
                });
            }
            with_devices
        };
        let begin = Instant::now();
        let (mut left, mut moved, mut looks) = (sending(), begin, 0);
        while left > 0
            && (Instant::now().since(moved) < DRAIN.0 || looks < DRAIN.1)
            && Instant::now().since(begin) < DRAIN_ALL
        {
            thread::yield_now();
            looks += 1;
            let before = std::mem::replace(&mut left, sending());
            if left < before {
                (moved, looks) = (Instant::now(), 0);
            }
        }
        let stats = pollers.iter_mut().map(|poller| PollerStats::of(&mut **poller)).collect();
        drop(pollers);
        pool.free_batch(&mut batch);
        Ended { pollers: stats, pool, failure }
    }
}
