//! Two cores: the model runs beside the driver. Each window stands between two
//! calibrations, because the cores' distance changes within seconds.

use std::sync::Arc;
use std::thread;

use testbed::{Idle, inprocess};

use crate::Setting;
use crate::distance::{Line, is_near, near_or_all};
use crate::figures::{MOST_EMPTY, Row, Spread};
use crate::rig::{Done, Rig};
use crate::{Error, Result};
use runtime::cores::pin;

/// Seconds in a window.
pub const WINDOW: f64 = 0.1;

/// One window, and the distance of the cores on both sides of it.
pub struct Window {
    /// What the driver did.
    pub done: Done,
    /// TSC cycles that it took.
    pub ticks: u64,
    /// The round trip between the cores before it, in TSC cycles.
    pub before: u64,
    /// The round trip after it.
    pub after: u64,
    /// Share of the device's rounds in which it moved no packet.
    pub device_idle: f64,
}

impl Window {
    /// Whether the cores were near on both sides of it.
    pub fn is_near(&self) -> bool {
        is_near(self.before.max(self.after))
    }

    /// TSC cycles for each packet.
    pub fn cycles_per_packet(&self) -> f64 {
        self.ticks as f64 / self.done.packets.max(1) as f64
    }
}

/// Measures one setting.
pub fn measure(setting: &Setting, driver: usize, model: usize, windows: usize) -> Result<Row> {
    pin(driver);
    let mut rig = Rig::new(setting)?;
    let line = Arc::new(Line::default());
    let mut seen = Vec::with_capacity(windows);
    for _ in 0..windows.max(1) {
        seen.push(window(&mut rig, &line, model)?);
    }
    let (chosen, near) = near_or_all(seen.iter().collect(), |window| window.is_near());
    let sum = |part: fn(&Done) -> u64| chosen.iter().map(|w| part(&w.done)).sum::<u64>() as f64;
    let (packets, calls, empty) = (sum(|d| d.packets), sum(|d| d.calls), sum(|d| d.empty));
    let ticks: u64 = chosen.iter().map(|w| w.ticks).sum();
    Ok(Row {
        setting: *setting,
        cores: 2,
        cycles_per_packet: Spread::of(chosen.iter().map(|w| w.cycles_per_packet()).collect()),
        mpps: packets / (ticks as f64 / bus::tsc::hz() as f64) / 1e6,
        empty_polls: empty / calls,
        device_limits: empty / calls > MOST_EMPTY,
        device_idle: Some(Spread::of(chosen.iter().map(|w| w.device_idle).collect()).median),
        batch_fill: packets / (calls - empty).max(1.0),
        instructions_per_packet: None,
        windows: seen.len(),
        near_windows: near,
        distance: Some(Spread::of(seen.iter().flat_map(|w| [w.before as f64, w.after as f64]).collect())),
    })
}

/// Measures for [`WINDOW`].
pub fn window(rig: &mut Rig, line: &Arc<Line>, model: usize) -> Result<Window> {
    let before = distance(line, model);
    let stepper = inprocess::spawn(rig.handles(), Some(model), Idle::Spin).map_err(no_thread)?;
    let length = (bus::tsc::hz() as f64 * WINDOW) as u64;
    let mut done = Done::default();
    let warm = bus::tsc::now();
    while bus::tsc::now() - warm < length / 10 {
        rig.driver_calls(&mut done);
    }
    done = Done::default();
    let rounds = stepper.rounds();
    let start = bus::tsc::now();
    while bus::tsc::now() - start < length {
        for _ in 0..64 {
            rig.driver_calls(&mut done);
        }
    }
    let ticks = bus::tsc::now() - start;
    let device_idle = stepper.rounds().idle_since(rounds);
    drop(stepper);
    let after = distance(line, model);
    Ok(Window { done, ticks, before, after, device_idle })
}

/// Why nothing steps the models.
pub fn no_thread(error: std::io::Error) -> Error {
    Error::new(format!("cannot start the model's thread: {error}"))
}

/// The round trip between this thread's core and the model's.
pub fn distance(line: &Arc<Line>, model: usize) -> u64 {
    let answering = line.clone();
    let thread = thread::spawn(move || {
        pin(model);
        answering.answer();
    });
    let ticks = line.measure();
    // It only answers; a panic there has nothing to tell.
    let _ = thread.join();
    ticks
}
