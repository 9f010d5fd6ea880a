//! Pollers dealt out to threads, and threads that run until somebody ends them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, Builder, JoinHandle, Thread};
use std::time::Duration;

use memory::{Batch, Dma, Pool};

use crate::worker::{Control, Ended, Worker};
use crate::{Error, Instant, Poller, PollerStats, Progress, Queue, Wakeup, cores};

/// How long threads may take to fill their receive rings before the run begins without.
const FILL: Duration = Duration::from_secs(5);

/// How pollers are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the threads are called, with a number each.
    pub name: &'static str,
    /// Threads; no more than pollers are started.
    pub threads: usize,
    /// Cores that the threads are pinned to, in order; further threads are not.
    pub cores: Vec<usize>,
    /// Sleeps when nothing comes, but never longer than this: an interrupt that the
    /// device did not send costs as much. Without it, threads poll and yield.
    pub sleep: Option<Duration>,
    /// Packets a batch may have.
    pub batch: usize,
    /// Descriptors of each receive ring: all may hold a buffer.
    pub rx_ring: usize,
    /// Descriptors of each transmit ring.
    pub tx_ring: usize,
    /// The longest frame in bytes: tells how many buffers a batch may take.
    pub max_frame: usize,
    /// Ends the run once so many packets were moved by all threads.
    pub count: Option<u64>,
}

/// Threads to be: they have their pollers and their memory, and do not run yet.
pub struct Runtime {
    name: &'static str,
    workers: Vec<Worker>,
    /// Pollers of all threads.
    pollers: usize,
    control: Arc<Control>,
}

impl Runtime {
    /// Deals `pollers` out to threads in turn, and makes a pool for each thread, large
    /// enough for the rings of its pollers and for what they keep. The run ends when
    /// `stop` is set, by whoever sets it.
    ///
    /// # Errors
    /// Cores that cannot be had, memory, and file descriptors.
    pub fn new(
        dma: &Dma,
        pollers: Vec<Box<dyn Poller>>,
        options: &Options,
        stop: &Arc<AtomicBool>,
        progress: &Arc<Progress>,
    ) -> Result<Runtime, Error> {
        cores::check(&options.cores)?;
        Instant::calibrate();
        let count = pollers.len();
        let threads = options.threads.clamp(1, count.max(1));
        if threads < options.threads {
            tracing::warn!("{threads} threads instead of {}: more have nothing to do", options.threads);
        }
        let mut shares: Vec<Vec<Box<dyn Poller>>> = (0..threads).map(|_| Vec::new()).collect();
        for (n, poller) in pollers.into_iter().enumerate() {
            shares[n % threads].push(poller);
        }
        let wakeups = (0..threads).map(|_| Wakeup::new()).collect::<Result<_, _>>();
        let control = Arc::new(Control {
            stop: stop.clone(),
            progress: progress.clone(),
            wakeups: wakeups.map_err(Error::Descriptors)?,
            count: options.count.unwrap_or(u64::MAX),
        });
        // A large frame takes several buffers, one batch is in hand and another may be on
        // its way between pollers.
        let hand = 2 * Batch::MAX * options.max_frame.div_ceil(memory::DATA_ROOM).max(1);
        // All pools before any thread runs, so that a failure leaves none behind.
        let mut workers = Vec::new();
        for (n, mut share) in shares.into_iter().enumerate() {
            let held: usize = share.iter_mut().map(|poller| held(&mut **poller, options)).sum();
            workers.push(Worker::new(Pool::new(dma, held + hand)?, share, options, n, &control));
        }
        Ok(Runtime { name: options.name, workers, pollers: count, control })
    }

