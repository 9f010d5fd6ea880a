//! `ToDevice`: sends on a port.

use std::any::Any;
use std::sync::{Arc, PoisonError};

use graph::class::{Handlers, action, call, keyword, mandatory, positional, read};
use graph::{Class, Cx, Element, Next, PerThreadCounter, Ran, Signals, TaskId};
use memory::Batch;
use port::Reason;

use super::router_ports::{RouterPorts, Sending, Transmit, settings};

/// How often a full ring is looked at when the router ends.
const LAST_TRIES: usize = 1 << 16;
/// How often a full ring is looked at again, unless it is waited for.
const TRIES: usize = 2;

/// Words of other frameworks' elements that mean nothing here, and why.
const IGNORED: &[(&str, &str)] = &[
    ("IQUEUE", "there is no queue but the ring"),
    ("METHOD", "the port's name says how"),
    ("TIMEOUT", "a batch is sent at once"),
    ("NO_PAD", "the port pads"),
    ("MAXTHREADS", "who sends is who gets here"),
    ("MAXQUEUES", "one for each thread that gets here"),
    ("NUMA", "who sends is who gets here"),
    ("NUMA_NODE", "who sends is who gets here"),
    ("ALLOC", "packets that were not received are in the port's memory as well"),
    ("INTERNAL_TX_QUEUE_SIZE", "there is no queue but the ring"),
    ("TSO", "packets are sent as they are"),
    ("ALLOW_NONEXISTENT", "ports are there"),
    ("TCO", "checksums are set by elements"),
    ("UCO", "checksums are set by elements"),
    ("IPCO", "checksums are set by elements"),
    ("VERBOSE", "--explain says all"),
    ("DEBUG", "--explain says all"),
];

pub static CLASS: Class = Class {
    name: "ToDevice",
    brief: "sends packets on a port",
    doc: "Packets that are pushed go into the transmit ring at once, a batch with one doorbell; those it has \
          no room for are dropped and counted, or waited for with BLOCKING. Packets are pulled, BURST at a \
          time, when the ring has room. Each thread that can get here has a transmit queue of its own, if the \
          port has as many; else threads share one behind a lock, which `--explain` tells.",
    ports: "1/0",
    processing: "a",
    arguments: &[
        mandatory("PORT", "the port's name"),
        positional("QUEUE", "the first transmit queue; 0"),
        positional("N_QUEUES", "how many; one for each thread, 1 with QUEUE"),
        keyword("BURST", "packets pulled at a time; 32"),
        keyword("BLOCKING", "wait for room in the ring instead of dropping; false"),
        keyword("NDESC", "descriptors in a transmit ring; the command's --ring"),
        keyword("MTU", "bytes of the longest packet behind its Ethernet header; 1500"),
    ],
    handlers: &Handlers::<ToDevice>(&[
        read("count", "packets sent", |to| to.count.sum().to_string()),
        read("dropped", "packets dropped because the ring was full", |to| to.dropped.sum().to_string()),
        read("queues", "the port's queues and the threads that have them", |to| {
            to.router_ports.queues_in_words(&to.name)
        }),
        call("xstats", "all counters of the port", |to, _, _| {
            to.router_ports.counters(&to.name).ok_or_else(|| "the port is not open".into())
        }),
        action("reset_counts", "counts from zero", |to, _| {
            to.count.reset();
            to.dropped.reset();
        }),
    ]),
    drops: &[Reason::RingFull, Reason::NobodySends],
    example: "FromDevice(af_packet:eth1) -> ToDevice(af_packet:eth2)",
    see: &["FromDevice", "ToDump"],
    port: Some(super::names::port_name),
    make: |setup, conf| {
        let (name, ring) = super::from_device::named(&conf.mandatory::<String>("PORT")?, setup)?;
        let (queue, queues) = super::from_device::queues(&name, true, conf)?;
        let says = Sending { queue: queue.or(ring), queues };
        let said = settings::read(conf, |setting| setting.tx_keyword)?;
        let burst: usize = conf.keyword("BURST")?.unwrap_or(32);
        let blocking = conf.keyword("BLOCKING")?.unwrap_or(false);
        super::ignore(setup, conf, IGNORED)?;
        conf.complete()?;
        let router_ports = setup.services.get::<RouterPorts>().ok_or("no ports can be opened here")?;
        router_ports.send(&name, setup.index, says);
        router_ports.say(&name, setup.name, &said)?;
        let index = setup.index;
        Ok(Box::new(ToDevice {
            name,
            router_ports,
            index,
            burst: burst.clamp(1, Batch::MAX),
            blocking,
            queue: None,
            task: None,
            signals: Signals::default(),
            waiting: Batch::with_limit(Batch::MAX),
            count: PerThreadCounter::default(),
            dropped: PerThreadCounter::default(),
        }))
    },
    ..Class::BASE
};

