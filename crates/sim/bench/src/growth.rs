//! Growth: what a packet costs when there is more of something: flows, prefixes, elements in a
//! chain, rules of a classifier, receive queues, ports, threads.
//!
//! A [`Point`] is one place on one [`Axis`], of one of the axis' curves; [`measure`] gives its
//! [`Row`]. Routers are fed from memory by a source of their own, whose turns are not counted;
//! queues and ports are those of minimal 82599s that step between the driver's calls, whose
//! steps are not counted either. Threads are measured with the sources of `bench graph`, which
//! are counted. [`curve`] says of the rows of a curve whether they are flat, and where the knee
//! is. What memory a row took is known only where a process measures nothing else.

pub mod curve;
mod draws;
pub(crate) mod keys;
mod lookups;
mod ports;
mod routers;
mod threads;

use serde::{Deserialize, Serialize};

use crate::figures::Spread;
use crate::{Choice, Error, Result, calibration};
use runtime::cores::pin;

/// What there is more and more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Flows among which packets are drawn.
    Flows,
    /// Prefixes of a table of routes.
    Prefixes,
    /// Elements in a chain.
    Elements,
    /// Rules of a classifier.
    Rules,
    /// Receive queues of one port, which one thread polls.
    Queues,
    /// Ports that one thread polls.
    Ports,
    /// Threads, each on a core of its own.
    Threads,
}

impl Axis {
    /// All axes, with their names on the command line.
    pub const ALL: &[Choice<Axis>] = &[
        (Axis::Flows, "flows", "Flows among which packets are drawn"),
        (Axis::Prefixes, "prefixes", "Prefixes of a table of routes"),
        (Axis::Elements, "elements", "Elements in a chain"),
        (Axis::Rules, "rules", "Rules of a classifier"),
        (Axis::Queues, "queues", "Receive queues of one port, which one thread polls"),
        (Axis::Ports, "ports", "Ports that one thread polls"),
        (Axis::Threads, "threads", "Threads, each on a core of its own"),
    ];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        Axis::ALL.iter().find(|(axis, ..)| *axis == self).map_or("", |(_, name, _)| name)
    }

    /// Where it is measured where nothing else is asked for. The last is the most that there
    /// may be; of threads as many as there are cores to measure on.
    pub fn usual(self) -> &'static [u64] {
        match self {
            Axis::Flows | Axis::Prefixes => {
                &[1, 10, 100, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
            }
            Axis::Elements => &[1, 2, 4, 8, 16, 32, 64, 128, 256],
            Axis::Rules => &[1, 10, 30, 100, 300, 1_000, 3_000, 10_000],
            Axis::Queues => &[1, 2, 4, 8, 16],
            Axis::Ports => &[1, 2, 4, 8, 16, 32],
            Axis::Threads => &[1, 2, 4, 8, 16, 32, 64],
        }
    }

    /// What is measured along it.
    pub fn curves(self) -> &'static [&'static str] {
        match self {
            Axis::Flows => &["router", "nat"],
            Axis::Prefixes => &["RadixIPLookup", "ipv4", "ipv6"],
            Axis::Elements => &["Null", "Counter", "Paint", "EtherMirror"],
            Axis::Rules => &["addresses", "flows", "access list", "patterns"],
            Axis::Queues | Axis::Ports => &["forward"],
            Axis::Threads => &["source", "router"],
        }
    }
}

/// How much is measured for a row, and where.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Packets in a window.
    pub packets: u64,
    /// Windows of a row.
    pub windows: usize,
    /// Packets at a time.
    pub batch: usize,
    /// Cores to measure on: the first, and one for each further thread.
    pub cores: Vec<usize>,
}

/// A place on an axis, of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// What there is more and more of.
    pub axis: Axis,
    /// What is measured.
    pub curve: &'static str,
    /// How many there are.
    pub x: u64,
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What there is more and more of.
    pub axis: Axis,
    /// What was measured.
    pub curve: String,
    /// How many there were.
    pub x: u64,
    /// Packets at a time.
    pub batch: usize,
    /// Packets in a window.
    pub packets: u64,
    /// TSC cycles for each packet, of all threads together.
    pub cycles_per_packet: Spread,
    /// The same for each element of a chain: what a chain of none costs is taken away.
    pub cycles_per_element: Option<Spread>,
    /// Bytes of the table, where there is one.
    pub table_bytes: Option<u64>,
    /// Windows that were measured.
    pub windows: usize,
    /// Of these, windows in which the cores were near before and after, where there is more
    /// than one core; the figures are theirs if there are any.
    pub near_windows: Option<usize>,
    /// TSC ticks of a multiplication before and after the row.
    pub calibration: [f64; 2],
}

