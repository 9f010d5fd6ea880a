//! What the models count while the demo runs, sample by sample: whether frames are
//! delivered until the end, and when all that was under way has arrived.
//!
//! A busy machine may leave either process without a core for long, so that time
//! alone tells nothing. Only what lies between two samples counts in which the
//! driver polled and both devices were stepped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use runtime::{LOSSES, PollerStats, Progress};
use testbed::serve::Report;

use super::accounts::Account;
use super::models::Models;
use crate::Failure;

/// Samples of a run, and the times between them.
const SAMPLES: u32 = 40;
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(250);
/// The driver polled between two samples when it made so many turns, several rounds
/// of its loop; a device was stepped when it made so many steps.
pub const TURNS: u64 = 512;
pub const STEPS: u64 = 8;
/// In so many samples in which both sides ran a frame that was offered before goes
/// through a working forwarder: a device's step, a poll, a device's step are three.
pub const ENOUGH: usize = 5;
/// How long nothing moves before it is taken to move no more.
const IDLE: Duration = Duration::from_millis(250);
/// How long all that is under way may take to arrive, and how long a run goes on in
/// which one side had no core. They only bound a hang: on a busy machine a polling
/// thread that yields may wait for seconds.
const DRAIN: Duration = Duration::from_secs(30);
const EXTRA: Duration = Duration::from_secs(30);

/// What both sides had counted at one time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Since the generators began.
    pub at: Duration,
    /// The driver's turns: calls of receive or send.
    pub turns: u64,
    /// Steps of each device.
    pub steps: [u64; 2],
    /// Each direction as the models see it: without the driver's own losses.
    pub accounts: [Account; 2],
}

impl Sample {
    /// `None` unless the report is about two devices.
    pub fn new(at: Duration, turns: u64, report: &Report) -> Option<Sample> {
        let [a, b] = report.endpoints.as_slice() else { return None };
        let nothing = PollerStats::default();
        let accounts = [Account::new(a, &nothing, b), Account::new(b, &nothing, a)];
        Some(Sample { at, turns, steps: [a.device.steps, b.device.steps], accounts })
    }

    /// Whether the driver polled and both devices were stepped since `before`.
    fn both_ran_since(&self, before: &Sample) -> bool {
        let stepped =
            self.steps.iter().zip(before.steps).all(|(now, then)| now.saturating_sub(then) >= STEPS);
        stepped && self.turns.saturating_sub(before.turns) >= TURNS
    }
}

/// A time in which nothing was delivered though there was something to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    pub from: Duration,
    pub to: Duration,
    /// What the driver and the slower device did in it.
    pub turns: u64,
    pub steps: u64,
}

/// A run's samples, in their order.
#[derive(Debug, Default)]
pub struct Samples {
    /// While the generators sent.
    pub running: Vec<Sample>,
    /// The last one, when nothing moved any more and the ports were still open.
    pub rest: Option<Sample>,
}

impl Samples {
    /// Between how many samples both sides ran.
    pub fn busy(&self) -> usize {
        self.running.windows(2).filter(|pair| pair[1].both_ran_since(&pair[0])).count()
    }

    /// The first stall of a direction. A generator without a rate (`unlimited`)
    /// always has a frame for a descriptor; any other, when it has offered one.
    pub fn stall(&self, direction: usize, unlimited: bool) -> Option<Stall> {
        let mut since = self.running.first()?;
        let (mut due, mut busy, mut stall) = (unlimited, 0, None);
        for pair in self.running.windows(2) {
            let (before, now) = (&pair[0], &pair[1]);
            let (start, account) = (&since.accounts[direction], &now.accounts[direction]);
            if account.delivered > start.delivered {
                if stall.is_some() {
                    break;
                }
                (since, due, busy) = (now, unlimited, 0);
                continue;
            }
            busy += usize::from(due && now.both_ran_since(before));
            due |= account.offered > start.offered;
            if busy >= ENOUGH {
                let steps = [0, 1].map(|n| now.steps[n].saturating_sub(since.steps[n]));
                let (turns, steps) = (now.turns.saturating_sub(since.turns), steps[0].min(steps[1]));
                stall = Some(Stall { from: since.at, to: now.at, turns, steps });
            }
        }
        stall
    }
}

/// Takes the samples.
pub struct Sampler<'a> {
    models: &'a mut Models,
    progress: &'a Progress,
    stop: &'a AtomicBool,
    begin: Instant,
    pub samples: Samples,
}

impl<'a> Sampler<'a> {
    /// The generators begin.
    pub fn start(models: &'a mut Models, progress: &'a Progress, stop: &'a AtomicBool) -> Sampler<'a> {
        models.start_sources();
        Sampler { models, progress, stop, begin: Instant::now(), samples: Samples::default() }
    }

    /// Samples until the time is over and both sides had turns in it, a signal comes
    /// or the run has stopped; then
    /// the generators stop, and what is under way arrives.
    pub fn run(&mut self, duration: Duration, interrupted: &AtomicBool) -> Result<(), Failure> {
        let period = (duration / SAMPLES).clamp(SHORTEST, LONGEST);
        let mut due = Duration::ZERO;
        while !interrupted.load(Ordering::Relaxed) && !self.is_stopped() && !self.is_over(duration) {
            if self.begin.elapsed() >= due {
                let sample = self.sample()?;
                due = sample.at + period;
                self.samples.running.push(sample);
            }
            thread::sleep(due.saturating_sub(self.begin.elapsed()).min(SHORTEST));
        }
        let last = self.sample()?;
        self.samples.running.push(last);
        self.models.stop_sources();
        self.drain()
    }

    fn is_over(&self, duration: Duration) -> bool {
        let elapsed = self.begin.elapsed();
        elapsed >= duration && (self.samples.busy() > ENOUGH || elapsed >= duration + EXTRA)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn sample(&mut self) -> Result<Sample, Failure> {
        let turns = self.progress.turns.load(Ordering::Relaxed);
        let at = self.begin.elapsed();
        let report = self.models.report()?;
        Sample::new(at, turns, &report).ok_or_else(not_two)
    }

    /// Waits until all has arrived, or nothing moves any more though both sides run.
    fn drain(&mut self) -> Result<(), Failure> {
        let limit = Instant::now() + DRAIN;
        let mut last = self.sample()?;
        let (mut since, mut busy) = (Instant::now(), 0);
        while !self.has_arrived(&last) && !self.is_stopped() && Instant::now() < limit {
            thread::sleep(SHORTEST);
            let now = self.sample()?;
            busy += usize::from(now.both_ran_since(&last));
            if now.accounts != last.accounts {
                (since, busy) = (Instant::now(), 0);
            }
            last = now;
            if since.elapsed() >= IDLE && busy >= ENOUGH {
                break;
            }
        }
        self.samples.rest = Some(last);
        Ok(())
    }

    /// Whether every frame was delivered or is lost. Frames only ever get there, so
    /// that it does not matter that the driver's losses were read later.
    fn has_arrived(&self, sample: &Sample) -> bool {
        let driver: u64 = (0..LOSSES.len()).map(|n| self.progress.lost[n].load(Ordering::Relaxed)).sum();
        let offered: u64 = sample.accounts.iter().map(|account| account.offered).sum();
        let ended: u64 = sample.accounts.iter().map(|account| account.accounted() - account.waiting).sum();
        offered == ended + driver
    }
}

/// The failure of a report that is not about two devices.
pub fn not_two() -> Failure {
    Failure::new("the models' report is not about two devices")
}
