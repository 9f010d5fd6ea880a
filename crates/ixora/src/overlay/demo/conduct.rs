//! The course of the demo: neighbours are resolved, the generators send, they stop, and what
//! is under way arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use runtime::Progress;
use testbed::DeviceReport;
use testbed::inprocess::Handle;

use super::super::host::{Host, now_ns};
use crate::demo::samples::{ENOUGH, STEPS, TURNS};
use crate::open::Ports;
use testbed::wire::Cable;

/// How long the controls wait at a time.
const WAIT: Duration = Duration::from_millis(2);
/// How long resolution may take, and all that is under way to arrive. They only bound a
/// hang: on a busy machine threads may wait for seconds.
const LIMIT: Duration = Duration::from_secs(30);
/// How long nothing moves before it is taken to move no more.
const IDLE: Duration = Duration::from_millis(300);

/// What was seen.
#[derive(Default)]
pub struct Seen {
    /// Whether both endpoints found each other.
    pub resolved: bool,
    /// The models at the end: each endpoint's network, and its port of the underlay.
    pub reports: Vec<DeviceReport>,
}

/// Runs the demo's course.
pub struct Conductor {
    models: Vec<Handle>,
    hosts: [Host; 2],
    duration: Duration,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
}

/// How far all sides had come at one time.
struct Sample {
    /// Frames that the models' wires carried.
    moved: u64,
    /// The endpoints' turns: calls of receive or send.
    turns: u64,
    /// Steps of each model.
    steps: Vec<u64>,
}

impl Sample {
    /// Whether the endpoints polled and all models were stepped since `before`.
    fn all_ran_since(&self, before: &Sample) -> bool {
        let mut steps = self.steps.iter().zip(&before.steps);
        steps.all(|(now, then)| now.saturating_sub(*then) >= STEPS)
            && self.turns.saturating_sub(before.turns) >= TURNS
    }
}

/// Ends the run when the thread that holds it ends, however that comes.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Conductor {
    pub fn new(
        ports: &Ports,
        hosts: [Host; 2],
        duration: Duration,
        progress: Arc<Progress>,
        stop: Arc<AtomicBool>,
    ) -> Conductor {
        let models = ports.models().iter().map(|(_, model)| model.clone()).collect();
        Conductor { models, hosts, duration, progress, stop }
    }

    /// Runs until all is over, or a signal comes.
    pub fn run(mut self, interrupted: &AtomicBool) -> Seen {
        let stop = self.stop.clone();
        let _end = StopAtEnd(&stop);
        let is_over = || interrupted.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
        let limit = Instant::now() + LIMIT;
        let mut resolved = false;
        while !resolved && !is_over() && Instant::now() < limit {
            self.turn();
            resolved = self.hosts.iter_mut().all(|host| host.control.table().unresolved().next().is_none());
        }
        self.models.iter().for_each(|model| model.with_cable(Cable::start_source));
        let end = Instant::now() + self.duration;
        while !is_over() && Instant::now() < end {
            self.turn();
        }
        self.models.iter().for_each(|model| model.with_cable(Cable::stop_source));
        self.drain();
        Seen { resolved, reports: self.reports() }
    }

    fn turn(&mut self) {
        for host in &mut self.hosts {
            if !host.control.turn(WAIT, now_ns) {
                thread::sleep(WAIT); // its lanes have ended
            }
        }
    }

    /// Waits until nothing moves any more though all sides run: on a busy machine what waits
    /// in a ring may be met only when its thread has a processor again.
    fn drain(&mut self) {
        let limit = Instant::now() + LIMIT;
        let (mut before, mut since, mut busy) = (self.sample(), Instant::now(), 0);
        while !self.stop.load(Ordering::Relaxed) && Instant::now() < limit {
            self.turn();
            let now = self.sample();
            if now.moved != before.moved {
                (before, since, busy) = (now, Instant::now(), 0);
            } else if now.all_ran_since(&before) {
                (before, busy) = (now, busy + 1);
            }
            if since.elapsed() >= IDLE && busy >= ENOUGH {
                break;
            }
        }
    }

    fn sample(&self) -> Sample {
        let reports = self.reports();
        let both = |report: &DeviceReport| report.wire.to_host.delivered + report.wire.from_host.offered;
        Sample {
            moved: reports.iter().map(both).sum(),
            turns: self.progress.turns.load(Ordering::Relaxed),
            steps: reports.iter().map(|report| report.steps).collect(),
        }
    }

    fn reports(&self) -> Vec<DeviceReport> {
        self.models.iter().map(Handle::report).collect()
    }
}