    /// Starts the threads, which fill their receive rings; then does `last` and lets them poll: no
    /// packet is touched before. `last` is what must be done when all threads are there and have
    /// buffers in their rings: confinement, and to start ports that wait for it
    /// ([`port::Options::deferred_start`]). When it fails, or a thread cannot be started, the run
    /// ends at once and the failure is [`Finished::failure`].
    pub fn start(self, last: impl FnOnce() -> Result<(), Error>) -> Running {
        let Runtime { name, workers, pollers, control } = self;
        let (mut threads, mut failure) = (Vec::new(), None);
        let shares = workers.len();
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock();
        let starter = thread::current();
        let (fills, filled) = mpsc::channel::<()>();
        for (n, worker) in workers.into_iter().enumerate() {
            let (gate, starter, fills) = (gate.clone(), starter.clone(), fills.clone());
            let run = move || {
                let _wakes = WakesAtEnd(starter);
                worker.run(move || {
                    drop(fills);
                    drop(gate.lock());
                })
            };
            match Builder::new().name(format!("{name}-{n}")).spawn(run) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    failure = Some(Error::Thread(error));
                    break;
                }
            }
        }
        // Should `last` panic, the threads end before the gate opens.
        let ends = OnPanic(|| control.end());
        drop(fills);
        if failure.is_none() {
            await_buffers(&filled);
            failure = last().err();
        }
        if failure.is_some() {
            control.end();
        }
        drop(ends);
        drop(closed);
        Running { threads, shares, pollers, failure, control }
    }
}

/// Waits until each thread has filled its receive rings or has ended: it drops its sender then.
fn await_buffers(filled: &Receiver<()>) {
    if filled.recv_timeout(FILL) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!("a thread has not filled its receive rings after {FILL:?}: packets may be lost");
    }
}

/// Buffers that a poller and its rings may hold.
fn held(poller: &mut dyn Poller, options: &Options) -> usize {
    let mut held = poller.buffers();
    poller.queues(&mut |queue| {
        held += match queue {
            Queue::Rx(_) => options.rx_ring,
            Queue::Tx(_) => options.tx_ring,
        };
    });
    held
}

/// Threads that run.
#[must_use = "threads are waited for by `end`"]
pub struct Running {
    threads: Vec<JoinHandle<Ended>>,
    /// Threads that pollers were dealt out to.
    shares: usize,
    pollers: usize,
    failure: Option<Error>,
    control: Arc<Control>,
}

impl Running {
    /// Whether a thread polls, and nobody has ended the run.
    pub fn is_running(&self) -> bool {
        let working = self.control.progress.working.load(Ordering::Relaxed);
        working > 0 && !self.control.stop.load(Ordering::Relaxed)
    }

    /// Waits for so long at most, and not beyond the end of a thread. That wakes the thread
    /// that started them alone.
    pub fn wait(&self, time: Duration) {
        thread::park_timeout(time);
    }

    /// What the threads show.
    pub fn progress(&self) -> &Progress {
        &self.control.progress
    }

    /// Ends the run, of threads that sleep as well, and waits for all threads. Each has
    /// the devices send what they were given, for 200 ms at most, and drops its pollers.
    pub fn end(mut self) -> Finished {
        self.control.end();
        let mut failure = self.failure.take();
        let (mut counted, mut pools) = (vec![PollerStats::default(); self.pollers], Vec::new());
        for (n, thread) in std::mem::take(&mut self.threads).into_iter().enumerate() {
            let Ok(ended) = thread.join() else {
                failure = failure.or(Some(Error::Panicked));
                continue;
            };
            // As they were dealt out.
            let mine = counted.iter_mut().skip(n).step_by(self.shares);
            mine.zip(ended.pollers).for_each(|(to, stats)| *to = stats);
            pools.push(ended.pool);
            failure = failure.or(ended.failure);
        }
        Finished { pollers: counted, failure, progress: self.control.progress.clone(), pools }
    }
}

impl Drop for Running {
    /// Nobody waits for the threads, and they end all the same.
    fn drop(&mut self) {
        self.control.end();
    }
}

/// How a run came out.
pub struct Finished {
    /// What each poller's queues counted, in the order of the pollers; nothing of a thread
    /// that panicked.
    pub pollers: Vec<PollerStats>,
    /// What ended it early.
    pub failure: Option<Error>,
    progress: Arc<Progress>,
    pools: Vec<Pool>,
}

impl Finished {
    /// What the threads showed last.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Buffers that did not come back to the threads' pools. To be asked when the ports
    /// are closed: some devices give buffers back only then.
    pub fn missing_buffers(&mut self) -> usize {
        self.pools.iter_mut().map(|pool| pool.capacity() - pool.available()).sum()
    }
}

/// Wakes a thread that waits for the end of the one that holds this, by a panic too.
struct WakesAtEnd(Thread);

impl Drop for WakesAtEnd {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

/// Calls a function when the thread that holds it panics: to end the others, which would
/// go on without it.
pub struct OnPanic<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}
