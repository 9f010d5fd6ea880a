//! One thread of an application: it polls its pieces of work in turn and, at
//! the end, takes the rings down and counts the buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memory::{Batch, Pool};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::{Piece, Progress, Work};
use crate::Failure;
use crate::cli::PortOptions;

/// Turns between two looks at the clock and the stop flag.
const TURNS: usize = 64;
/// Idle looks before a thread sleeps on interrupts.
const IDLE: usize = 64;
/// How long it sleeps before it looks at the stop flag again.
const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A thread's part.
pub(super) struct Worker {
    work: Vec<Box<dyn Work>>,
    pool: Pool,
    batch: Batch,
    core: Option<usize>,
    interrupts: bool,
    /// Ends the run once so many packets were moved by all threads.
    count: u64,
    /// Losses that were shown already.
    shown: [u64; 3],
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    _at_work: AtWork,
}

/// What one thread brings back.
pub(super) struct Finished {
    pub pieces: Vec<Piece>,
    /// To be counted once nobody else holds its buffers.
    pub pool: Pool,
    pub failure: Option<Failure>,
}

/// Counts a thread as working as long as it lives; one that panics ends all.
struct AtWork(Arc<Progress>, Arc<AtomicBool>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
        if thread::panicking() {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

impl Worker {
    pub(super) fn new(
        pool: Pool,
        work: Vec<Box<dyn Work>>,
        options: &PortOptions,
        index: usize,
        stop: &Arc<AtomicBool>,
        progress: &Arc<Progress>,
    ) -> Worker {
        progress.working.fetch_add(1, Ordering::Relaxed);
        Worker {
            work,
            pool,
            batch: Batch::with_limit(options.batch.into()),
            core: options.cpu.get(index).copied(),
            interrupts: options.interrupts,
            count: options.count.unwrap_or(u64::MAX),
            shown: [0; 3],
            progress: progress.clone(),
            stop: stop.clone(),
            _at_work: AtWork(progress.clone(), stop.clone()),
        }
    }

    pub(super) fn run(mut self) -> Finished {
        if let Some(core) = self.core
            && !crate::bench::pin(core)
        {
            tracing::warn!(core, "cannot pin a thread to this core");
        }
        let mut idle = 0;
        let mut failure = None;
        while !self.stop.load(Ordering::Relaxed) {
            let moved = self.turns();
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle >= IDLE {
                self.rest();
            }
            failure = self.work.iter_mut().find_map(|piece| piece.failure());
            if failure.is_some() || self.progress.packets.load(Ordering::Relaxed) >= self.count {
                self.stop.store(true, Ordering::Relaxed); // the other threads too
            }
            if self.work.iter().all(|piece| piece.is_done()) {
                break;
            }
        }
        self.finish(failure)
    }

    /// Some turns of each piece; packets moved.
    fn turns(&mut self) -> usize {
        let (mut packets, mut empty, mut busy) = (0, 0, 0);
        let mut last = bus::tsc::now();
        for _ in 0..TURNS {
            for piece in &mut self.work {
                let moved = piece.turn(&mut self.pool, &mut self.batch);
                let now = bus::tsc::now();
                if moved > 0 {
                    // Saturating: another core's counter may be behind.
                    busy += now.saturating_sub(last);
                } else {
                    empty += 1;
                }
                packets += moved;
                last = now;
            }
        }
        let p = &self.progress;
        p.packets.fetch_add(packets as u64, Ordering::Relaxed);
        p.turns.fetch_add((TURNS * self.work.len()) as u64, Ordering::Relaxed);
        p.empty.fetch_add(empty, Ordering::Relaxed);
        p.busy.fetch_add(busy, Ordering::Relaxed);
        self.show_losses();
        packets
    }

    /// Adds what was lost since the last time.
    fn show_losses(&mut self) {
        let mut lost = [0; 3];
        for piece in &mut self.work {
            let queues = piece.queues();
            let (rx, tx) = (queues.rx.map(|rx| rx.stats()), queues.tx.map(|tx| tx.stats()));
            // Who only sends tries again: a full ring loses it nothing.
            if let (Some(_), Some(tx)) = (rx, tx) {
                lost[0] += tx.ring_full;
            }
            lost[1] += rx.map_or(0, |rx| rx.bad_descriptor);
            lost[2] += tx.map_or(0, |tx| tx.unsendable);
        }
        for ((shown, now), total) in self.shown.iter_mut().zip(lost).zip(&self.progress.lost) {
            if now != *shown {
                total.fetch_add(now - *shown, Ordering::Relaxed);
                *shown = now;
            }
        }
    }

    /// Nothing has come for a while: sleeps until something does, or lets
    /// others run. Work that only sends has nothing to be woken by.
    fn rest(&mut self) {
        if !self.interrupts || self.arm().is_empty() {
            thread::yield_now();
            return;
        }
        // What came before the interrupt was armed does not signal again.
        if self.turns() == 0 {
            let mut fds = self.arm();
            // Woken, timed out or interrupted: the next turn looks.
            let _ = rustix::event::poll(&mut fds, Some(&SLEEP));
        }
        for piece in &mut self.work {
            if let Some(rx) = piece.queues().rx {
                rx.disarm();
            }
        }
    }

    /// Arms the interrupt of every receive queue that has one.
    fn arm(&mut self) -> Vec<PollFd<'_>> {
        let signals = self.work.iter_mut().filter_map(|piece| piece.queues().rx?.arm());
        signals.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect()
    }

    /// Lets the device send what it has, then takes the rings down.
    fn finish(self, failure: Option<Failure>) -> Finished {
        let Worker { mut work, mut pool, mut batch, .. } = self;
        let deadline = Instant::now() + Duration::from_millis(200);
        let mut sending = || {
            let queues = work.iter_mut().filter_map(|piece| piece.queues().tx);
            queues.map(|tx| tx.clean(&mut pool)).sum::<usize>()
        };
        while sending() > 0 && Instant::now() < deadline {
            thread::yield_now();
        }
        let counted = work.iter_mut().map(|piece| {
            let queues = piece.queues();
            Piece { rx: queues.rx.map(|rx| rx.stats()), tx: queues.tx.map(|tx| tx.stats()) }
        });
        let pieces = counted.collect();
        drop(work);
        pool.free_batch(&mut batch);
        Finished { pieces, pool, failure }
    }
}
