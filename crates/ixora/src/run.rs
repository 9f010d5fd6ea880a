//! Running an application: threads that poll, a main thread that watches, an end
//! that leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memory::{Batch, Pool};
use port::{RxQueue, RxStats, TxQueue, TxStats};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::cli::PortOptions;
use crate::open::Ports;
use crate::summary::Summary;
use crate::{Failure, live, signal};

/// The queues of a piece of work.
pub struct Queues<'a> {
    pub rx: Option<&'a mut dyn RxQueue>,
    pub tx: Option<&'a mut dyn TxQueue>,
}

/// What a thread does over and over.
pub trait Work: Send {
    /// One call of receive, send or both; how many packets it moved.
    fn turn(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize;
    /// The queues it holds.
    fn queues(&mut self) -> Queues<'_>;
    /// Whether there is nothing left to do.
    fn is_done(&self) -> bool {
        false
    }
    /// An error that ends the run.
    fn failure(&mut self) -> Option<Failure> {
        None
    }
}

/// What the threads show while they run.
#[derive(Debug, Default)]
pub struct Progress {
    pub packets: AtomicU64,
    pub turns: AtomicU64,
    pub empty: AtomicU64,
    /// TSC ticks of the turns that moved packets.
    pub busy: AtomicU64,
    pub working: AtomicU64,
}

/// What one thread brings back.
struct Finished {
    rx: Vec<RxStats>,
    tx: Vec<TxStats>,
    missing: usize,
    failure: Option<Failure>,
}

/// Turns between two looks at the clock and the stop flag.
const TURNS: usize = 64;
/// Idle looks before a thread sleeps on interrupts.
const IDLE: usize = 64;

/// Runs `work` until it is done, its time is over or a signal comes; prints the
/// statistics.
pub fn run(
    name: &'static str,
    mut ports: Ports,
    work: Vec<Box<dyn Work>>,
    options: &PortOptions,
    stop: Option<Arc<AtomicBool>>,
) -> Result<(), Failure> {
    let stop = match stop {
        Some(stop) => stop,
        None => signal::stop_flag()?,
    };
    let summary = measure(name, &mut ports, work, options, &stop)?;
    drop(ports);
    summary.print(options.json);
    summary.verdict()
}

/// Runs `work` and returns what was counted. The ports stay open.
pub fn measure(
    name: &'static str,
    ports: &mut Ports,
    work: Vec<Box<dyn Work>>,
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
) -> Result<Summary, Failure> {
    let progress = Arc::new(Progress::default());
    let start = Instant::now();
    let threads = options.threads.clamp(1, work.len().max(1));
    let mut shares: Vec<Vec<Box<dyn Work>>> = (0..threads).map(|_| Vec::new()).collect();
    for (n, piece) in work.into_iter().enumerate() {
        shares[n % threads].push(piece);
    }
    let rings = options.rx_ring.unwrap_or(options.ring) + options.tx_ring.unwrap_or(options.ring);
    let mut running = Vec::new();
    for (n, share) in shares.into_iter().enumerate() {
        // Every descriptor of its rings may hold a buffer, and a batch is in hand.
        let pool = Pool::new(&ports.dma, share.len() * rings + 2 * Batch::MAX)?;
        let worker = Worker {
            pool,
            batch: Batch::with_limit(options.batch.into()),
            core: options.cpu.get(n).copied(),
            interrupts: options.interrupts,
            progress: progress.clone(),
            stop: stop.clone(),
        };
        progress.working.fetch_add(1, Ordering::Relaxed);
        let thread = thread::Builder::new().name(format!("{name}-{n}")).spawn(move || worker.run(share));
        running.push(thread.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?);
    }
    live::watch(ports, &progress, options, stop, start);
    stop.store(true, Ordering::Relaxed);
    let mut summary = Summary::new(name, start.elapsed());
    let mut failure = None;
    for thread in running {
        let done = thread.join().map_err(|_| Failure::new("a thread panicked: this is a bug in ixora"))?;
        done.rx.iter().for_each(|rx| summary.add_rx(rx));
        done.tx.iter().for_each(|tx| summary.add_tx(tx));
        summary.missing_buffers += done.missing as u64;
        failure = failure.or(done.failure);
    }
    summary.finish(ports, &progress);
    match failure.or_else(|| ports.list.iter().find_map(|port| port.health().err()).map(Failure::from)) {
        Some(failure) => {
            summary.print(options.json);
            Err(failure)
        }
        None => Ok(summary),
    }
}

struct Worker {
    pool: Pool,
    batch: Batch,
    core: Option<usize>,
    interrupts: bool,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(mut self, mut work: Vec<Box<dyn Work>>) -> Finished {
        if let Some(core) = self.core
            && !crate::bench::pin(core)
        {
            tracing::warn!(core, "cannot pin a thread to this core");
        }
        let mut idle = 0;
        let mut failure = None;
        while !self.stop.load(Ordering::Relaxed) && failure.is_none() {
            let moved = self.turns(&mut work);
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle >= IDLE {
                self.rest(&mut work);
            }
            failure = work.iter_mut().find_map(|piece| piece.failure());
            if work.iter().all(|piece| piece.is_done()) {
                break;
            }
        }
        self.finish(work, failure)
    }

