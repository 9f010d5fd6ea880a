//! What a run counted, for people and as JSON.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use port::{Counter, Link, PortStats, Reason, RxStats, TxStats};
use runtime::{PollerStats, Progress};
use serde::Serialize;
use wire::MacAddress;

use crate::open::{PortFindings, Ports, Taken};
use crate::{Failure, rate};

/// One port's part.
#[derive(Debug, Clone, Serialize)]
pub struct PortSummary {
    /// The port's name, as the command has it.
    pub name: String,
    /// The name of the port's driver.
    pub driver: String,
    /// The port's Ethernet address.
    pub mac: String,
    /// The state of the port's link, in words.
    pub link: String,
    /// Packets lost at it, by name.
    pub losses: BTreeMap<&'static str, u64>,
    /// Counters of the device, without those at zero.
    pub counters: BTreeMap<&'static str, u64>,
    /// The receive queues that were used.
    pub rx_queues: Vec<QueueSummary>,
    /// The transmit queues that were used.
    pub tx_queues: Vec<QueueSummary>,
}

/// Descriptors that were left without a buffer.
const NO_BUFFER: &str = "no_buffer";
/// Packets that a full ring refused, each time that it did.
const RING_FULL: &str = "ring_full";

/// A queue's part.
#[derive(Debug, Clone, Serialize)]
pub struct QueueSummary {
    /// The queue's number at its port.
    pub queue: usize,
    /// Packets that it gave to the application, or took from it.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// What else it counted, by name, without those at zero: `no_buffer`, `ring_full`,
    /// and losses that are among the port's.
    pub events: BTreeMap<&'static str, u64>,
}

impl QueueSummary {
    /// A receive queue's.
    pub fn rx(queue: usize, rx: &RxStats) -> QueueSummary {
        let events = [(NO_BUFFER, rx.no_buffer), (Reason::RxBadDescriptor.name(), rx.bad_descriptor)];
        QueueSummary { queue, packets: rx.packets, bytes: rx.bytes, events: counted(events) }
    }

    /// A transmit queue's.
    pub fn tx(queue: usize, tx: &TxStats) -> QueueSummary {
        let events = [(RING_FULL, tx.ring_full), (Reason::TxUnsendable.name(), tx.unsendable)];
        QueueSummary { queue, packets: tx.packets, bytes: tx.bytes, events: counted(events) }
    }

    fn line(&self, direction: &str) -> String {
        let events: String = self.events.iter().map(|(name, n)| format!("  {name} {n}")).collect();
        format!("  {direction} queue {}: {}{events}\n", self.queue, rate::plural(self.packets, "packet"))
    }
}

