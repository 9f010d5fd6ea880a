//! The live line: what happens now, on standard error, once a second.

use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use port::loss::CountedBy;
use runtime::{LOSSES, Progress, Running};

use crate::cli::PortOptions;
use crate::open::Ports;
use crate::rate;
use crate::run::Watch;

/// What was shown last, to show differences.
#[derive(Clone, Copy, Default)]
struct Seen {
    packets: u64,
    turns: u64,
    empty: u64,
    busy: u64,
}

impl Seen {
    fn now(progress: &Progress) -> Seen {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Seen {
            packets: load(&progress.packets),
            turns: load(&progress.turns),
            empty: load(&progress.empty),
            busy: load(&progress.busy),
        }
    }
}

/// Watches until the pollers are done, their time is over, a signal came or a device
/// is lost.
pub fn watch(ports: &mut Ports, running: &Running, options: &PortOptions, start: Instant, watch: &Watch<'_>) {
    let progress = running.progress();
    let silent = options.quiet || options.json;
    let terminal = std::io::stderr().is_terminal();
    let end = options.duration.map(|duration| start + duration);
    let mut shown = (start, Seen::default());
    let mut open = false; // a line that was begun and not ended
    while running.is_running() {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) || watch.lost(ports).is_some() {
            break;
        }
        (watch.look)(ports);
        let now = Instant::now(); // a port may not have answered for long
        if now - shown.0 >= Duration::from_secs(1) && !silent {
            let seen = Seen::now(progress);
            show(&line(ports, progress, shown.1, seen, now - shown.0), terminal);
            shown = (now, seen);
            open = terminal;
        }
        let left = end.map_or(Duration::MAX, |end| end - now);
        running.wait(left.min(Duration::from_millis(20)));
    }
    if open {
        eprintln!();
    }
}

fn show(line: &str, terminal: bool) {
    let mut out = std::io::stderr().lock();
    // Nobody to read it is no reason to stop.
    let _ = match terminal {
        true => write!(out, "\r\x1b[K{line}").and_then(|()| out.flush()),
        false => writeln!(out, "{line}"),
    };
}

fn line(ports: &mut Ports, progress: &Progress, before: Seen, now: Seen, elapsed: Duration) -> String {
    let packets = now.packets - before.packets;
    let full = (now.turns - before.turns) - (now.empty - before.empty);
    let ratio = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
    let mut line = format!(
        "{:>12}  {:6.1} cycles/packet  batch fill {:5.1}  empty polls {:3.0} %",
        rate::per_second(packets as f64 / elapsed.as_secs_f64()),
        ratio(now.busy - before.busy, packets),
        ratio(packets, full),
        ratio(now.empty - before.empty, now.turns - before.turns) * 100.0,
    );
    let mut lost = std::collections::BTreeMap::<&'static str, u64>::new();
    // The ports count the other losses of the driver's themselves.
    for (reason, count) in LOSSES.into_iter().zip(&progress.lost) {
        match count.load(Ordering::Relaxed) {
            0 => {}
            count if reason.counted_by() == [CountedBy::Application] => {
                *lost.entry(reason.name()).or_default() += count;
            }
            _ => {}
        }
    }
    for port in &mut ports.list {
        for (reason, count) in port.stats().losses() {
            *lost.entry(reason.name()).or_default() += count;
        }
    }
    for (name, count) in lost {
        line.push_str(&format!("  {name} {count}"));
    }
    line
}
