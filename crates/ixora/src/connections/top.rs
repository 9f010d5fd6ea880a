//! `ixora tcp top`: what each connection moved between two looks, most first.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::listing::{Connection, Listing};
use super::show::ask;
use crate::Failure;
use crate::rate::duration;
use crate::terminal::{FullScreen, Key, Line, Style};

/// What `ixora tcp top` takes.
#[derive(Args, Debug)]
pub struct Top {
    /// The socket that the server listens at (`serve --control`).
    pub control: PathBuf,
    /// Time between two looks.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// Connections to look at, at most.
    #[arg(long, default_value_t = 10_000)]
    pub limit: usize,
    /// Print one table and end.
    #[arg(long)]
    pub once: bool,
    /// With --once: as JSON.
    #[arg(long, requires = "once")]
    pub json: bool,
}

/// What a connection did between two looks.
struct Row {
    connection: Connection,
    /// Bytes in a second that the other side acknowledged, and that came.
    sent: f64,
    received: f64,
    /// Segments in a second that were sent again.
    resent: f64,
}

/// What was told of the connections at one time.
struct Sample {
    listing: Listing,
    taken: Instant,
}

impl Sample {
    fn new(top: &Top) -> Result<Sample, Failure> {
        let listing = ask(&top.control, top.limit, &[])?;
        Ok(Sample { listing, taken: Instant::now() })
    }
}

/// Who a connection is.
fn ends(connection: &Connection) -> (SocketAddr, SocketAddr) {
    (connection.local, connection.remote)
}

/// What happened between two looks, who moved most first.
fn compare(before: &Sample, now: &Sample) -> Vec<Row> {
    let seconds = (now.taken - before.taken).as_secs_f64().max(1e-9);
    let earlier: HashMap<_, _> = before.listing.connections.iter().map(|it| (ends(it), it)).collect();
    let mut rows: Vec<Row> = now
        .listing
        .connections
        .iter()
        .map(|it| {
            // Another one between the same ends has counted less. One that was not listed before may
            // be old: what it has moved in all its life is not of this time.
            let was = earlier.get(&ends(it)).filter(|was| was.bytes_received <= it.bytes_received);
            let since = |of: fn(&Connection) -> u64| {
                was.map_or(0, |was| of(it).saturating_sub(of(was))) as f64 / seconds
            };
            Row {
                connection: it.clone(),
                sent: since(|it| it.bytes_acknowledged),
                received: since(|it| it.bytes_received),
                resent: since(|it| it.retransmits.into()),
            }
        })
        .collect();
    rows.sort_by(|a, b| (b.sent + b.received).total_cmp(&(a.sent + a.received)));
    rows
}

/// Runs the command.
pub fn run(top: &Top) -> Result<(), Failure> {
    let before = Sample::new(top)?;
    if !top.once && std::io::stdout().is_terminal() {
        return watch(top, before);
    }
    std::thread::sleep(top.interval);
    let now = Sample::new(top)?;
    let rows = compare(&before, &now);
    match top.json {
        true => println!("{:#}", as_json(&rows, &now.listing)),
        false => lines(&rows, &now.listing).iter().for_each(|line| println!("{}", line.text)),
    }
    Ok(())
}

fn as_json(rows: &[Row], listing: &Listing) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "local": row.connection.local, "remote": row.connection.remote,
                "state": row.connection.state, "sent_bytes_per_second": row.sent,
                "received_bytes_per_second": row.received, "retransmits_per_second": row.resent,
                "rtt_us": row.connection.rtt_us, "send_queue": row.connection.send_queue,
            })
        })
        .collect();
    json!({ "connections": rows, "more": listing.more, "kept_packets": listing.kept_packets })
}

/// The lines of the table for a terminal.
fn lines(rows: &[Row], listing: &Listing) -> Vec<Line> {
    let line = |style, text| Line { style, text };
    let open = rows.len().saturating_add(listing.more);
    let (sent, received) = rows.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.sent, sum.1 + it.received));
    let mut all = vec![
        line(
            Style::Bold,
            format!(
                "{open} connections, {} packets kept, out {} Mbit/s, in {} Mbit/s",
                listing.kept_packets,
                megabits(sent),
                megabits(received)
            ),
        ),
        line(
            Style::Underlined,
            format!(
                "{:<10} {:<24} {:>10} {:>10} {:>9} {:>9} {:>8} {:>8}",
                "State", "Peer", "out Mbit/s", "in Mbit/s", "rtt ms", "cwnd kB", "Send-Q", "again/s"
            ),
        ),
    ];
    all.extend(rows.iter().map(|row| {
        let it = &row.connection;
        let style = if row.resent > 0.0 { Style::Yellow } else { Style::Plain };
        let text = format!(
            "{:<10} {:<24} {:>10} {:>10} {:>9.3} {:>9.1} {:>8} {:>8.1}",
            it.state,
            it.remote.to_string(),
            megabits(row.sent),
            megabits(row.received),
            it.rtt_us as f64 / 1000.0,
            f64::from(it.congestion_window) / 1000.0,
            it.send_queue,
            row.resent
        );
        line(style, text)
    }));
    all
}

fn megabits(bytes: f64) -> String {
    format!("{:.3}", bytes * 8.0 / 1e6)
}

/// The live view, until somebody has seen enough or the server ends.
fn watch(top: &Top, mut before: Sample) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("terminal: {error}"));
    let mut terminal = FullScreen::new().map_err(failed)?;
    let mut shown = lines(&compare(&before, &before), &before.listing);
    loop {
        terminal.draw(&shown).map_err(failed)?;
        let left = top.interval.saturating_sub(before.taken.elapsed());
        let keys = terminal.keys(left).map_err(failed)?;
        if keys.iter().any(|key| matches!(key, Key::Char('q') | Key::Interrupt | Key::Escape)) {
            return Ok(());
        }
        if before.taken.elapsed() >= top.interval {
            let now = Sample::new(top)?;
            shown = lines(&compare(&before, &now), &now.listing);
            before = now;
        }
    }
}
