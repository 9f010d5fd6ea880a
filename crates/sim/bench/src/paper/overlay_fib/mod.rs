//! Figures 3 and 7 and Table 2 of Nakamura et al., *Protocol-Independent FIB Architecture for
//! Network Overlays* (2016), for its five protocols and the others: what a packet's way into a
//! tunnel costs, in the paper's parts, through two passes, with the overlay's table in software
//! and with it in the NIC; what of that links of 10, 40 and 80 Gbit/s let through.
//!
//! The paper's inner part is the stack's pass for the packet inside, which all ways have: here a
//! route, and where the tunnel carries frames a neighbour and Ethernet's header. No NIC here has
//! the table: of that way only the host's part is measured, as in the paper, which put the
//! tunnel's own header in front of packets and dropped them.

pub mod kernel;
mod path;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Bars, Figure, Series, Windows};
use crate::Result;
use crate::figures::Spread;
use crate::overlay::{OF_PAPER, SUBJECTS};
use kernel::Kernel;
use path::{NONE, NORMAL, OFFLOAD, PARTS, Row, SOFTWARE};

/// What can be made: figures of the paper, the overlay's table in software in their manner, and
/// Table 2 without a link and with links of so many Gbit/s.
pub const NAMES: [&str; 7] = ["3", "7", "software", "table2", "table2-10", "table2-40", "table2-80"];

/// Sizes of Table 2: without a link, and with one. Bytes of a frame without a tunnel.
const SIZES: [usize; 2] = [64, 1500];
const SIZES_ON_LINK: [usize; 2] = [64, 1024];
/// Entries of the table.
const ENTRIES: usize = 1000;
/// What a frame takes on the wire beside itself: preamble, gap, CRC.
const ON_WIRE: usize = 24;
/// Bytes of the shortest frame without CRC.
const SHORTEST: usize = 60;

/// Series of Table 2 that are measured here, this kernel's the last of them; the paper's follow.
const MEASURED: usize = 4;

/// The medians that the authors published with their program: CPU cycles to send a packet of 64
/// bytes without a tunnel, and by protocol in the normal way and with the table in the NIC.
const PAPER_NONE: f64 = 6568.0;
const PAPER_CYCLES: [[f64; 2]; OF_PAPER] =
    [[8720.0, 5296.0], [9796.0, 7134.0], [10888.0, 9488.0], [14484.0, 7640.0], [13312.0, 8428.0]];
/// Table 2, Gbit/s of packets: to a dummy device, of 64 and of 1,500 bytes, normal and with the
/// table in the NIC; by ixgbe, of 64 and 1,024 bytes, normal and with the table in the driver.
const PAPER_DUMMY: [[[f64; 2]; 2]; OF_PAPER] = [
    [[1.05, 2.20], [25.74, 51.94]],
    [[1.00, 1.58], [24.36, 31.86]],
    [[0.98, 1.28], [21.62, 27.82]],
    [[0.74, 1.43], [17.87, 31.10]],
    [[0.79, 1.36], [19.14, 29.48]],
];
const PAPER_IXGBE: [[[f64; 2]; 2]; OF_PAPER] = [
    [[0.72, 0.84], [9.58, 9.58]],
    [[0.64, 0.86], [9.55, 9.55]],
    [[0.69, 0.81], [9.43, 9.73]],
    [[0.58, 0.85], [8.23, 9.32]],
    [[0.62, 0.80], [8.71, 9.13]],
];

/// The figures, which share what they measure.
#[derive(Debug, Default)]
pub struct OverlayFib {
    kernel: Kernel,
    rows: BTreeMap<(usize, usize), Row>,
}

impl OverlayFib {
    /// With what was measured of the kernel's devices.
    pub fn new(kernel: Kernel) -> OverlayFib {
        OverlayFib { kernel, rows: BTreeMap::new() }
    }