/// What the windows of a row showed.
#[derive(Debug, Default)]
struct Seen {
    cycles: Vec<f64>,
    /// For each element.
    each: Vec<f64>,
    table_bytes: Option<u64>,
    windows: usize,
    near_windows: Option<usize>,
}

/// Measures one row, on this thread and as many more as the row has.
///
/// # Errors
/// What [`check`] says, or a router or a port that cannot be made.
pub fn measure(point: &Point, setup: &Setup) -> Result<Row> {
    check(point, setup)?;
    if let Some(&core) = setup.cores.first() {
        pin(core);
    }
    let before = calibration::measure();
    let seen = match point.axis {
        Axis::Flows => routers::flows(point, setup),
        Axis::Prefixes if point.curve == "RadixIPLookup" => routers::prefixes(point, setup),
        Axis::Prefixes => lookups::measure(point, setup),
        Axis::Elements => routers::elements(point, setup),
        Axis::Rules => routers::rules(point, setup),
        Axis::Queues | Axis::Ports => ports::measure(point, setup),
        Axis::Threads => threads::measure(point, setup),
    }?;
    let calibration = [before, calibration::measure()];
    Ok(Row {
        axis: point.axis,
        curve: point.curve.to_owned(),
        x: point.x,
        batch: setup.batch,
        packets: setup.packets,
        cycles_per_packet: Spread::of(seen.cycles),
        cycles_per_element: (!seen.each.is_empty()).then(|| Spread::of(seen.each)),
        table_bytes: seen.table_bytes,
        windows: seen.windows,
        near_windows: seen.near_windows,
        calibration,
    })
}

/// The rows of some axes: the usual ones, or those at `at`; threads as far as there are cores.
///
/// # Errors
/// When an axis does not go as far, as [`check`] says.
pub fn points(axes: &[Axis], at: &[u64], setup: &Setup) -> Result<Vec<Point>> {
    let mut points = vec![];
    for &axis in axes {
        let most = |x: &&u64| axis != Axis::Threads || **x <= setup.cores.len() as u64;
        let usual = axis.usual().iter().filter(most).copied().collect();
        let xs: Vec<u64> = if at.is_empty() { usual } else { at.to_vec() };
        for &curve in axis.curves() {
            let all = xs.iter().map(|&x| Point { axis, curve, x });
            all.clone().try_for_each(|point| check(&point, setup))?;
            points.extend(all);
        }
    }
    Ok(points)
}

/// Whether there is such a row.
///
/// # Errors
/// What there is none of, and what there is instead.
pub fn check(point: &Point, setup: &Setup) -> Result<()> {
    let Point { axis, curve, x } = *point;
    let name = axis.name();
    if !axis.curves().contains(&curve) {
        let curves = axis.curves().join(", ");
        return Err(Error::usage(
            format!("{name} have no curve {curve:?}"),
            format!("write one of {curves}"),
        ));
    }
    if setup.packets == 0 || setup.windows == 0 {
        return Err(Error::usage("nothing to measure", "windows and packets in a window are at least 1"));
    }
    let (batches, most) = (1..=memory::Batch::MAX, axis.usual().last().copied().unwrap_or(1));
    if !batches.contains(&setup.batch) {
        let fix = format!("write from 1 to {}", memory::Batch::MAX);
        return Err(Error::usage(format!("{} packets at a time", setup.batch), fix));
    }
    if !(1..=most).contains(&x) {
        let fix = format!("write from 1 to {most}, or leave {name} out");
        return Err(Error::usage(format!("{x} {name} are not measured"), fix));
    }
    if axis == Axis::Threads && x > setup.cores.len() as u64 {
        let fix = "name a core for each thread: --cpu 0,1";
        return Err(Error::usage(format!("{x} threads on {} cores", setup.cores.len()), fix));
    }
    Ok(())
}
