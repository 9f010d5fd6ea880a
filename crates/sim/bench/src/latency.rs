//! Latency: how long packets are under way through a forwarder or a router, against load, and
//! what processor time that takes.
//!
//! A tester sends on a port of its own, which a wire joins with the first port of what is
//! measured, and receives on another, joined with the second: four models of the 82599, or six
//! where a router has two ports more. The tester steps all models between its turns, on one
//! thread; what is measured has a core of its own. Each packet says when it was due, not when
//! it was sent, so that a tester that is late makes delays longer and never shorter. What the
//! tester and its models add is a row of its own, [`Work::Wire`]: a wire without anything
//! between. Loads are shares of what came through when as much was sent as there was room for.

mod subject;
mod tester;

use std::thread;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{Choice, Error, Result, calibration};

/// What packets go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Nothing: the tester's ports are joined.
    Wire,
    /// A forwarder, from one port to the other.
    Forward,
    /// The router of *Fast Userspace Packet Processing*, from one of four ports to another.
    Router,
}

impl Work {
    /// All choices, with their names on the command line.
    pub const ALL: &[Choice<Work>] = &[
        (Work::Wire, "wire", "Nothing: what the tester and its models take"),
        (Work::Forward, "forward", "A forwarder, from one port to the other"),
        (Work::Router, "router", "The paper's router, from one of four ports to another"),
    ];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        Work::ALL.iter().find(|(work, ..)| *work == self).map_or("", |(_, name, _)| name)
    }
}

/// How a thread learns of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It asks all the time.
    Poll,
    /// It sleeps when nothing comes, until an interrupt.
    Interrupt,
}

impl Mode {
    /// All choices, with their names on the command line.
    pub const ALL: &[Choice<Mode>] = &[
        (Mode::Poll, "poll", "The thread asks for packets all the time"),
        (Mode::Interrupt, "interrupt", "It sleeps when nothing comes, until an interrupt"),
    ];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        Mode::ALL.iter().find(|(mode, ..)| *mode == self).map_or("", |(_, name, _)| name)
    }
}

/// What is measured, and how long.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What packets go through.
    pub work: Work,
    /// How its thread learns of them.
    pub mode: Mode,
    /// Packets at a time.
    pub batch: usize,
    /// Descriptors in each ring.
    pub ring: usize,
    /// Loads in percent of the most that came through.
    pub loads: Vec<f64>,
    /// Seconds for each load.
    pub seconds: f64,
    /// The core of what is measured, and the tester's.
    pub cores: [usize; 2],
}

/// The shares of packets, in percent, of which a row has the longest delay.
pub const SHARES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// A line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What packets went through.
    pub work: Work,
    /// How its thread learned of them.
    pub mode: Mode,
    /// Packets at a time.
    pub batch: usize,
    /// Descriptors in each ring.
    pub ring: usize,
    /// Percent of the most that came through.
    pub load: f64,
    /// Packets in a second, that were sent.
    pub sent_per_s: f64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that did not come back.
    pub lost: u64,
    /// Packets whose delay was counted: not those of the first tenth of the time.
    pub counted: u64,
    /// Nanoseconds that so many percent of these took at most ([`SHARES`]).
    pub delay_ns: [u64; SHARES.len()],
    /// The longest delay in nanoseconds.
    pub longest_ns: u64,
    /// Seconds of processor time in a second, of all threads but the tester's.
    pub processor: f64,
    /// TSC ticks of a multiplication on the tester's core before and after the row.
    pub calibration: [f64; 2],
}

/// What one load showed.
struct Seen {
    sent: u64,
    received: u64,
    seconds: f64,
    processor: f64,
    delays: Histogram<u64>,
}

/// Measures a row for each load.
///
/// # Errors
/// What there is none of, and what there is instead; ports and routers that cannot be made.
pub fn measure(setup: &Setup) -> Result<Vec<Row>> {
    check(setup)?;
    // On a thread of its own, which is kept on one core: the caller's is not.
    let measured = thread::scope(|scope| scope.spawn(|| rows(setup)).join());
    measured.unwrap_or_else(|_| Err(Error::new("the tester panicked")))
}

fn rows(setup: &Setup) -> Result<Vec<Row>> {
    subject::with(setup, |tester| {
        let most = tester.flood(setup.seconds)?;
        let row = |&load: &f64| {
            let before = calibration::measure();
            let seen = tester.send(most * load / 100.0, setup.seconds)?;
            Ok(row(setup, load, &seen, [before, calibration::measure()]))
        };
        setup.loads.iter().map(row).collect()
    })
}

fn row(setup: &Setup, load: f64, seen: &Seen, calibration: [f64; 2]) -> Row {
    Row {
        work: setup.work,
        mode: setup.mode,
        batch: setup.batch,
        ring: setup.ring,
        load,
        sent_per_s: seen.sent as f64 / seen.seconds,
        sent: seen.sent,
        lost: seen.sent.saturating_sub(seen.received),
        counted: seen.delays.len(),
        delay_ns: SHARES.map(|share| seen.delays.value_at_percentile(share)),
        longest_ns: seen.delays.max(),
        processor: seen.processor,
        calibration,
    }
}

/// Whether this can be measured.
///
/// # Errors
/// What cannot, and what can instead.
pub fn check(setup: &Setup) -> Result<()> {
    if setup.work == Work::Router && setup.mode == Mode::Interrupt {
        return Err(Error::usage(
            "a router polls its ports: it has no interrupts",
            "write --mode poll, or leave router out of --work",
        ));
    }
    let (batches, rings) = (1..=memory::Batch::MAX, 64..=4096);
    if !batches.contains(&setup.batch) {
        let fix = format!("write --batch from 1 to {}", memory::Batch::MAX);
        return Err(Error::usage(format!("{} packets at a time", setup.batch), fix));
    }
    if !rings.contains(&setup.ring) || !setup.ring.is_power_of_two() {
        let fix = "write --ring as a power of two from 64 to 4096";
        return Err(Error::usage(format!("{} descriptors in a ring", setup.ring), fix));
    }
    if let Some(load) = setup.loads.iter().find(|load| !(0.1..=200.0).contains(*load)) {
        return Err(Error::usage(format!("a load of {load} %"), "write --load from 0.1 to 200"));
    }
    if !(0.001..=600.0).contains(&setup.seconds) {
        let fix = "write --seconds from 0.001 to 600";
        return Err(Error::usage(format!("{} seconds for each load", setup.seconds), fix));
    }
    Ok(())
}
