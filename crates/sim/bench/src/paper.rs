//! The figures of *Fast Userspace Packet Processing* (ANCS 2015) that tell its
//! design: I/O batching (5), ring sizes (6), execution models (8), zero copy (9),
//! queues against locks (11), batches through the graph (15). Other papers' are in
//! [`overlay_fib`] and [`xl710`].

pub mod overlay_fib;
pub mod xl710;

use serde::Serialize;

use crate::figures::Spread;
use crate::graph::stepped::{Manner, Measured, Setup};
use crate::graph::window::{self, Threads};
use crate::graph::workload::OnPorts;
use crate::{Error, Result};

/// How to measure.
#[derive(Debug, Clone)]
pub struct Windows {
    /// Packets in a window.
    pub packets: u64,
    /// Windows for each point.
    pub count: usize,
    /// Cores to measure on.
    pub cores: Vec<usize>,
    /// Ticks of the time stamp counter per second.
    pub tsc_hz: u64,
}

/// A figure that was measured.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// Its number in the paper; `None` of what the paper does not show.
    pub number: Option<u32>,
    /// What it shows.
    pub title: &'static str,
    /// What was done here, where it is not what the paper did.
    pub here: &'static str,
    /// What the paper found, as far as it says so in words.
    pub paper: Option<&'static str>,
    /// What its x axis counts.
    pub x: &'static str,
    /// What its y axis counts.
    pub y: &'static str,
    /// What the curves say in words.
    pub notes: Vec<String>,
    /// Its curves, or bars.
    pub series: Vec<Series>,
    /// What stands at each x where it has bars: points' places are then those of the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bars: Option<Bars>,
}

/// Bars in the place of curves.
#[derive(Debug, Clone, Serialize)]
pub struct Bars {
    /// What each place is.
    pub labels: Vec<String>,
    /// The first so many series are one bar at each place, one upon the other; each of the others
    /// is a bar beside it, and where there is such a stack scaled to be as high at the first place.
    pub stacked: usize,
}

/// One of its curves.
#[derive(Debug, Serialize)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// Its points, and the windows of each.
    pub points: Vec<(f64, Spread)>,
}

/// What can be made.
pub const NAMES: [&str; 6] = ["5", "6", "8", "9", "11", "15"];
/// Frame lengths in bytes, with CRC.
const LENGTHS: [usize; 7] = [64, 128, 256, 512, 768, 1024, 1500];
/// What a frame takes on the wire beside itself: preamble and gap.
const GAP: usize = 20;

/// A curve to be measured.
#[derive(Clone)]
struct Curve {
    name: &'static str,
    workload: &'static str,
    burst: usize,
    threads: usize,
    ring: usize,
    manner: Manner,
    transmit_queues: usize,
    /// What stands in front of each `ToDevice`.
    before_sending: Option<&'static str>,
    /// Receiving has the first thread, sending the second, where this element is.
    apart: Option<&'static str>,
    /// The devices' steps are counted too.
    wall: bool,
}

impl Curve {
    const fn new(name: &'static str, workload: &'static str) -> Curve {
        Curve {
            name,
            workload,
            burst: 32,
            threads: 1,
            ring: 512,
            manner: Manner::ZeroCopy,
            transmit_queues: 1,
            before_sending: None,
            apart: None,
            wall: false,
        }
    }

    fn on_ports(&self) -> Result<OnPorts> {
        let mut on = OnPorts::new(self.workload, self.burst)?;
        if let Some(elements) = self.before_sending {
            on = on.before_sending(elements);
        }
        Ok(match self.apart {
            Some(sender) => on.apart(sender),
            None => on,
        })
    }
}

/// Measures a figure; `progress` is told how many windows are done, and of how many.
///
/// # Errors
/// When there is no such figure, or a router cannot be made.
pub fn figure(name: &str, windows: &Windows, progress: &dyn Fn(usize, usize)) -> Result<Figure> {
    let bench = Bench { windows, progress };
    match name {
        "5" => bench.figure_5(),
        "6" => bench.figure_6(),
        "8" => bench.figure_8(),
        "9" => bench.figure_9(),
        "11" => bench.figure_11(),
        "15" => bench.figure_15(),
        _ => Err(unknown(name, &NAMES)),
    }
}

/// There is no such figure.
fn unknown(name: &str, names: &[&str]) -> Error {
    Error::usage(
        format!("figure {name} is not among those that can be made"),
        format!("write some of {}", names.join(", ")),
    )
}

struct Bench<'a> {
    windows: &'a Windows,
    progress: &'a dyn Fn(usize, usize),
}

