//! `ixora top`: rates, cycles and drops by element of a router that runs, or of the tunnels of
//! an overlay, through its control socket or its metrics.

mod rates;
mod sample;
mod screen;
mod source;
mod table;

use std::io::IsTerminal;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::Failure;
use crate::rate::duration;
use crate::terminal::FullScreen;
use rates::{PortRate, Rates, TunnelRate, compare};
pub use sample::Sample;
use screen::Screen;
use source::Source;

/// What `ixora top` takes.
#[derive(Args, Debug)]
pub struct Top {
    /// A control socket (a UNIX socket's file, PORT, or HOST:PORT; of `overlay run --control`,
    /// too), or metrics (http://HOST:PORT).
    #[arg(value_name = "SOCKET", default_value = "127.0.0.1:7777")]
    pub place: String,
    /// Time between two looks.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// What comes first.
    #[arg(long, value_enum, default_value = "graph")]
    pub sort: Order,
    /// Print one table and end.
    #[arg(long)]
    pub once: bool,
    /// With --once: as JSON.
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Do not have the router count packets and cycles if it does not.
    #[arg(long)]
    pub no_measure: bool,
}

/// What elements are sorted by.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As in the configuration.
    Graph,
    /// Packets per second, most first.
    Packets,
    /// Cycles, most first.
    Cycles,
    /// Drops, most first.
    Drops,
}

impl Order {
    /// The next one, round and round.
    pub fn next(self) -> Order {
        match self {
            Order::Graph => Order::Packets,
            Order::Packets => Order::Cycles,
            Order::Cycles => Order::Drops,
            Order::Drops => Order::Graph,
        }
    }
}

/// Runs the command.
pub fn run(top: &Top) -> Result<(), Failure> {
    let mut source = Source::connect(&top.place)?;
    let was_measured = source.sample()?.measured;
    let switched = !was_measured && !top.no_measure && source.measure(true)?;
    let terminal = std::io::stdout().is_terminal();
    let result = match top.once || !terminal {
        true => once(top, &mut source),
        false => watch(top, &mut source),
    };
    if switched {
        // It costs little; a router that is gone counts no longer anyhow.
        let _ = source.measure(false);
    }
    result
}

/// Two looks, and what happened between them.
fn once(top: &Top, source: &mut Source) -> Result<(), Failure> {
    let before = source.sample()?;
    std::thread::sleep(top.interval);
    let rates = compare(&before, &source.sample()?);
    match top.json {
        true => println!("{:#}", as_json(&rates)),
        false => print!("{}", screen::text(&rates, top.sort)),
    }
    Ok(())
}

fn as_json(rates: &Rates) -> Value {
    let elements: Vec<Value> = rates
        .elements
        .iter()
        .map(|e| {
            let drops: serde_json::Map<String, Value> = e
                .drops
                .iter()
                .map(|d| (d.reason.clone(), json!({ "per_second": d.per_second, "total": d.total })))
                .collect();
            json!({
                "name": e.name, "class": e.class, "packets": e.packets, "packets_per_second": e.per_second,
                "packets_per_batch": e.per_batch, "cycles_per_packet": e.cycles_per_packet,
                "core": e.core, "drops": drops,
            })
        })
        .collect();
    json!({
        "seconds": rates.seconds, "tsc_hz": rates.tsc_hz, "threads": rates.threads,
        "measured": rates.measured, "elements": elements, "ports": ports_json(rates),
        "tunnels": tunnels_json(rates), "entries": rates.tunnels.as_ref().map(|_| rates.entries),
    })
}

/// `null` of a router.
fn tunnels_json(rates: &Rates) -> Value {
    let Some(tunnels) = &rates.tunnels else { return Value::Null };
    let tunnel = |it: &TunnelRate| {
        json!({
            "network": it.network, "far_end": it.far_end, "entries": it.entries, "packets": it.packets,
            "packets_per_second": it.per_second, "bytes_per_second": it.bytes_per_second,
        })
    };
    tunnels.iter().map(tunnel).collect()
}

fn ports_json(rates: &Rates) -> Vec<Value> {
    let port = |port: &PortRate| {
        let losses: serde_json::Map<String, Value> = port
            .losses
            .iter()
            .map(|d| (d.reason.clone(), json!({ "per_second": d.per_second, "total": d.total })))
            .collect();
        json!({
            "name": port.name, "link": port.link.map(|link| link.to_string()), "losses": losses,
            "rx_packets_per_second": port.rx.iter().sum::<f64>(), "rx_queues": port.rx,
            "tx_packets_per_second": port.tx.iter().sum::<f64>(), "tx_queues": port.tx,
        })
    };
    rates.ports.iter().map(port).collect()
}

/// The live view, until somebody has seen enough or the router ends.
fn watch(top: &Top, source: &mut Source) -> Result<(), Failure> {
    let mut before = source.sample()?;
    let mut screen = Screen::new(&top.place, top.sort, compare(&before, &before));
    let mut terminal = FullScreen::new().map_err(|e| Failure::new(format!("no terminal: {e}")))?;
    while step(top, source, &mut before, &mut screen, &mut terminal)? {}
    Ok(())
}

/// Draws, and waits for a key or for the next look; false when that was the last.
fn step(
    top: &Top,
    source: &mut Source,
    before: &mut Sample,
    screen: &mut Screen,
    terminal: &mut FullScreen,
) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("terminal: {error}"));
    terminal.draw(&screen.lines(terminal.size())).map_err(failed)?;
    let left = top.interval.saturating_sub(before.taken.elapsed());
    let keys = terminal.keys(left).map_err(failed)?;
    if before.taken.elapsed() >= top.interval {
        let now = source.sample()?;
        screen.show(compare(before, &now));
        *before = now;
    }
    Ok(keys.into_iter().all(|key| screen.key(key)))
}
