//! What happened between two looks at a router.

use std::collections::HashMap;

use super::sample::{Row, Sample};

/// Packets dropped for a reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Dropped {
    /// The reason.
    pub reason: String,
    /// Packets per second between the last two samples.
    pub per_second: f64,
    /// Packets since the router started.
    pub total: u64,
}

/// What an element did.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets ever.
    pub packets: u64,
    /// Packets per second.
    pub per_second: f64,
    /// Packets in a batch, on average.
    pub per_batch: f64,
    /// TSC cycles for each packet; `None` without packets.
    pub cycles_per_packet: Option<f64>,
    /// The part of one core it took, 0 to 1; of several threads together it may be
    /// more.
    pub core: f64,
    /// Drops, by reason.
    pub drops: Vec<Dropped>,
}

impl Rate {
    /// Drops for all reasons, per second.
    pub fn drops_per_second(&self) -> f64 {
        self.drops.iter().map(|d| d.per_second).sum()
    }
}

/// What all of them did.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// The time between the looks.
    pub seconds: f64,
    /// How fast the router's time stamp counter ticks.
    pub tsc_hz: f64,
    /// Its threads.
    pub threads: usize,
    /// Whether packets and cycles are counted.
    pub measured: bool,
    /// Its elements, in the configuration's order.
    pub elements: Vec<Rate>,
}

/// What happened between two looks. Counters that went back began anew: the router
/// was replaced.
pub fn compare(before: &Sample, now: &Sample) -> Rates {
    let seconds = now.taken.duration_since(before.taken).as_secs_f64().max(1e-6);
    let ticks = now.tsc.saturating_sub(before.tsc) as f64;
    let old: HashMap<&str, &Row> = before.rows.iter().map(|row| (row.name.as_str(), row)).collect();
    let nothing = Row::default();
    let rate = |row: &Row| {
        let was = old.get(row.name.as_str()).copied().unwrap_or(&nothing);
        let more = |now: u64, was: u64| now.checked_sub(was).unwrap_or(now) as f64;
        let (packets, batches) = (more(row.packets, was.packets), more(row.batches, was.batches));
        let cycles = more(row.cycles, was.cycles);
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let dropped = |(reason, total): &(String, u64)| {
            let before = was.drops.iter().find(|(r, _)| r == reason).map_or(0, |(_, count)| *count);
            Dropped { reason: reason.clone(), per_second: more(*total, before) / seconds, total: *total }
        };
        Rate {
            name: row.name.clone(),
            class: row.class.clone(),
            packets: row.packets,
            per_second: packets / seconds,
            per_batch: ratio(packets, batches),
            cycles_per_packet: (packets > 0.0).then_some(cycles / packets),
            core: ratio(cycles, ticks),
            drops: row.drops.iter().map(dropped).collect(),
        }
    };
    Rates {
        seconds,
        tsc_hz: ticks / seconds,
        threads: now.threads,
        measured: now.measured,
        elements: now.rows.iter().map(rate).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn sample(taken: Instant, tsc: u64, (packets, batches, cycles, drops): (u64, u64, u64, u64)) -> Sample {
        let drops = vec![("full".to_string(), drops)];
        let row = Row { name: "q".into(), class: "Queue".into(), packets, batches, cycles, drops };
        Sample { taken, tsc, threads: 1, measured: true, rows: vec![row] }
    }

    #[test]
    fn rates_are_differences() {
        let start = Instant::now();
        let before = sample(start, 1000, (100, 10, 5000, 3));
        let now = sample(start + Duration::from_secs(2), 21000, (300, 20, 15000, 7));
        let rates = compare(&before, &now);
        let q = &rates.elements[0];
        assert_eq!((q.per_second, q.per_batch, q.cycles_per_packet), (100.0, 20.0, Some(50.0)));
        assert_eq!((q.core, q.drops_per_second(), q.drops[0].total), (0.5, 2.0, 7));
        assert_eq!(rates.tsc_hz, 10_000.0);
    }

    #[test]
    fn a_router_that_was_replaced_begins_anew() {
        let start = Instant::now();
        let before = sample(start, 1000, (1000, 10, 5000, 3));
        let now = sample(start + Duration::from_secs(1), 2000, (10, 1, 100, 0));
        assert_eq!(compare(&before, &now).elements[0].per_second, 10.0);
        assert_eq!(compare(&before, &before).elements[0].cycles_per_packet, None);
    }
}