    /// The sizes of packets that the figures have.
    pub fn sizes() -> Vec<usize> {
        let mut sizes = [SIZES, SIZES_ON_LINK].concat();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Measures a figure; `progress` is told how many protocols are done, and of how many.
    ///
    /// # Errors
    /// When there is no such figure, or a packet does not take its way.
    pub fn figure(
        &mut self,
        name: &str,
        windows: &Windows,
        progress: &dyn Fn(usize, usize),
    ) -> Result<Figure> {
        match name {
            "3" => self.cycles(NORMAL, windows, progress),
            "7" => self.cycles(OFFLOAD, windows, progress),
            "software" => self.cycles(SOFTWARE, windows, progress),
            "table2" => self.table(None, windows, progress),
            _ => match name.strip_prefix("table2-").and_then(|link| link.parse().ok()) {
                Some(link @ (10 | 40 | 80)) => self.table(Some(link), windows, progress),
                _ => Err(super::unknown(name, &NAMES)),
            },
        }
    }

    /// The row of a protocol, measured if it was not yet.
    fn row(&mut self, subject: usize, size: usize, windows: &Windows) -> Result<&Row> {
        Ok(match self.rows.entry((subject, size)) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(place) => {
                let (packets, count) = (windows.packets, windows.count);
                place.insert(path::measure(&SUBJECTS[subject], (ENTRIES, size), (packets, count))?)
            }
        })
    }

    /// What the kernel's device takes.
    fn kernel(&self, name: &str, size: usize) -> Option<Spread> {
        self.kernel
            .rows
            .iter()
            .find(|row| (row.name.as_str(), row.size) == (name, size))
            .map(|row| row.cycles)
    }

    /// Figures 3 and 7: cycles by part.
    fn cycles(&mut self, way: usize, windows: &Windows, progress: &dyn Fn(usize, usize)) -> Result<Figure> {
        const SIZE: usize = SIZES[0];
        // Any protocol's way without a tunnel; VXLAN's has all of the hosts.
        const PLAIN: usize = 3;
        let plain = self.row(PLAIN, SIZE, windows)?.parts[NONE];
        let mut bars = vec![(kernel::NONE, plain, Some(PAPER_NONE))];
        for (n, subject) in SUBJECTS.iter().enumerate() {
            progress(n, SUBJECTS.len());
            let parts = self.row(n, SIZE, windows)?.parts[way];
            let paper = PAPER_CYCLES.get(n).map(|cycles| cycles[usize::from(way != NORMAL)]);
            bars.push((subject.name, parts, paper));
        }
        let empty = |name: &str| Series { name: name.to_owned(), points: vec![] };
        let mut series: Vec<Series> = PARTS.iter().map(|part| empty(part)).collect();
        let (mut paper, mut kernel) = (empty("the paper"), empty("this kernel"));
        for (n, (name, parts, cycles)) in bars.iter().enumerate() {
            let x = n as f64;
            series.iter_mut().zip(parts).for_each(|(series, part)| series.points.push((x, *part)));
            paper.points.extend(cycles.map(|cycles| (x, Spread::of(vec![cycles]))));
            let measured = self.kernel(name, SIZE).filter(|_| way == NORMAL);
            kernel.points.extend(measured.map(|spread| (x, spread)));
        }
        series.retain(|series| series.points.iter().any(|(_, part)| part.max > 0.0));
        let stacked = series.len();
        series.extend([paper, kernel].into_iter().filter(|series| !series.points.is_empty()));
        let labels = bars.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let (number, title, here) = in_words(way);
        Ok(Figure {
            number,
            title,
            here,
            paper: Some("CPU cycles of Linux 4.2: the bars beside, scaled to be as high without a tunnel"),
            x: "protocol",
            y: "TSC cycles per packet",
            notes: self.notes(),
            series,
            bars: Some(Bars { labels, stacked }),
        })
    }