impl Bench<'_> {
    fn figure_5(&self) -> Result<Figure> {
        let names = [("batch 1", 1), ("batch 2", 2), ("batch 4", 4), ("batch 8", 8), ("batch 32", 32)];
        let with = |(name, burst)| Curve { burst, ..Curve::new(name, "forward") };
        Ok(Figure {
            number: Some(5),
            title: "I/O batching, forwarder",
            here: "one thread, rings of 512; packets are received and sent in batches",
            paper: None,
            x: "frame (bytes)",
            y: "Gbit/s",
            notes: vec![],
            series: self.by_length(names.map(with))?,
            bars: None,
        })
    }

    fn figure_6(&self) -> Result<Figure> {
        let rings = [("ring 64", 64), ("ring 128", 128), ("ring 512", 512), ("ring 4096", 4096)];
        let with = |(name, ring)| Curve { ring, ..Curve::new(name, "forward") };
        let bursts = [1, 4, 8, 16, 32, 64, 128, 256];
        Ok(Figure {
            number: Some(6),
            title: "influence of the ring's size, forwarder, 64-byte frames",
            here: "one thread",
            paper: None,
            x: "batch",
            y: "Gbit/s",
            notes: vec![],
            series: self.series(rings.map(with), &bursts, |curve, burst| {
                self.rate(&Curve { burst, ..curve.clone() }, 64)
            })?,
            bars: None,
        })
    }

    fn figure_8(&self) -> Result<Figure> {
        let one = |name| Curve { wall: true, ..Curve::new(name, "router") };
        let two = |name| Curve { threads: 2, transmit_queues: 2, ..one(name) };
        let (queue, pipeliner) = (Some("q :: Queue(1024)"), Some("q :: Pipeliner"));
        let curves = [
            two("2 full push"),
            one("1 full push"),
            Curve { before_sending: queue, ..one("1-0 queue") },
            Curve { before_sending: queue, apart: Some("td"), ..two("1-1 queue") },
            Curve { before_sending: pipeliner, apart: Some("q"), ..two("1-1 pipeline") },
        ];
        Ok(Figure {
            number: Some(8),
            title: "execution models, router",
            here: "i-j: i threads receive, j send; the models' own steps are counted",
            paper: None,
            x: "frame (bytes)",
            y: "Gbit/s",
            notes: vec![],
            series: self.by_length(curves)?,
            bars: None,
        })
    }

    fn figure_9(&self) -> Result<Figure> {
        let with = |name, manner| Curve { manner, ..Curve::new(name, "forward") };
        Ok(Figure {
            number: Some(9),
            title: "influence of zero copy, forwarder",
            here: "one thread; copy: each packet into another buffer when it is received",
            paper: None,
            x: "frame (bytes)",
            y: "Gbit/s",
            notes: vec![],
            series: self.by_length([with("zero copy", Manner::ZeroCopy), with("copy", Manner::Copy)])?,
            bars: None,
        })
    }

    fn figure_11(&self) -> Result<Figure> {
        let with = |name, transmit_queues| Curve {
            threads: 2,
            wall: true,
            transmit_queues,
            ..Curve::new(name, "router")
        };
        Ok(Figure {
            number: Some(11),
            title: "a transmit queue for each thread against locking, router",
            here: "two threads, two ports each; the models' own steps are counted",
            paper: None,
            x: "frame (bytes)",
            y: "Gbit/s",
            notes: vec![],
            series: self.by_length([with("2 queues", 2), with("1 queue, lock", 1)])?,
            bars: None,
        })
    }

    fn figure_15(&self) -> Result<Figure> {
        let batches = |name| Curve::new(name, "router");
        let single = |name| Curve { manner: Manner::OneByOne, ..batches(name) };
        let before_sending = Some("q :: Queue(1024)");
        let curves = [
            batches("batches"),
            Curve { before_sending, ..batches("batches, queue") },
            single("single"),
            Curve { before_sending, ..single("single, queue") },
        ];
        Ok(Figure {
            number: Some(15),
            title: "batches through the graph, router",
            here: "one thread, received 32 at a time; single: they go on one by one",
            paper: None,
            x: "frame (bytes)",
            y: "Gbit/s",
            notes: vec![],
            series: self.by_length(curves)?,
            bars: None,
        })
    }

    fn by_length<const N: usize>(&self, curves: [Curve; N]) -> Result<Vec<Series>> {
        self.series(curves, &LENGTHS, |curve, length| self.rate(curve, length))
    }

    /// A point for each x of each curve. Curves are measured in turns, so that a
    /// machine that changes its pace changes it for all of them.
    fn series<const N: usize>(
        &self,
        curves: [Curve; N],
        xs: &[usize],
        rate: impl Fn(&Curve, usize) -> Result<f64>,
    ) -> Result<Vec<Series>> {
        let empty = |curve: &Curve| Series { name: curve.name.to_owned(), points: vec![] };
        let mut series: Vec<Series> = curves.iter().map(empty).collect();
        let windows = self.windows.count.max(1);
        for (done, &x) in xs.iter().enumerate() {
            let mut rates = vec![vec![]; N];
            for window in 0..windows {
                (self.progress)(done * windows + window, xs.len() * windows);
                for (rates, curve) in rates.iter_mut().zip(&curves) {
                    rates.push(rate(curve, x)?);
                }
            }
            for (series, rates) in series.iter_mut().zip(rates) {
                series.points.push((x as f64, Spread::of(rates)));
            }
        }
        Ok(series)
    }

    /// One window: Gbit/s with frames of so many bytes.
    fn rate(&self, curve: &Curve, length: usize) -> Result<f64> {
        let on = curve.on_ports()?;
        let setup = Setup {
            ring: curve.ring,
            manner: curve.manner,
            transmit_queues: curve.transmit_queues,
            receiving: if curve.apart.is_some() { 1 } else { curve.threads },
        };
        let cores = self.windows.cores.iter().copied().take(curve.threads).collect();
        let threads = Threads { count: curve.threads, cores };
        let frames = on.frames(length.saturating_sub(4));
        let outcome = window::on_ports(&on, frames, self.windows.packets, setup, &threads)?;
        let spent = |m: u64| if curve.wall { 0 } else { m };
        let per_tick = |m: &Measured| m.packets as f64 / (m.wall - spent(m.spent)) as f64;
        let received = outcome.threads.iter().map(per_tick).sum::<f64>() * self.windows.tsc_hz as f64;
        let packets_per_second = received * outcome.kept; // as in the paper, what comes back
        Ok(packets_per_second * ((length + GAP) * 8) as f64 / 1e9)
    }
}