fn counted(all: impl IntoIterator<Item = (&'static str, u64)>) -> BTreeMap<&'static str, u64> {
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

impl PortSummary {
    /// What a port is and what it counted, without its queues.
    pub fn new(name: &str, driver: String, mac: [u8; 6], link: Link, stats: &PortStats) -> PortSummary {
        let mut losses = BTreeMap::new();
        stats.losses().for_each(|(reason, count)| *losses.entry(reason.name()).or_default() += count);
        PortSummary {
            name: name.to_owned(),
            driver,
            mac: MacAddress(mac).to_string(),
            link: link.to_string(),
            losses,
            counters: counted(stats.counters.iter().map(|c| (c.name, c.value))),
            rx_queues: Vec::new(),
            tx_queues: Vec::new(),
        }
    }

    /// In lines of text; the queues are told apart where there are several.
    pub fn text(&self) -> String {
        let mut text = format!("{} ({}, {}, link {})\n", self.name, self.driver, self.mac, self.link);
        let counters: Vec<String> = self.counters.iter().map(|(name, n)| format!("{name} {n}")).collect();
        if !counters.is_empty() {
            text += &format!("  {}\n", counters.join("  "));
        }
        for (direction, queues) in [("rx", &self.rx_queues), ("tx", &self.tx_queues)] {
            text.extend(queues.iter().filter(|_| queues.len() > 1).map(|queue| queue.line(direction)));
        }
        text
    }
}

/// What a run counted.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The command that ran, such as `fwd`.
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
    /// Bytes of the packets that were received.
    pub rx_bytes: u64,
    /// Packets given to devices.
    pub tx_packets: u64,
    /// Bytes of the packets that were sent.
    pub tx_bytes: u64,
    /// Lost packets, by name: the driver's and the devices'.
    pub losses: BTreeMap<&'static str, u64>,
    /// Things that are no loss by themselves, by name.
    pub notes: BTreeMap<&'static str, u64>,
    /// Buffers that did not come back to their pools.
    pub missing_buffers: u64,
    /// What each port counted, in the order of the command.
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
        self.note(NO_BUFFER, rx.no_buffer);
    }

    /// Adds the counters of a transmit queue whose poller sends again what a full ring refused, or
    /// has nowhere to keep it.
    pub fn add_tx(&mut self, tx: &TxStats, retries: bool) {
        self.tx_packets += tx.packets;
        self.tx_bytes += tx.bytes;
        match retries {
            true => self.note(RING_FULL, tx.ring_full),
            false => self.lose(Reason::TxRingFull, tx.ring_full),
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
            let driver = port.capabilities().driver;
            self.ports.push(PortSummary::new(port.name(), driver, port.mac(), port.link(), &stats));
        }
    }

    /// Adds what the wires of models lost of what was sent.
    pub fn add_wires(&mut self, ports: &Ports) {
        for (_, model) in ports.models() {
            for (reason, count) in model.report().wire.losses() {
                self.lose(reason, count);
            }
        }
    }

    /// Adds what the pollers' queues counted to the ports that they are of: `taken` says
    /// which, in the pollers' order.
    pub fn add_queues(&mut self, taken: &Taken, pollers: &[PollerStats]) {
        let rx: Vec<&RxStats> = pollers.iter().flat_map(|poller| &poller.rx).collect();
        let tx: Vec<&TxStats> = pollers.iter().flat_map(|poller| &poller.tx).collect();
        // After a panic some are missing, and nobody knows which.
        if rx.len() == taken.rx.len() {
            for (&(port, queue), stats) in taken.rx.iter().zip(rx) {
                self.ports[port].rx_queues.push(QueueSummary::rx(queue, stats));
            }
        }
        if tx.len() == taken.tx.len() {
            for (&(port, queue), stats) in taken.tx.iter().zip(tx) {
                self.ports[port].tx_queues.push(QueueSummary::tx(queue, stats));
            }
        }
    }

    /// Prints the summary, in lines or as JSON.
    pub fn print(&self, json: bool) {
        print!("{}", self.text(json));
    }

    /// As JSON, or in lines.
    pub fn text(&self, json: bool) -> String {
        if json {
            // Our own types serialise.
            return serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        }
        let mut text = format!(
            "{}: {} in {:.2} s: {}, {:.1} TSC cycles/packet, batch fill {:.1}, {:.0} % empty polls\n",
            self.command,
            rate::plural(self.packets, "packet"),
            self.seconds,
            rate::per_second(self.packets as f64 / self.seconds.max(1e-9)),
            self.cycles_per_packet,
            self.batch_fill,
            self.empty_polls * 100.0
        );
        text += &format!("received {}, sent {}\n", rate::plural(self.rx_packets, "packet"), self.tx_packets);
        text.extend(self.ports.iter().map(PortSummary::text));
        text.extend(self.losses.iter().map(|(name, count)| format!("lost  {name:<16} {count}\n")));
        text.extend(self.notes.iter().map(|(name, count)| format!("note  {name:<16} {count}\n")));
        if self.missing_buffers > 0 {
            text += &format!("missing buffers: {}\n", self.missing_buffers);
        }
        text.extend(self.findings.iter().map(PortFindings::text));
        text
    }

    /// A run in which buffers vanished is a failure.
    pub fn missing(&self) -> Option<Failure> {
        let n = self.missing_buffers;
        let buffers = rate::plural(n, "buffer");
        (n > 0).then(|| Failure::new(format!("{buffers} did not come back: this is a bug in ixora")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_losses_tells_what_is_none() {
        let page = include_str!("../../../docs/losses.md");
        for name in [NO_BUFFER, RING_FULL] {
            assert!(page.contains(&format!("`{name}` counts")), "docs/losses.md does not tell of {name}");
        }
    }
}
