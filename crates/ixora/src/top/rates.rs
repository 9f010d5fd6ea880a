//! What happened between two looks at a router.

use std::collections::HashMap;

use super::sample::{PortRow, Row, Sample, TunnelRow};

/// From so many timings on cycles for each packet are told: fewer say little.
const TIMINGS: u64 = 8;

/// Packets dropped for a reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Dropped {
    /// The name of the reason.
    pub reason: String,
    /// Packets per second between the last two samples.
    pub per_second: f64,
    /// Packets since the router started.
    pub total: u64,
}

/// What an element did.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// The element's name.
    pub name: String,
    /// The name of the element's class.
    pub class: String,
    /// Packets since the router started.
    pub packets: u64,
    /// Packets per second.
    pub per_second: f64,
    /// Packets in a batch, on average.
    pub per_batch: f64,
    /// TSC cycles for each packet, between the looks or, where it was timed too seldom
    /// between them, since the router started; `None` where that is not known either.
    pub cycles_per_packet: Option<f64>,
    /// The part of one core it took, 0 to 1; of several threads together it may be
    /// more. `None` where it was timed too seldom to tell.
    pub core: Option<f64>,
    /// Drops, by reason.
    pub drops: Vec<Dropped>,
}

impl Rate {
    /// Drops for all reasons, per second.
    pub fn drops_per_second(&self) -> f64 {
        self.drops.iter().map(|d| d.per_second).sum()
    }
}

/// What a port did.
#[derive(Debug, Clone, PartialEq)]
pub struct PortRate {
    /// The port's name.
    pub name: String,
    /// Its link; `None` where that is not told.
    pub link: Option<port::Link>,
    /// Packets per second of each receive queue.
    pub rx: Vec<f64>,
    /// Packets per second of each transmit queue.
    pub tx: Vec<f64>,
    /// Losses, by name.
    pub losses: Vec<Dropped>,
}

impl PortRate {
    /// Losses for all reasons, per second.
    pub fn lost_per_second(&self) -> f64 {
        self.losses.iter().map(|loss| loss.per_second).sum()
    }
}

/// What a far end of tunnels got.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelRate {
    /// The number of the network.
    pub network: String,
    /// The far end.
    pub far_end: String,
    /// Entries that lead there; `None` where that is not told.
    pub entries: Option<u64>,
    /// Packets that went there.
    pub packets: u64,
    /// Packets per second.
    pub per_second: f64,
    /// Bytes per second, without outer headers.
    pub bytes_per_second: f64,
}

/// What all of them did.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// The time between the looks.
    pub seconds: f64,
    /// How fast the router's time stamp counter ticks.
    pub tsc_hz: f64,
    /// How many threads the router has.
    pub threads: usize,
    /// Whether packets and cycles are counted.
    pub measured: bool,
    /// Its elements, in the configuration's order.
    pub elements: Vec<Rate>,
    /// The router's ports.
    pub ports: Vec<PortRate>,
    /// Far ends of tunnels, where it is an overlay.
    pub tunnels: Option<Vec<TunnelRate>>,
    /// Entries of an overlay's networks.
    pub entries: u64,
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
        let (packets, batches) = (more(row.packets, was.packets), more(row.batches, was.batches));
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        Rate {
            name: row.name.clone(),
            class: row.class.clone(),
            packets: row.packets,
            per_second: packets / seconds,
            per_batch: ratio(packets, batches),
            cycles_per_packet: cycles_per_packet(was, row),
            core: core(was, row, ticks),
            drops: dropped(&row.drops, &was.drops, seconds),
        }
    };
    Rates {
        seconds,
        tsc_hz: ticks / seconds,
        threads: now.threads,
        measured: now.measured,
        elements: now.rows.iter().map(rate).collect(),
        ports: now.ports.iter().map(|row| port_rate(row, before, seconds)).collect(),
        tunnels: now.tunnels.as_ref().map(|now| tunnel_rates(now, before, seconds)),
        entries: now.entries,
    }
}

