//! Running an application: pollers on a [`Runtime`], a main thread that watches, a
//! summary, an end that leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use runtime::confine::Confinement;
use runtime::{Options, Poller, PollerStats, Progress, Runtime};

use crate::cli::PortOptions;
use crate::open::{Linter, Ports};
use crate::summary::Summary;
use crate::{Failure, live};

/// The longest sleep of a thread: how late it notices a signal, or a packet whose
/// interrupt was lost.
const SLEEP: Duration = Duration::from_millis(50);

/// How a run came out.
pub struct Outcome {
    pub summary: Summary,
    /// What each poller's queues counted, in the order of the pollers; nothing of a thread
    /// that panicked.
    pub pollers: Vec<PollerStats>,
    /// What ended it early; missing buffers are the summary's.
    pub failure: Option<Failure>,
}

/// Runs `pollers` until they are done, their time is over or `stop` says so; prints the
/// statistics.
pub fn run(
    name: &'static str,
    ports: Ports,
    pollers: Vec<Box<dyn Poller>>,
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    run_watched(name, ports, pollers, options, stop, &Watch::default())
}

/// As [`run`], with somebody who watches.
pub fn run_watched(
    name: &'static str,
    mut ports: Ports,
    pollers: Vec<Box<dyn Poller>>,
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
    watch: &Watch<'_>,
) -> Result<(), Failure> {
    let runtime = threads(name, &ports, pollers, options, stop, &Arc::default())?;
    let confinement = ports.confine(options, None)?;
    let outcome = measure_watched(name, runtime, &mut ports, options, confinement, watch);
    drop(ports);
    outcome.summary.print(options.json);
    outcome.failure.or_else(|| outcome.summary.missing()).map_or(Ok(()), Err)
}

/// The threads that the options ask for, with their memory; they do not run yet.
pub fn threads(
    name: &'static str,
    ports: &Ports,
    pollers: Vec<Box<dyn Poller>>,
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
    progress: &Arc<Progress>,
) -> Result<Runtime, Failure> {
    let options = Options {
        name,
        threads: options.threads,
        cores: options.cpu.clone(),
        sleep: options.open.interrupts.then_some(SLEEP),
        batch: options.batch.into(),
        rx_ring: options.open.rx_ring,
        tx_ring: options.open.tx_ring,
        max_frame: options.open.max_frame,
        count: options.count,
    };
    Ok(Runtime::new(&ports.dma, pollers, &options, stop, progress)?)
}

/// Runs the threads, closes the ports and returns what was counted; what ended it early
/// is beside that.
pub fn measure(
    name: &'static str,
    runtime: Runtime,
    ports: &mut Ports,
    options: &PortOptions,
    confinement: Confinement,
) -> Outcome {
    measure_watched(name, runtime, ports, options, confinement, &Watch::default())
}

/// What a run does while its threads do.
pub struct Watch<'a> {
    /// Is shown the ports many times a second.
    pub look: &'a dyn Fn(&mut Ports),
    /// Whether the run goes on while an interface is down that somebody took down.
    pub outlives_down: bool,
    /// How long what the run did took, when its threads have ended; `None` for all of its time.
    pub time: &'a dyn Fn() -> Option<Duration>,
    /// What is wrong with what was done, by all that was counted.
    pub judge: &'a dyn Fn(&mut Summary) -> Option<Failure>,
}

impl Default for Watch<'_> {
    fn default() -> Self {
        Watch { look: &|_| {}, outlives_down: false, time: &|| None, judge: &|_| None }
    }
}

impl Watch<'_> {
    /// Why the run cannot go on, by what the ports say.
    pub fn lost(&self, ports: &Ports) -> Option<port::Error> {
        let mut faults = ports.list.iter().filter_map(|port| port.health().err());
        faults.find(|fault| !(self.outlives_down && matches!(fault, port::Error::Down { .. })))
    }
}

/// As [`measure`], with somebody who watches.
pub fn measure_watched(
    name: &'static str,
    runtime: Runtime,
    ports: &mut Ports,
    options: &PortOptions,
    confinement: Confinement,
    watch: &Watch<'_>,
) -> Outcome {
    let running = runtime.start(|| {
        confinement.complete()?;
        Ok(ports.start()?)
    });
    let start = Instant::now();
    live::watch(ports, &running, options, start, watch);
    let mut summary = Summary::new(name, start.elapsed());
    let mut finished = running.end();
    if let Some(time) = (watch.time)() {
        summary.seconds = time.as_secs_f64();
    }
    for poller in &finished.pollers {
        poller.rx.iter().for_each(|rx| summary.add_rx(rx));
        poller.tx.iter().for_each(|tx| summary.add_tx(tx, poller.retries));
    }
    summary.finish(ports, finished.progress());
    summary.add_queues(&ports.taken, &finished.pollers);
    let failure = finished.failure.take().map(Failure::from);
    let failure = failure.or_else(|| watch.lost(ports).map(Failure::from));
    // A virtio device gives no queue back by itself: only with the port.
    ports.list.clear();
    summary.missing_buffers = finished.missing_buffers() as u64;
    summary.add_wires(ports);
    summary.findings = ports.linters().iter().map(Linter::findings).collect();
    let failure = failure.or_else(|| ports.not_recorded());
    let judged = (watch.judge)(&mut summary);
    // Buffers that are missing are told by whoever prints the summary.
    let failure = failure.or_else(|| judged.filter(|_| summary.missing().is_none()));
    let error = failure.as_ref().map(|failure| failure.cause().to_owned());
    summary.error = error.or_else(|| Some(summary.missing()?.cause().to_owned()));
    Outcome { summary, pollers: finished.pollers, failure }
}