    /// Table 2: Gbit/s of packets, as the paper counts them, without a link or by one.
    fn table(
        &mut self,
        link: Option<u32>,
        windows: &Windows,
        progress: &dyn Fn(usize, usize),
    ) -> Result<Figure> {
        let sizes = if link.is_some() { SIZES_ON_LINK } else { SIZES };
        let names = ["normal", "overlay FIB", "overlay FIB in the NIC", "this kernel", "the paper, normal"];
        let last = if link.is_some() { "the paper, FIB in the driver" } else { "the paper, FIB in the NIC" };
        let empty = |name: &&str| Series { name: (*name).to_owned(), points: vec![] };
        let mut series: Vec<Series> = names.iter().chain([&last]).map(empty).collect();
        let (mut labels, mut gains) = (vec![], vec![]);
        for (n, subject) in SUBJECTS.iter().enumerate() {
            for (place, size) in sizes.into_iter().enumerate() {
                progress(2 * n + place, 2 * SUBJECTS.len());
                let row = self.row(n, size, windows)?;
                let (whole, frame) = (row.whole, row.frame);
                let rate = |cycles: Spread| rate(cycles, size, frame, link, windows.tsc_hz);
                let x = labels.len() as f64;
                for (series, way) in series.iter_mut().zip([NORMAL, SOFTWARE, OFFLOAD]) {
                    series.points.push((x, rate(whole[way])));
                }
                let kernel = self.kernel(subject.name, size).map(rate);
                series[MEASURED - 1].points.extend(kernel.map(|rate| (x, rate)));
                let paper = if link.is_some() { &PAPER_IXGBE } else { &PAPER_DUMMY };
                let paper = paper.get(n).filter(|_| link.is_none_or(|link| link == 10)).map(|it| it[place]);
                for (series, way) in series.iter_mut().skip(MEASURED).zip(0..) {
                    let value = paper.map(|values| (x, Spread::of(vec![values[way]])));
                    series.points.extend(value);
                }
                let label = format!("{} {size}", subject.name);
                gains.push(gain(
                    &label,
                    [0, 1, 2].map(|way| series[way].points[labels.len()].1.median),
                    paper,
                ));
                labels.push(label);
            }
        }
        series.retain(|series| !series.points.is_empty());
        let (title, here, paper) = about_table(link);
        Ok(Figure {
            number: None,
            title,
            here,
            paper: Some(paper),
            x: "protocol and size",
            y: "Gbit/s of packets",
            notes: [gains, self.notes()].concat(),
            series,
            bars: Some(Bars { labels, stacked: 0 }),
        })
    }

    fn notes(&self) -> Vec<String> {
        let nsh = "NSH: VXLAN-GPE with IPv4 packets behind the service header; the paper's carried frames";
        [self.kernel.notes.clone(), vec![nsh.to_owned()]].concat()
    }
}

/// By how much both ways with the overlay's table are faster than the normal one, from the rates of
/// all three, and what the paper has of normal and one of them.
fn gain(label: &str, [normal, software, nic]: [f64; 3], paper: Option<[f64; 2]>) -> String {
    let paper = paper.map_or(String::new(), |[normal, with]| format!(", the paper {:.2}", with / normal));
    let (software, nic) = (software / normal, nic / normal);
    format!("{label}: {software:.2} times normal, in the NIC {nic:.2}{paper}")
}

/// The title of Table 2 by a link of so many Gbit/s, what was done here, and what in the paper.
fn about_table(link: Option<u32>) -> (&'static str, &'static str, &'static str) {
    let title = match link {
        None => "Table 2, without a link",
        Some(10) => "Table 2, a link of 10 Gbit/s",
        Some(40) => "Table 2, a link of 40 Gbit/s",
        Some(_) => "Table 2, a link of 80 Gbit/s",
    };
    let here = match link {
        None => {
            "one core, packets in memory, 1,000 entries; bytes of the frame that a packet is without a tunnel"
        }
        Some(_) => {
            "as without a link, and no more than the link's frames with all headers: there is no wire here"
        }
    };
    let paper = match link {
        None => "Linux 4.2 sends to a dummy device; the table is in the NIC, whose part is not done",
        Some(10) => "Linux 4.2 and ixgbe, 10 Gbit/s; the table is in the driver",
        Some(_) => "has no such link",
    };
    (title, here, paper)
}

/// Number, title and what was done here, of figures of cycles.
fn in_words(way: usize) -> (Option<u32>, &'static str, &'static str) {
    match way {
        NORMAL => (
            Some(3),
            "sending a packet into a tunnel by two passes, 64 bytes",
            "one core, 1,000 entries and hosts inside; each part is done for 32 packets and timed by itself",
        ),
        OFFLOAD => (
            Some(7),
            "the host's part where the overlay FIB is in the NIC, 64 bytes",
            "the tunnel's own header is put in front of packets, and nothing else; no NIC takes them",
        ),
        _ => (
            None,
            "sending a packet into a tunnel by the overlay FIB in software, 64 bytes",
            "one core, 1,000 entries and hosts inside; the table's lookup, all headers and its counters",
        ),
    }
}