fn tunnel_rates(now: &[TunnelRow], before: &Sample, seconds: f64) -> Vec<TunnelRate> {
    let name = |row: &TunnelRow| (row.network.clone(), row.far_end.clone());
    let old: HashMap<(String, String), &TunnelRow> =
        before.tunnels.iter().flatten().map(|row| (name(row), row)).collect();
    let nothing = TunnelRow::default();
    let rate = |row: &TunnelRow| {
        // Where none was told of, this one may have been there for long.
        let unseen = if old.is_empty() { row } else { &nothing };
        let was = old.get(&name(row)).copied().unwrap_or(unseen);
        let (network, far_end) = name(row);
        TunnelRate {
            network,
            far_end,
            entries: row.entries,
            packets: row.packets,
            per_second: more(row.packets, was.packets) / seconds,
            bytes_per_second: more(row.bytes, was.bytes) / seconds,
        }
    };
    now.iter().map(rate).collect()
}

/// How much a counter grew; one that went back began anew.
fn more(now: u64, was: u64) -> f64 {
    now.checked_sub(was).unwrap_or(now) as f64
}

/// Some turns stand for many, so that few of them tell nothing.
fn cycles_per_packet(was: &Row, now: &Row) -> Option<f64> {
    let nothing = Row::default();
    let since = |was: &Row| {
        let (packets, cycles) = (more(now.packets, was.packets), more(now.cycles, was.cycles));
        let timed = more(now.timings, was.timings) >= TIMINGS as f64;
        (timed && packets > 0.0).then(|| cycles / packets)
    };
    let idle = now.packets == was.packets;
    if idle { None } else { since(was).or_else(|| since(&nothing)) }
}

/// The part of a core between the looks: as timed between them or, where that was too seldom, of
/// what a packet took since the router started.
fn core(was: &Row, now: &Row, ticks: f64) -> Option<f64> {
    let (packets, timings) = (more(now.packets, was.packets), more(now.timings, was.timings));
    let cycles = match () {
        () if timings >= TIMINGS as f64 => Some(more(now.cycles, was.cycles)),
        () if packets + timings == 0.0 => Some(0.0),
        () => cycles_per_packet(was, now).map(|each| each * packets),
    };
    cycles.map(|cycles| if ticks > 0.0 { cycles / ticks } else { 0.0 })
}

fn port_rate(row: &PortRow, before: &Sample, seconds: f64) -> PortRate {
    let nothing = PortRow::default();
    let was = before.ports.iter().find(|was| was.name == row.name).unwrap_or(&nothing);
    let rates = |now: &[u64], was: &[u64]| {
        let rate = |(n, now): (usize, &u64)| more(*now, was.get(n).copied().unwrap_or(0)) / seconds;
        now.iter().enumerate().map(rate).collect()
    };
    PortRate {
        name: row.name.clone(),
        link: row.up.map(|up| if up { port::Link::up(row.speed_mbps) } else { port::Link::DOWN }),
        rx: rates(&row.rx, &was.rx),
        tx: rates(&row.tx, &was.tx),
        losses: dropped(&row.losses, &was.losses, seconds),
    }
}