/// A `ToDevice` element; [`CLASS`] says what it does.
pub struct ToDevice {
    name: String,
    router_ports: Arc<RouterPorts>,
    index: usize,
    burst: usize,
    blocking: bool,
    /// This thread's, or one that several share.
    queue: Option<Transmit>,
    task: Option<TaskId>,
    signals: Signals,
    /// Pulled, and not sent yet.
    waiting: Batch,
    count: PerThreadCounter,
    dropped: PerThreadCounter,
}

impl ToDevice {
    /// Hands packets to the ring, as many as it has room for.
    fn send(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if let Some(queue) = &self.queue {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            self.count.add(queue.send(cx.pool(), batch) as u64);
        }
    }
}

impl ToDevice {
    /// Sends what waits first; what comes while some goes on waiting waits behind it, as
    /// far as there is room.
    #[cold]
    fn line_up(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.send(cx, &mut waiting);
        if !waiting.is_empty() {
            waiting.take_from(batch, Batch::MAX);
            self.dropped.add(batch.len() as u64);
            cx.drop_batch(0, batch);
        }
        self.waiting = waiting;
    }

    /// Sends what waits, if the ring has room for it in the end.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        let mut batch = std::mem::take(&mut self.waiting);
        for _ in 0..LAST_TRIES {
            if batch.is_empty() {
                return;
            }
            self.send(cx, &mut batch);
        }
        self.dropped.add(batch.len() as u64);
        cx.drop_batch(1, &mut batch);
    }
}

impl Element for ToDevice {
    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(ToDevice {
            name: self.name.clone(),
            router_ports: self.router_ports.clone(),
            index: self.index,
            queue: None,
            task: None,
            signals: Signals::default(),
            waiting: Batch::with_limit(Batch::MAX),
            count: self.count.for_another(),
            dropped: self.dropped.for_another(),
            ..*self
        }))
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.queue = self.router_ports.tx(&self.name, self.index, cx.lane());
        if cx.is_pull_input(0) {
            let task = cx.new_task();
            self.signals = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.schedule(task);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        if !self.waiting.is_empty() {
            self.line_up(cx, batch);
        }
        let mut tries = 0;
        let blocking = self.blocking && self.queue.is_some();
        while !batch.is_empty() && (blocking || tries < TRIES) {
            self.send(cx, batch);
            tries += 1;
            if blocking && tries.is_multiple_of(1024) {
                std::thread::yield_now();
                if cx.has_ended() {
                    // They go on with the router that comes next, or when this one is over.
                    self.waiting.take_from(batch, Batch::MAX);
                    break;
                }
            }
        }
        if !batch.is_empty() {
            self.dropped.add(batch.len() as u64);
            cx.drop_batch(0, batch);
        }
        Next::Done
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        let mut batch = std::mem::take(&mut self.waiting);
        if batch.is_empty() {
            batch = Batch::with_limit(self.burst);
            cx.pull_burst(0, &mut batch);
        }
        let had = batch.len();
        self.send(cx, &mut batch);
        let sent = had - batch.len();
        if had > 0 || self.signals.any() {
            cx.schedule(task);
        }
        self.waiting = batch;
        Ran::done(sent > 0)
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn Any).downcast_mut::<ToDevice>() else { return };
        self.count.add(old.count.own());
        self.dropped.add(old.dropped.own());
        self.waiting.take_from(&mut old.waiting, Batch::MAX);
    }

    /// What was pulled before and found no room goes before all that is pushed.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        if self.task.is_none() {
            self.flush(cx);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
    }
}