/// What is sent in so many cycles a packet, in Gbit/s of packets of so many bytes, and by a link no
/// more than it carries of their frames.
fn rate(cycles: Spread, size: usize, frame: usize, link: Option<u32>, tsc_hz: u64) -> Spread {
    let bits = (size * 8) as f64;
    let most = link
        .map_or(f64::INFINITY, |link| f64::from(link) * bits / ((frame.max(SHORTEST) + ON_WIRE) * 8) as f64);
    let of = |cycles: f64| (bits * tsc_hz as f64 / cycles / 1e9).min(most);
    Spread { min: of(cycles.max), median: of(cycles.median), max: of(cycles.min) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows() -> Windows {
        Windows { packets: 1024, count: 1, cores: vec![0], tsc_hz: 1_000_000_000 }
    }

    /// What the paper's 10 Gbit/s let through is what its frames leave: Table 2's figures that the
    /// link limits. (Its 9.73 of GRETAP are more than the wire carries.)
    #[test]
    fn a_link_carries_what_the_papers_did() {
        let quick = Spread { min: 1.0, median: 1.0, max: 1.0 };
        let of = |frame| rate(quick, 1024, frame, Some(10), 1_000_000_000).median;
        for (frame, paper) in [(1024 + 20, 9.58), (1024 + 24, 9.55), (1024 + 38, 9.43), (1024 + 50, 9.32)] {
            assert!((of(frame) - paper).abs() < 0.01, "{}, not {paper}", of(frame));
        }
        assert!((of(1024 + 50 + 24) - 9.13).abs() < 0.01);
        // Without a link: packets a second times their bits.
        let slow = Spread { min: 500.0, median: 1000.0, max: 2000.0 };
        let spread = rate(slow, 1250, 1300, None, 1_000_000_000);
        assert_eq!((spread.min, spread.median, spread.max), (5.0, 10.0, 20.0));
    }

    #[test]
    fn figures_have_a_bar_for_each_protocol_and_the_papers_beside() {
        let rows = vec![kernel::KernelRow {
            name: "VXLAN".to_owned(),
            size: 64,
            cycles: Spread { min: 1.0, median: 2.0, max: 3.0 },
        }];
        let mut all = OverlayFib::new(Kernel { rows, notes: vec!["one device".to_owned()] });
        for (name, stacked) in [("3", 5), ("7", 3), ("software", 3)] {
            let figure = all.figure(name, &windows(), &|_, _| ()).expect("a figure");
            let bars = figure.bars.expect("bars");
            assert_eq!((bars.stacked, bars.labels.len()), (stacked, SUBJECTS.len() + 1), "{name}");
            let beside: Vec<&str> = figure.series[stacked..].iter().map(|series| &*series.name).collect();
            let kernel = if name == "3" { &["the paper", "this kernel"][..] } else { &["the paper"] };
            assert_eq!(beside, kernel);
            assert_eq!(figure.series[stacked].points.len(), OF_PAPER + 1);
        }
        for (name, sizes) in [("table2", "IPIP 1500"), ("table2-40", "IPIP 1024")] {
            let figure = all.figure(name, &windows(), &|_, _| ()).expect("a figure");
            let bars = figure.bars.expect("bars");
            assert_eq!((bars.stacked, bars.labels.len(), &*bars.labels[1]), (0, 2 * SUBJECTS.len(), sizes));
            assert!(figure.series[..3].iter().all(|series| series.points.len() == bars.labels.len()));
            assert!(figure.notes.iter().any(|note| note.starts_with("VXLAN 64: ")), "{:?}", figure.notes);
        }
        assert!(all.figure("table2-25", &windows(), &|_, _| ()).is_err());
        assert!(all.figure("8", &windows(), &|_, _| ()).is_err());
    }
}