/// Drops or losses by reason, and how many came between two looks.
fn dropped(now: &[(String, u64)], was: &[(String, u64)], seconds: f64) -> Vec<Dropped> {
    let one = |(reason, total): &(String, u64)| {
        let before = was.iter().find(|(r, _)| r == reason).map_or(0, |(_, count)| *count);
        Dropped { reason: reason.clone(), per_second: more(*total, before) / seconds, total: *total }
    };
    now.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn sample(taken: Instant, tsc: u64, (packets, batches, cycles, drops): (u64, u64, u64, u64)) -> Sample {
        let drops = vec![("full".to_string(), drops)];
        let timings = batches;
        let row = Row { name: "q".into(), class: "Queue".into(), packets, batches, cycles, timings, drops };
        let port = PortRow {
            name: "p".into(),
            up: Some(true),
            speed_mbps: 10_000,
            rx: vec![packets, 2 * packets],
            tx: vec![],
            losses: vec![("rx_fifo_full".into(), batches)],
        };
        let (rows, ports) = (vec![row], vec![port]);
        Sample { taken, tsc, threads: 1, measured: true, rows, ports, tunnels: None, entries: 0 }
    }

    #[test]
    fn rates_are_differences() {
        let start = Instant::now();
        let before = sample(start, 1000, (100, 10, 5000, 3));
        let now = sample(start + Duration::from_secs(2), 21000, (300, 20, 15000, 7));
        let rates = compare(&before, &now);
        let q = &rates.elements[0];
        assert_eq!((q.per_second, q.per_batch, q.cycles_per_packet), (100.0, 20.0, Some(50.0)));
        assert_eq!((q.core, q.drops_per_second(), q.drops[0].total), (Some(0.5), 2.0, 7));
        assert_eq!(rates.tsc_hz, 10_000.0);
        let p = &rates.ports[0];
        assert_eq!(
            (p.rx.as_slice(), p.losses[0].per_second, p.losses[0].total),
            (&[100.0, 200.0][..], 5.0, 20)
        );
    }

    #[test]
    fn a_far_end_has_the_rates_of_its_counters() {
        let start = Instant::now();
        let row = |far_end: &str, packets| TunnelRow {
            network: "100".into(),
            far_end: far_end.into(),
            entries: Some(1),
            packets,
            bytes: packets * 100,
        };
        let sample = |seconds, rows| Sample {
            tunnels: Some(rows),
            ..sample(start + Duration::from_secs(seconds), 0, (0, 0, 0, 0))
        };
        let (before, now) = (sample(0, vec![row("a", 10)]), sample(2, vec![row("b", 6), row("a", 30)]));
        let rates = compare(&before, &now).tunnels.expect("an overlay");
        let rates: Vec<_> = rates.iter().map(|it| (it.per_second, it.bytes_per_second)).collect();
        assert_eq!(rates, [(3.0, 300.0), (10.0, 1000.0)]);
        // One to which nothing led meanwhile began anew.
        let anew = sample(4, vec![row("a", 8)]);
        assert_eq!(compare(&now, &anew).tunnels.expect("an overlay")[0].per_second, 4.0);
        assert_eq!(compare(&sample(2, vec![]), &anew).tunnels.expect("an overlay")[0].per_second, 0.0);
    }

    #[test]
    fn cycles_of_few_turns_are_not_told() {
        let row = |packets, cycles, timings| Row { packets, cycles, timings, ..Row::default() };
        // One turn in which the thread was put aside stands for 64.
        let (was, now) = (row(1000, 64_000, 10), row(1001, 64_000 + 3_059_996, 11));
        assert_eq!(cycles_per_packet(&Row::default(), &row(1, 3_059_996, 1)), None);
        assert_eq!(cycles_per_packet(&was, &now), Some((64_000.0 + 3_059_996.0) / 1001.0), "since the start");
        assert_eq!(cycles_per_packet(&was, &was), None, "nothing came");
        assert_eq!(cycles_per_packet(&was, &row(2000, 164_000, 20)), Some(100.0), "between the looks");
    }

    #[test]
    fn a_core_s_part_of_few_turns_is_not_told() {
        let row = |packets, cycles, timings| Row { packets, cycles, timings, ..Row::default() };
        let nothing = Row::default();
        // One turn in which the thread was put aside stands for 64: more than there were ticks.
        assert_eq!(core(&nothing, &row(1, 3_059_996, 1), 1e6), None);
        assert_eq!(
            core(&row(1000, 64_000, 10), &row(1500, 3_064_000, 11), 1e6),
            Some(3_064_000.0 / 1500.0 * 500.0 / 1e6)
        );
        assert_eq!(
            core(&row(1000, 64_000, 10), &row(2000, 164_000, 20), 1e6),
            Some(0.1),
            "between the looks"
        );
        assert_eq!(core(&nothing, &row(0, 100_000, 20), 1e6), Some(0.1), "without packets");
        assert_eq!(core(&nothing, &nothing, 1e6), Some(0.0), "nothing was to do");
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
