//! The course of the demo: neighbours are resolved, the generators send, they stop, and what
//! is under way arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testbed::DeviceReport;
use testbed::inprocess::Handle;

use super::super::host::{Host, now_ns};
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
    stop: Arc<AtomicBool>,
}

/// Ends the run when the thread that holds it ends, however that comes.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Conductor {
    pub fn new(ports: &Ports, hosts: [Host; 2], duration: Duration, stop: Arc<AtomicBool>) -> Conductor {
        let models = ports.models().iter().map(|(_, model)| model.clone()).collect();
        Conductor { models, hosts, duration, stop }
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

    /// Waits until nothing moves any more.
    fn drain(&mut self) {
        let limit = Instant::now() + LIMIT;
        let (mut before, mut since) = (self.moved(), Instant::now());
        while !self.stop.load(Ordering::Relaxed) && Instant::now() < limit && since.elapsed() < IDLE {
            self.turn();
            let now = self.moved();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
    }

    /// Frames that the models' wires carried.
    fn moved(&self) -> u64 {
        let both = |report: &DeviceReport| report.wire.to_host.delivered + report.wire.from_host.offered;
        self.reports().iter().map(both).sum()
    }

    fn reports(&self) -> Vec<DeviceReport> {
        self.models.iter().map(Handle::report).collect()
    }
}
