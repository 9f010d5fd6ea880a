//! Tables that strangers fill: what a packet costs whose key no packet had before, while a
//! table fills, when it is full, and what memory that takes.
//!
//! Each [`Case`] is a router around one element, with a source of packets with distinct keys in
//! front of it, a host with clients of distinct addresses, or a table alone that is given keys.
//! What it takes to make the packets is left out, and what the router, the host or the table
//! takes is measured in windows. Time is simulated and stands still: nothing expires, which is
//! as if all packets came at once.

mod cases;
mod hosts;
mod keys;
mod packets;
mod strangers;

use std::sync::Arc;

use graph::Router;
use graph::clock::{Clock, SIMULATION_START_NS};
use serde::{Deserialize, Serialize};

use crate::graph::window;
use crate::{Error, Result};

pub use cases::{CASES, Case};

/// Packets from one number to before another, and what each of them took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The first packet's number.
    pub from: u64,
    /// Behind the last one.
    pub to: u64,
    /// TSC cycles for each.
    pub cycles_per_packet: f64,
}

/// A counter of a loss or an eviction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// The reason of a drop, or a handler.
    pub name: String,
    /// Packets or entries.
    pub count: u64,
}

/// What a table cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The name of the case, one of [`CASES`].
    pub case: String,
    /// Packets that came.
    pub packets: u64,
    /// What they cost, the first first.
    pub windows: Vec<Window>,
    /// Entries in the end.
    pub entries: u64,
    /// The most that there may be.
    pub bound: u64,
    /// Bytes by which the process grew.
    pub bytes: u64,
    /// What is counted, where it is not zero.
    pub counters: Vec<Counter>,
}

impl Figures {
    /// Bytes for each entry.
    pub fn bytes_per_entry(&self) -> f64 {
        self.bytes as f64 / self.entries.max(1) as f64
    }
}

/// Sends so many packets to a case's table. What memory it took is told well only by a process
/// that measures nothing else.
///
/// # Errors
/// When there is no case of this name, or its router cannot be built.
pub fn measure(name: &str, packets: u64) -> Result<Figures> {
    let case = CASES.iter().find(|case| case.name == name).ok_or_else(|| {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        Error::usage(format!("there is no table {name:?}"), format!("write one of {}", names.join(", ")))
    })?;
    if let Some(client) = case.client {
        return hosts::measure(case, client, packets);
    }
    if let Some(table) = case.table {
        return keys::measure(case, table()?, packets);
    }
    let mut router = build(&case.router(packets))?;
    let before = resident();
    router.run();
    let bytes = resident().saturating_sub(before);
    let mut number = |handler: &str| {
        let text = router.read(handler, "").unwrap_or_default();
        text.trim().parse::<u64>().map_err(|_| Error::new(format!("{name}: {handler} says {text:?}")))
    };
    let entries = number(&format!("table.{}", case.entries))?;
    let mut counters = vec![];
    for handler in case.counters {
        counters.push(Counter { name: (*handler).into(), count: number(&format!("table.{handler}"))? });
    }
    counters.extend(drops(&mut router));
    counters.retain(|counter| counter.count > 0);
    let windows = router.read("strangers.windows", "").unwrap_or_default();
    let windows = windows.lines().filter_map(strangers::parse).collect();
    Ok(Figures { case: name.into(), packets, windows, entries, bound: case.bound, bytes, counters })
}

/// A router whose time stands still.
fn build(text: &str) -> Result<Router> {
    let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
    window::build(
        text,
        vec![],
        &[&strangers::CLASS],
        graph::Options { threads: 1, clock, ..Default::default() },
    )
}

/// What the table dropped, by its class's reasons.
fn drops(router: &mut Router) -> Vec<Counter> {
    let names = router.read("list", "").unwrap_or_default();
    let Some(place) = names.lines().skip(1).position(|name| name == "table") else { return vec![] };
    let class = router.read("table.class", "").unwrap_or_default();
    let registry = element::registry().with(analysis::registry());
    let reasons = registry.find(class.trim()).map_or(&[][..], |class| class.drops);
    let counts = &router.lanes()[0].counters(place).drops;
    let counter =
        |(reason, count): (&port::Reason, &u64)| Counter { name: reason.name().into(), count: *count };
    reasons.iter().zip(counts).map(counter).collect()
}

/// Bytes of memory that only this process has; packets' buffers are not among them.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every table is filled with more keys than some of them keep.
    #[test]
    fn tables_stay_within_their_bounds_and_count_what_they_forget() {
        let mut wrong = vec![];
        for case in CASES {
            let figures = match measure(case.name, 20_000) {
                Ok(figures) => figures,
                Err(error) => {
                    wrong.push(format!("{}: {error}", case.name));
                    continue;
                }
            };
            let ends = (figures.windows.first().map(|w| w.from), figures.windows.last().map(|w| w.to));
            let forgotten: u64 = figures.counters.iter().map(|counter| counter.count).sum();
            let is_well = (1..=case.bound).contains(&figures.entries)
                && ends == (Some(0), Some(20_000))
                && figures.windows.iter().all(|window| window.cycles_per_packet > 0.0)
                && (figures.entries == 20_000 || forgotten > 0);
            wrong.extend((!is_well).then(|| format!("{figures:?}")));
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
