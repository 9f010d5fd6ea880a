//! What a run counted, for people and as JSON.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use port::{Counter, Reason, RxStats, TxStats};
use runtime::Progress;
use serde::Serialize;
use wire::MacAddress;

use crate::Failure;
use crate::open::{PortFindings, Ports};

/// One port's part.
#[derive(Debug, Clone, Serialize)]
pub struct PortSummary {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Its address.
    pub mac: String,
    /// Its link.
    pub link: String,
    /// Counters of the device, without those at zero.
    pub counters: BTreeMap<&'static str, u64>,
}

/// What a run counted.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The command.
    pub command: &'static str,
    /// How long it ran.
    pub seconds: f64,
    /// Packets moved: received, or sent where nothing is received.
    pub packets: u64,
    /// Millions of them per second.
    pub mpps: f64,
    /// TSC cycles of the calls that moved packets, for each packet.
    pub cycles_per_packet: f64,
    /// Packets in such a call.
    pub batch_fill: f64,
    /// Share of calls that moved none.
    pub empty_polls: f64,
    /// Packets received from devices.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets given to devices.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Lost packets, by name: the driver's and the devices'.
    pub losses: BTreeMap<&'static str, u64>,
    /// Things that are no loss by themselves, by name.
    pub notes: BTreeMap<&'static str, u64>,
    /// Buffers that did not come back to their pools.
    pub missing_buffers: u64,
    /// The ports.
    pub ports: Vec<PortSummary>,
    /// What the linter found, for each port that is a model; closing counts.
    pub findings: Vec<PortFindings>,
    /// What ended the run before its time.
    pub error: Option<String>,
}

impl Summary {
    /// Nothing counted yet.
    pub fn new(command: &'static str, elapsed: Duration) -> Summary {
        Summary {
            command,
            seconds: elapsed.as_secs_f64(),
            packets: 0,
            mpps: 0.0,
            cycles_per_packet: 0.0,
            batch_fill: 0.0,
            empty_polls: 0.0,
            rx_packets: 0,
            rx_bytes: 0,
            tx_packets: 0,
            tx_bytes: 0,
            losses: BTreeMap::new(),
            notes: BTreeMap::new(),
            missing_buffers: 0,
            ports: Vec::new(),
            findings: Vec::new(),
            error: None,
        }
    }

    /// Adds a receive queue's counters.
    pub fn add_rx(&mut self, rx: &RxStats) {
        self.rx_packets += rx.packets;
        self.rx_bytes += rx.bytes;
        self.note("no_buffer", rx.no_buffer);
    }

    /// Adds a transmit queue's counters.
    pub fn add_tx(&mut self, tx: &TxStats) {
        self.tx_packets += tx.packets;
        self.tx_bytes += tx.bytes;
        // A generator tries again; a forwarder has nowhere to keep them.
        match self.command {
            "pktgen" => self.note("ring_full", tx.ring_full),
            _ => self.lose(Reason::TxRingFull, tx.ring_full),
        }
    }

    /// Adds what an application counted: losses, and other things.
    pub fn add_counters(&mut self, counters: &[Counter]) {
        for counter in counters {
            match counter.loss {
                Some(reason) => self.lose(reason, counter.value),
                None => self.note(counter.name, counter.value),
            }
        }
    }

    fn lose(&mut self, reason: Reason, count: u64) {
        if count > 0 {
            *self.losses.entry(reason.name()).or_default() += count;
        }
    }

    fn note(&mut self, name: &'static str, count: u64) {
        if count > 0 {
            *self.notes.entry(name).or_default() += count;
        }
    }

    /// Adds what the threads and the ports counted.
    pub fn finish(&mut self, ports: &mut Ports, progress: &Progress) {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        self.packets = load(&progress.packets);
        let (turns, empty) = (load(&progress.turns), load(&progress.empty));
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        self.mpps = ratio(self.packets as f64, self.seconds) / 1e6;
        self.cycles_per_packet = ratio(load(&progress.busy) as f64, self.packets as f64);
        self.batch_fill = ratio(self.packets as f64, (turns - empty) as f64);
        self.empty_polls = ratio(empty as f64, turns as f64);
        for port in &mut ports.list {
            let stats = port.stats();
            for (reason, count) in stats.losses() {
                self.lose(reason, count);
            }
            let counted = stats.counters.iter().filter(|c| c.value > 0);
            self.ports.push(PortSummary {
                name: port.name().to_owned(),
                driver: port.capabilities().driver,
                mac: MacAddress(port.mac()).to_string(),
                link: port.link().to_string(),
                counters: counted.map(|c| (c.name, c.value)).collect(),
            });
        }
    }

    /// Prints it.
    pub fn print(&self, json: bool) {
        if json {
            // Our own types serialise; a closed pipe is the reader's choice.
            let _ = serde_json::to_writer_pretty(std::io::stdout().lock(), self);
            println!();
            return;
        }
        println!(
            "{}: {} packets in {:.2} s: {:.2} Mpps, {:.1} TSC cycles/packet, batch fill {:.1}, {:.0} % empty polls",
            self.command,
            self.packets,
            self.seconds,
            self.mpps,
            self.cycles_per_packet,
            self.batch_fill,
            self.empty_polls * 100.0
        );
        println!("received {} packets, sent {}", self.rx_packets, self.tx_packets);
        for port in &self.ports {
            println!("{} ({}, {}, link {})", port.name, port.driver, port.mac, port.link);
            let counters: Vec<String> = port.counters.iter().map(|(name, n)| format!("{name} {n}")).collect();
            if !counters.is_empty() {
                println!("  {}", counters.join("  "));
            }
        }
        for (name, count) in &self.losses {
            println!("lost  {name:<16} {count}");
        }
        for (name, count) in &self.notes {
            println!("note  {name:<16} {count}");
        }
        if self.missing_buffers > 0 {
            println!("missing buffers: {}", self.missing_buffers);
        }
        self.findings.iter().for_each(PortFindings::print);
    }

    /// A run in which buffers vanished is a failure.
    pub fn missing(&self) -> Option<Failure> {
        let n = self.missing_buffers;
        (n > 0).then(|| Failure::new(format!("{n} buffers did not come back: this is a bug in ixora")))
    }
}
