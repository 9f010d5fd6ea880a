//! The models' process of a scene: it is asked for its report, told to start and stop
//! its generators, killed and started again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testbed::serve::Report;

use super::machine::{CpuTimes, Footprint, Slack};
use super::process::Process;
use super::{Trouble, pause, plan};
use crate::serve::READY;

/// How long an answer may take, on a machine with much else to do.
const ANSWER: Duration = Duration::from_secs(20);
/// Frames that still move when generators were stopped have arrived when nothing has
/// moved for this long; links that flap are down for less.
const IDLE: Duration = Duration::from_millis(600);

/// The models of one scene.
pub struct Models {
    /// Which devices they are, on which wires and with which faults.
    pub plan: plan::Models,
    /// Where they listen.
    pub sockets: Vec<PathBuf>,
    process: Process,
    /// Lines of its output that were read.
    lines: usize,
    place: PathBuf,
    logs: PathBuf,
    /// How often it was started.
    starts: usize,
    /// Whether its generators were started.
    started: bool,
    /// Clients that have left.
    clients: usize,
    /// What it held when the second of them had left.
    second: Option<Footprint>,
}

impl Models {
    /// Starts the process; it listens when this returns.
    pub fn start(plan: &plan::Models, place: &Path, logs: &Path) -> Result<Models, Trouble> {
        let sockets: Vec<PathBuf> = (0..plan.wires.len()).map(|n| place.join(format!("s{n}"))).collect();
        let process = spawn(plan, &sockets, place, logs, 0)?;
        let (place, logs) = (place.to_owned(), logs.to_owned());
        let plan = plan.clone();
        let mut models = Models {
            plan,
            sockets,
            process,
            lines: 0,
            place,
            logs,
            starts: 1,
            started: false,
            clients: 0,
            second: None,
        };
        models.ready()?;
        Ok(models)
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) -> Result<(), Trouble> {
        self.remove_sockets();
        self.process = spawn(&self.plan, &self.sockets, &self.place, &self.logs, self.starts)?;
        (self.lines, self.started, self.clients, self.second) = (0, false, 0, None);
        self.starts += 1;
        self.ready()
    }

    fn ready(&mut self) -> Result<(), Trouble> {
        let line = self.answer("that it listens")?;
        if line == READY { Ok(()) } else { Err(Trouble::failed(format!("the models said {line:?}"))) }
    }

    /// The next line that it prints.
    fn answer(&mut self, what: &str) -> Result<String, Trouble> {
        let end = Instant::now() + ANSWER;
        loop {
            let output = self.process.output();
            let whole = output.rfind('\n').map_or("", |at| &output[..at]);
            if let Some(line) = whole.lines().nth(self.lines) {
                self.lines += 1;
                return Ok(line.to_owned());
            }
            if self.process.ended().is_some() {
                return Err(Trouble::failed(format!("{}, instead of {what}", self.process.condition())));
            }
            if Instant::now() >= end {
                return Err(Trouble::failed(format!("the models do not say {what} within {ANSWER:?}")));
            }
            super::check_interrupt()?;
            pause(Duration::from_millis(2));
        }
    }

    /// What they counted.
    pub fn report(&mut self) -> Result<Report, Trouble> {
        self.process.ask("report");
        let line = self.answer("what they counted")?;
        serde_json::from_str(&line).map_err(|error| Trouble::failed(format!("no report: {error}")))
    }

    /// The generators begin, unless they have.
    pub fn start_sources(&mut self) {
        if !std::mem::replace(&mut self.started, true) {
            self.process.ask("start-sources");
        }
    }

    /// The generators stop for good; what is under way arrives. On a busy machine time
    /// alone tells nothing: models and program must have had a core meanwhile.
    pub fn drain(&mut self, program: &Process) -> Result<(), Trouble> {
        self.process.ask("stop-sources");
        let ids = [self.process.id(), program.id()];
        let turns = || ids.map(CpuTimes::of);
        let end = Instant::now() + ANSWER;
        let (mut seen, mut since, mut then) = (None, Instant::now(), turns());
        loop {
            let ran = turns().iter().zip(&then).all(|(now, then)| now.all_ran_since(then));
            if ran && since.elapsed() >= IDLE || Instant::now() >= end {
                return Ok(());
            }
            let now = moved(&self.report()?);
            if seen.as_ref() != Some(&now) {
                (seen, since, then) = (Some(now), Instant::now(), turns());
            }
            pause(Duration::from_millis(20));
        }
    }

    /// Waits until no driver is attached.
    pub fn await_departure(&mut self) -> Result<Report, Trouble> {
        let end = Instant::now() + ANSWER;
        loop {
            let report = self.report()?;
            if report.endpoints.iter().all(|endpoint| !endpoint.attached) {
                return Ok(report);
            }
            if Instant::now() >= end {
                return Err(Trouble::failed(format!(
                    "{ANSWER:?} after its end a driver is attached to the models"
                )));
            }
            pause(Duration::from_millis(20));
        }
    }

    /// What the process has grown by since its second client left, where that is more
    /// than nothing. To be asked once for each client.
    pub fn growth(&mut self) -> Option<String> {
        let now = || Footprint::of(self.process.id());
        self.clients += 1;
        let Some(second) = &self.second else {
            self.second = now().filter(|_| self.clients == 2);
            return None;
        };
        // Threads and descriptors of the last client may be a moment behind it.
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let grown = now().and_then(|now| now.grown_from(second, Slack::KEPT));
            if grown.is_none() || Instant::now() >= end {
                return grown.map(|grown| format!("the models' process: {grown}"));
            }
            pause(Duration::from_millis(50));
        }
    }

    /// The models' process, to be paused or killed.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Ends the process in order; it must say that all was well.
    pub fn end(&mut self) -> Result<(), Trouble> {
        self.process.say_goodbye();
        let ended = self.process.wait(ANSWER);
        self.remove_sockets();
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(Trouble::failed(self.process.condition())),
            None => Err(Trouble::failed(format!("the models' process runs {ANSWER:?} after it was to end"))),
        }
    }

    /// With `--control` they are ours to remove.
    fn remove_sockets(&self) {
        self.sockets.iter().for_each(|socket| drop(std::fs::remove_file(socket)));
    }
}

fn spawn(
    plan: &plan::Models,
    sockets: &[PathBuf],
    place: &Path,
    logs: &Path,
    n: usize,
) -> Result<Process, Trouble> {
    Process::start(&format!("models-{n}"), &plan.command(sockets), None, place, logs, true)
}

/// What changes while frames move.
fn moved(report: &Report) -> Vec<u64> {
    let each = report.endpoints.iter().flat_map(|endpoint| {
        let device = &endpoint.device;
        let waiting = device.counters.get("rx_waiting").copied().unwrap_or(0);
        [device.wire.to_host.delivered, device.wire.from_host.delivered, device.packets, waiting]
    });
    each.collect()
}
