//! Running an application: threads that poll, a main thread that watches, an end
//! that leaves nothing behind.

mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use memory::{Batch, Pool};
use port::{Reason, RxQueue, RxStats, TxQueue, TxStats};

use crate::cli::PortOptions;
use crate::confine::Confinement;
use crate::open::{Linter, Ports};
use crate::summary::Summary;
use crate::{Failure, live};
use worker::Worker;

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
    /// Packets the driver dropped: see [`LOSSES`].
    pub lost: [AtomicU64; 3],
    /// Threads at work.
    pub working: AtomicU64,
}

/// The driver's own losses, in the order of [`Progress::lost`].
pub const LOSSES: [Reason; 3] = [Reason::TxRingFull, Reason::RxBadDescriptor, Reason::TxUnsendable];

/// What one piece of work counted at its queues.
#[derive(Debug, Default, Clone)]
pub struct Piece {
    pub rx: Option<RxStats>,
    pub tx: Option<TxStats>,
}

/// How a run came out.
pub struct Outcome {
    pub summary: Summary,
    /// In the order of the work; nothing of a thread that panicked.
    pub pieces: Vec<Piece>,
    /// What ended it early; missing buffers are the summary's.
    pub failure: Option<Failure>,
}

/// Runs `work` until it is done, its time is over or `stop` says so; prints the
/// statistics.
pub fn run(
    name: &'static str,
    mut ports: Ports,
    work: Vec<Box<dyn Work>>,
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let crew = Crew::new(&ports, work, options, stop, &Arc::default())?;
    let confinement = ports.confine(options, None)?;
    let outcome = crew.measure(name, &mut ports, options, confinement);
    drop(ports);
    outcome.summary.print(options.json);
    outcome.failure.or_else(|| outcome.summary.missing()).map_or(Ok(()), Err)
}

/// The threads to be: they have their work and their memory, and do not run yet.
pub struct Crew {
    workers: Vec<Worker>,
    /// Pieces of work.
    pieces: usize,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
}

impl Crew {
    /// Shares out `work`, and makes a pool for each share.
    ///
    /// # Errors
    /// Cores that cannot be had, and memory.
    pub fn new(
        ports: &Ports,
        work: Vec<Box<dyn Work>>,
        options: &PortOptions,
        stop: &Arc<AtomicBool>,
        progress: &Arc<Progress>,
    ) -> Result<Crew, Failure> {
        check_cores("--cpu", &options.cpu)?;
        let pieces = work.len();
        let workers = workers(ports, work, options, stop, progress)?;
        Ok(Crew { workers, pieces, stop: stop.clone(), progress: progress.clone() })
    }

    /// Works, closes the ports and returns what was counted; what ended it early
    /// is beside that.
    pub fn measure(
        self,
        name: &'static str,
        ports: &mut Ports,
        options: &PortOptions,
        confinement: Confinement,
    ) -> Outcome {
        let Crew { workers, pieces, stop, progress } = self;
        let threads = workers.len().max(1);
        let (mut running, mut failure) = (Vec::new(), None);
        // No packet is touched before system calls are confined.
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock();
        for (n, worker) in workers.into_iter().enumerate() {
            let gate = gate.clone();
            let run = move || {
                drop(gate.lock());
                worker.run()
            };
            match thread::Builder::new().name(format!("{name}-{n}")).spawn(run) {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    failure = Some(Failure::new(format!("cannot start a thread: {error}")));
                    break;
                }
            }
        }
        failure = failure.or_else(|| confinement.complete().err());
        if failure.is_some() {
            stop.store(true, Ordering::Relaxed);
        }
        drop(closed);
        let start = Instant::now();
        live::watch(ports, &progress, options, &stop, start);
        stop.store(true, Ordering::Relaxed);
        let mut summary = Summary::new(name, start.elapsed());
        let (mut counted, mut pools) = (vec![Piece::default(); pieces], Vec::new());
        for (n, thread) in running.into_iter().enumerate() {
            let Ok(done) = thread.join() else {
                let panicked = || Failure::new("a thread panicked: this is a bug in ixora");
                failure = failure.or_else(|| Some(panicked()));
                continue;
            };
            // As `workers` dealt them out.
            for (to, piece) in counted.iter_mut().skip(n).step_by(threads).zip(done.pieces) {
                piece.rx.iter().for_each(|rx| summary.add_rx(rx));
                piece.tx.iter().for_each(|tx| summary.add_tx(tx));
                *to = piece;
            }
            pools.push(done.pool);
            failure = failure.or(done.failure);
        }
        summary.finish(ports, &progress);
        let lost = || ports.list.iter().find_map(|port| port.health().err()).map(Failure::from);
        let failure = failure.or_else(lost);
        // A virtio device gives no queue back by itself: only with the port.
        ports.list.clear();
        let missing = pools.iter_mut().map(|pool| pool.capacity() - pool.available());
        summary.missing_buffers = missing.sum::<usize>() as u64;
        summary.findings = ports.linters().iter().map(Linter::findings).collect();
        let error = failure.as_ref().map(|failure| failure.cause().to_owned());
        summary.error = error.or_else(|| Some(summary.missing()?.cause().to_owned()));
        Outcome { summary, pieces: counted, failure }
    }
}

/// The threads' parts: pieces of work in turn, and a pool for each. Made before
/// any thread runs, so that a failure leaves none behind.
fn workers(
    ports: &Ports,
    work: Vec<Box<dyn Work>>,
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
    progress: &Arc<Progress>,
) -> Result<Vec<Worker>, Failure> {
    let threads = options.threads.clamp(1, work.len().max(1));
    if threads < options.threads {
        tracing::warn!("{threads} threads instead of {}: more have nothing to do", options.threads);
    }
    let mut shares: Vec<Vec<Box<dyn Work>>> = (0..threads).map(|_| Vec::new()).collect();
    for (n, piece) in work.into_iter().enumerate() {
        shares[n % threads].push(piece);
    }
    // Every descriptor of its rings may hold a buffer, a large frame takes
    // several, and a batch is in hand.
    let rings = options.rx_ring.unwrap_or(options.ring) + options.tx_ring.unwrap_or(options.ring);
    let hand = 2 * Batch::MAX * options.max_frame.div_ceil(memory::DATA_ROOM).max(1);
    let mut workers = Vec::new();
    for (n, share) in shares.into_iter().enumerate() {
        let pool = Pool::new(&ports.dma, share.len() * rings + hand)?;
        workers.push(Worker::new(pool, share, options, n, stop, progress));
    }
    Ok(workers)
}

/// The cores this process may use.
pub fn usable_cores() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect()
}

/// Checks that this process may use the cores that an option names.
pub fn check_cores(option: &str, cores: &[usize]) -> Result<(), Failure> {
    let usable = usable_cores();
    match cores.iter().find(|core| !usable.contains(core)) {
        None => Ok(()),
        Some(core) => {
            let usable: Vec<String> = usable.iter().map(usize::to_string).collect();
            let fix = format!("this process may use {}", usable.join(","));
            Err(Failure::usage(format!("{option} {core} is not possible")).fix(fix))
        }
    }
}