    /// Some turns of each piece; packets moved.
    fn turns(&mut self, work: &mut [Box<dyn Work>]) -> usize {
        let (mut packets, mut empty, mut busy) = (0, 0, 0);
        let mut last = bus::tsc::now();
        for _ in 0..TURNS {
            for piece in &mut *work {
                let moved = piece.turn(&mut self.pool, &mut self.batch);
                let now = bus::tsc::now();
                if moved > 0 {
                    busy += now - last;
                } else {
                    empty += 1;
                }
                packets += moved;
                last = now;
            }
        }
        let p = &self.progress;
        p.packets.fetch_add(packets as u64, Ordering::Relaxed);
        p.turns.fetch_add((TURNS * work.len()) as u64, Ordering::Relaxed);
        p.empty.fetch_add(empty, Ordering::Relaxed);
        p.busy.fetch_add(busy, Ordering::Relaxed);
        packets
    }

    /// Nothing has come for a while: sleeps until something does, or lets
    /// others run.
    fn rest(&self, work: &mut [Box<dyn Work>]) {
        if !self.interrupts {
            thread::yield_now();
            return;
        }
        let mut fds: Vec<PollFd<'_>> = work
            .iter_mut()
            .filter_map(|piece| piece.queues().rx.and_then(|rx| rx.arm()))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // A packet that came before the interrupt was armed is found by the
        // next turn: the sleep is short.
        let limit = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let _ = rustix::event::poll(&mut fds, Some(&limit));
        drop(fds);
        for piece in work {
            if let Some(rx) = piece.queues().rx {
                rx.disarm();
            }
        }
    }

    /// Lets the device send what it has, then takes the rings down and counts
    /// the buffers.
    fn finish(mut self, mut work: Vec<Box<dyn Work>>, failure: Option<Failure>) -> Finished {
        let deadline = Instant::now() + Duration::from_millis(200);
        let pool = &mut self.pool;
        let mut sending =
            || work.iter_mut().filter_map(|piece| piece.queues().tx).map(|tx| tx.clean(pool)).sum::<usize>();
        while sending() > 0 && Instant::now() < deadline {
            thread::yield_now();
        }
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for piece in &mut work {
            let queues = piece.queues();
            rx.extend(queues.rx.map(|rx| rx.stats()));
            tx.extend(queues.tx.map(|tx| tx.stats()));
        }
        drop(work);
        self.pool.free_batch(&mut self.batch);
        self.progress.working.fetch_sub(1, Ordering::Relaxed);
        let missing = self.pool.capacity() - self.pool.available();
        Finished { rx, tx, missing, failure }
    }
}
