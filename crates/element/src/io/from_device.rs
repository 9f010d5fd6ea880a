//! `FromDevice`: receives from a port.

use std::sync::Arc;

use graph::class::{both, keyword, mandatory, positional, read, write};
use graph::task::TaskId;
use graph::{Class, Cx, Element, Ran, Refused, Tally};
use memory::Batch;
use memory::annotation::Header;
use port::RxQueue;

use super::outlets::Outlets;

/// Buffers a thread keeps beside those in receive rings.
const SPARE: usize = 4096;

/// The class.
pub static CLASS: Class = Class {
    name: "FromDevice",
    brief: "receives packets from a port",
    doc: "PORT is what every command of ixora takes: a PCI address, `vfio-user:`, `vhost-user:`, `model:`, \
          `af_xdp:`, `af_packet:`, `tap:`. Packets are pushed on by the thread that receives them, as far as \
          they go. The router's threads are shared out among its ports, and each has a receive queue of its \
          own; THREADS says otherwise.",
    ports: "0/1",
    processing: "h",
    arguments: &[
        mandatory("PORT", "the port's name"),
        positional("BURST", "packets received at a time; 32"),
        keyword("PROMISC", "receive what is addressed to others; true"),
        keyword("TIMESTAMP", "packets carry the time they were received; false"),
        keyword("THREADS", "threads that receive, separated by spaces; the router's share"),
        keyword("ACTIVE", "whether it receives; true"),
        keyword("METHOD", "accepted and not needed: the port's name says how"),
        keyword("SNIFFER", "accepted and not needed: ports that belong to Linux say so in their names"),
        keyword("SNAPLEN", "accepted and not needed: packets are not cut"),
        keyword("HEADROOM", "accepted and not needed: buffers have 192 bytes"),
        keyword("NDESC", "accepted and not needed: the command's --ring says so"),
        keyword("MAXTHREADS", "accepted and not needed: see THREADS"),
    ],
    handlers: &[
        read("count", "packets received"),
        read("byte_count", "bytes received"),
        both("active", "whether it receives"),
        read("xstats", "all counters of the port"),
        read("link", "the port's link"),
        read("mac", "the port's address"),
        write("reset_counts", "counts from zero"),
    ],
    example: "FromDevice(af_packet:eth1) -> ToDevice(af_packet:eth2)",
    see: &["ToDevice", "FromDump"],
    make: |setup, conf| {
        let name: String = conf.mandatory("PORT")?;
        let burst: usize = conf.positional("BURST")?.unwrap_or(32);
        let promiscuous = conf.keyword("PROMISC")?.unwrap_or(true);
        let stamp = conf.keyword("TIMESTAMP")?.unwrap_or(false);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let threads: Option<String> = conf.keyword("THREADS")?;
        for ignored in ["METHOD", "SNIFFER", "SNAPLEN", "HEADROOM", "NDESC", "MAXTHREADS"] {
            let _: Option<String> = conf.keyword(ignored)?;
        }
        conf.complete()?;
        let outlets = setup.services.get::<Outlets>().ok_or("no ports can be opened here")?;
        outlets.receive(&name, setup.index, promiscuous)?;
        let homes = threads.map(|text| threads_of(&text, setup.threads)).transpose()?;
        Ok(Box::new(FromDevice {
            name,
            outlets,
            index: setup.index,
            threads: setup.threads,
            homes,
            burst: burst.clamp(1, Batch::MAX),
            stamp,
            active,
            queues: vec![],
            next: 0,
            task: None,
            count: Tally::default(),
            bytes: Tally::default(),
        }))
    },
    ..Class::BASE
};

fn threads_of(text: &str, threads: usize) -> Result<u64, String> {
    let one = |word: &str| {
        let thread = word.parse().ok().filter(|thread: &usize| *thread < threads);
        thread.ok_or_else(|| format!("THREADS: expected threads below {threads}, not '{word}'"))
    };
    text.split_whitespace().try_fold(0, |mask, word| Ok(mask | 1 << one(word)?))
}

/// See [`CLASS`].
pub struct FromDevice {
    name: String,
    outlets: Arc<Outlets>,
    index: usize,
    threads: usize,
    homes: Option<u64>,
    burst: usize,
    stamp: bool,
    active: bool,
    /// This thread's.
    queues: Vec<Box<dyn RxQueue>>,
    next: usize,
    task: Option<TaskId>,
    count: Tally,
    bytes: Tally,
}

impl Element for FromDevice {
    fn homes(&self) -> Option<u64> {
        Some(self.homes.unwrap_or_else(|| self.outlets.homes(self.index, self.threads)))
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(FromDevice {
            name: self.name.clone(),
            outlets: self.outlets.clone(),
            queues: vec![],
            task: None,
            count: self.count.for_another(),
            bytes: self.bytes.for_another(),
            ..*self
        }))
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.queues = self.outlets.rx(&self.name, cx.lane());
        let task = cx.new_task();
        self.task = Some(task);
        if self.queues.is_empty() {
            return Ok(()); // fewer queues than threads: this one has none
        }
        cx.reserve_buffers(SPARE * (1 + self.queues.len()))?;
        if self.active {
            cx.schedule(task);
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.active {
            return Ran::IDLE;
        }
        cx.schedule(task);
        let mut received = Batch::with_limit(self.burst);
        for _ in 0..self.queues.len() {
            self.next = (self.next + 1) % self.queues.len();
            if self.queues[self.next].recv(cx.pool(), &mut received) > 0 {
                break;
            }
        }
        if received.is_empty() {
            return Ran::IDLE;
        }
        let now = if self.stamp { cx.now_ns() } else { 0 };
        let mut bytes = 0;
        for packet in received.iter_mut() {
            packet.prefetch();
            packet.clear_annotations();
            packet.set_header(Header::Link, 0);
            packet.annotations_mut().timestamp_ns = now;
            bytes += packet.len() as u64;
        }
        self.count.add(received.len() as u64);
        self.bytes.add(bytes);
        batch.take_from(&mut received, Batch::MAX);
        Ran::push(0)
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        let lost = || Refused::from("the port is not open");
        match handler {
            "count" => Ok(self.count.sum().to_string()),
            "byte_count" => Ok(self.bytes.sum().to_string()),
            "active" => Ok(self.active.to_string()),
            "link" => self.outlets.with_port(&self.name, |port| port.link().to_string()).ok_or_else(lost),
            "mac" => {
                let mac = self.outlets.with_port(&self.name, |port| port.mac()).ok_or_else(lost)?;
                Ok(graph::value::Ethernet(mac).to_string())
            }
            _ => self.outlets.counters(&self.name).ok_or_else(lost),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        if handler == "reset_counts" {
            self.count.reset();
            self.bytes.reset();
            return Ok(());
        }
        self.active = value.trim().parse().map_err(|_| "expected boolean")?;
        if let Some(task) = self.task.filter(|_| self.active && !self.queues.is_empty()) {
            cx.schedule(task);
        }
        Ok(())
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<FromDevice>() else { return };
        if self.name == old.name && self.queues.is_empty() {
            self.queues = std::mem::take(&mut old.queues);
            if let Some(task) = self.task.filter(|_| self.active) {
                cx.schedule(task);
            }
        }
    }
}
