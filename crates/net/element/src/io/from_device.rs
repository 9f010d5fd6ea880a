//! `FromDevice`: receives from a port.

use std::any::Any;
use std::sync::Arc;

use graph::class::{Handlers, action, both, call, keyword, mandatory, positional, read, write};
use graph::element::ThreadPlacement;
use graph::value::{Ethernet, parse_alone};
use graph::{Class, Conf, ConfFault, Cx, Element, PerThreadCounter, Ran, Refused, Setup, Signal, TaskId};
use memory::annotation::{Header, Reach};
use memory::{Batch, Packet};
use port::{Filters, RxQueue};

use super::flow_rule;
use super::names::{Meaning, PortNumbers};
use super::router_ports::{Receiving, RouterPorts, settings};
use super::thread_assignment::ThreadRequest;
use graph::annotation::{self, PacketAnnotations};

/// Buffers a thread keeps beside those in receive rings.
const SPARE: usize = 4096;

/// Words of other frameworks' elements that mean nothing here, and why.
const IGNORED: &[(&str, &str)] = &[
    ("METHOD", "the port's name says how"),
    ("SNIFFER", "ports that belong to Linux say so in their names"),
    ("FORCE_IP", "MarkIPHeader does that"),
    ("PROTOCOL", "all packets are received"),
    ("OUTBOUND", "what this machine sends is not received"),
    ("BPF_FILTER", "IPFilter and Classifier do that"),
    ("SNAPLEN", "packets are not cut"),
    ("HEADROOM", "buffers have 192 bytes"),
    ("ENCAP", "all is Ethernet"),
    ("MAC", "the port's own"),
    ("MODE", "flows are spread by RSS"),
    ("RSS_AGGREGATE", "packets know their hash"),
    ("MAX_RSS", "flows are spread over all queues"),
    ("MINQUEUES", "one for each thread"),
    ("MAXQUEUES", "see MAXTHREADS"),
    ("SCALE", "each thread has queues of its own"),
    ("PAUSE", "the port's own"),
    ("RX_INTR", "queues are polled"),
    ("RETA_SIZE", "the port's own"),
    ("FLOW_RULES_FILE", "rules for flows are given to the handler rule_add"),
    ("FLOW_ISOLATE", "the port belongs to this process alone"),
    ("VF_POOLS", "each virtual function is a port of its own"),
    ("VF_VLAN", "each virtual function is a port of its own"),
    ("VF_MAC", "each virtual function is a port of its own"),
    ("VLAN_EXTEND", "the outer tag is the one that VLAN_STRIP takes off"),
    ("IPCO", "CheckIPHeader checks"),
    ("TCO", "CheckTCPHeader checks"),
    ("UCO", "CheckUDPHeader checks"),
    ("POWER_MGMT", "queues are polled"),
    ("LRO", "packets are not joined"),
    ("JUMBO", "the port's own"),
    ("CLEAR", "packets carry nothing of before"),
    ("VERBOSE", "--explain says all"),
    ("DEBUG", "--explain says all"),
];

/// What is said of a port's counters when there is no port.
const LOST: &str = "the port is not open";

pub static CLASS: Class = Class {
    name: "FromDevice",
    brief: "receives packets from a port",
    doc: "PORT is what every command of ixora takes: a PCI address, `vfio-user:`, `vhost-user:`, `model:`, \
          `af_xdp:`, `af_packet:`, `tap:`. Packets are pushed on by the thread that receives them, as far as \
          they go. The router's threads are shared out among its ports, those on a port's NUMA node first and \
          none that StaticThreadSched gave to others, and each has a receive queue of its own. THREADS, \
          MAXTHREADS and THREADOFFSET say otherwise; so do QUEUE and N_QUEUES, with which several elements \
          receive from one port. Behind the name of an interface that stands alone come PROMISC and SNAPLEN, \
          as in Click, and behind PollDevice's port BURST; a queue is said as QUEUE 1 there. Click's and \
          FastClick's words that mean nothing here are taken with a note.",
    ports: "0/1",
    processing: "h",
    arguments: &[
        mandatory("PORT", "the port's name"),
        positional("QUEUE", "the first receive queue; the next that is free"),
        positional("N_QUEUES", "how many; one for each thread, 1 with QUEUE"),
        positional("PREFIX", "FromHost's alone: the interface's address, which is not set"),
        keyword("BURST", "packets received at a time; 32"),
        keyword("PROMISC", "receive what is addressed to others; true"),
        keyword("SNAPLEN", "Click's; packets are not cut"),
        keyword("TIMESTAMP", "packets carry the time they were received; false"),
        keyword("THREADS", "threads that receive, separated by spaces; the router's share"),
        keyword("MAXTHREADS", "the most threads that receive"),
        keyword("THREADOFFSET", "the first of the threads it may have that receives"),
        keyword("NUMA", "threads on the port's node come first; true"),
        keyword("NUMA_NODE", "the node whose threads come first; the port's"),
        keyword("PAINT_QUEUE", "paint packets with the number of the queue; false"),
        keyword("NDESC", "descriptors in a receive ring; the command's --ring"),
        keyword("MTU", "bytes of the longest packet behind its Ethernet header; 1500"),
        keyword("VLAN_FILTER", "receive untagged frames and those of VLANs that add_vlan was told; false"),
        keyword("VLAN_STRIP", "the port takes VLAN tags off into the VLAN annotation; false"),
        keyword("ACTIVE", "whether it receives; true"),
    ],
    handlers: &Handlers::<FromDevice>(&[
        read("count", "packets received", |from| from.count.sum().to_string()),
        read("byte_count", "bytes received", |from| from.bytes.sum().to_string()),
        both(
            "active",
            "whether it receives",
            |from| from.active.is_raised().to_string(),
            |from, cx, value| {
                match value.trim().parse().map_err(|_| "expected boolean")? {
                    true => from.active.raise(cx),
                    false => from.active.lower(),
                }
                Ok(())
            },
        ),
        read("queues", "the port's queues and the threads that have them", |from| {
            from.router_ports.queues_in_words(&from.name)
        }),
        call("xstats", "all counters of the port", |from, _, _| {
            from.router_ports.counters(&from.name).ok_or_else(|| LOST.into())
        }),
        call("link", "the port's link", |from, _, _| {
            from.router_ports.with_port(&from.name, |port| port.link().to_string()).ok_or_else(|| LOST.into())
        }),
        call("mac", "the port's address", |from, _, _| {
            let mac = from.router_ports.with_port(&from.name, |port| port.mac()).ok_or(LOST)?;
            Ok(graph::value::Ethernet(mac).to_string())
        }),
        write("add_mac", "receives frames to one more address, with PROMISC false", |from, _, value| {
            let mac = address(value)?;
            from.filter("filters of addresses", |filters| filters.add_mac(mac))
        }),
        write("remove_mac", "receives no frames any more to an address that was added", |from, _, value| {
            let mac = address(value)?;
            match from.filter("filters of addresses", |filters| filters.remove_mac(mac))? {
                true => Ok(()),
                false => Err("this address was not added".into()),
            }
        }),
        write("add_vlan", "receives frames of one more VLAN, with VLAN_FILTER", |from, _, value| {
            let vlan = vlan(value)?;
            from.filter("a filter of VLANs", |filters| filters.set_vlan(vlan, true))
        }),
        write("remove_vlan", "receives no frames of a VLAN any more, with VLAN_FILTER", |from, _, value| {
            let vlan = vlan(value)?;
            from.filter("a filter of VLANs", |filters| filters.set_vlan(vlan, false))
        }),
        write(
            "rule_add",
            "leads a flow to a queue or drops it, as testpmd says it: ingress pattern eth / ipv4 src is ADDRESS \
             dst is ADDRESS / udp src is PORT dst is PORT / end actions queue index N / end",
            |from, _, value| {
                let (flow, target) = flow_rule::parse(value)?;
                let target =
                    target.ok_or("expected 'actions queue index N / end' or 'actions drop / end'")?;
                from.filter("filters for flows", |filters| filters.add_flow(&flow, target))
            },
        ),
        write("rule_remove", "treats a flow that was added as any other", |from, _, value| {
            let (flow, _) = flow_rule::parse(value)?;
            match from.filter("filters for flows", |filters| filters.remove_flow(&flow))? {
                true => Ok(()),
                false => Err("this flow was not added".into()),
            }
        }),
        action("reset_counts", "counts from zero", |from, _| {
            from.count.reset();
            from.bytes.reset();
        }),
    ]),
    example: "FromDevice(af_packet:eth1) -> ToDevice(af_packet:eth2)",
    see: &["ToDevice", "FromDump", "StaticThreadSched"],
    port: Some(super::names::port_name),
    make: |setup, conf| {
        let written = conf.mandatory::<String>("PORT")?;
        let (name, ring) = named(&written, setup)?;
        if setup.class == "FromHost" {
            host_address(setup, conf)?;
        }
        let is_click = super::names::is_click(setup.class, &written);
        let promiscuous = if is_click { as_click(setup, conf)? } else { None };
        // Click's PollDevice has it behind the name.
        let burst: Option<usize> = match setup.class {
            "PollDevice" => conf.positional("BURST").map_err(|fault| quoted(&name, fault))?,
            _ => conf.keyword("BURST")?,
        };
        let numa = conf.keyword("NUMA")?.unwrap_or(true);
        let (queue, queues) = queues(&name, !is_click && setup.class != "PollDevice", conf)?;
        let says = Receiving {
            queue: queue.or(ring),
            queues,
            shares: ring.is_some()
                || setup.class.starts_with("FromDPDK")
                || setup.class.starts_with("FromNetmap"),
            request: ThreadRequest {
                node: conf.keyword("NUMA_NODE")?.filter(|_| numa),
                fixed: threads_of(conf.keyword::<String>("THREADS")?, setup.threads)?,
                most: conf.keyword::<i64>("MAXTHREADS")?.and_then(|n| usize::try_from(n).ok()),
                first: conf.keyword::<i64>("THREADOFFSET")?.and_then(|n| usize::try_from(n).ok()),
            },
            anywhere: !numa,
        };
        let mut said = settings::read(conf, |setting| setting.rx_keyword)?;
        said.extend(promiscuous.and_then(settings::promiscuous));
        let burst = burst.unwrap_or(32);
        let stamp = conf.keyword("TIMESTAMP")?.unwrap_or(false);
        let queue = conf.keyword("PAINT_QUEUE")?.unwrap_or(false);
        let marks = Marks { queue, vlan: false };
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        super::ignore(setup, conf, IGNORED)?;
        conf.complete()?;
        let router_ports = setup.services.get::<RouterPorts>().ok_or("no ports can be opened here")?;
        router_ports.receive(&name, setup.index, says)?;
        router_ports.say(&name, setup.name, &said)?;
        Ok(Box::new(FromDevice {
            name,
            router_ports,
            index: setup.index,
            threads: setup.threads,
            burst: burst.clamp(1, Batch::MAX),
            stamp,
            marks,
            active: Signal::new(active),
            queues: vec![],
            next: 0,
            task: None,
            count: PerThreadCounter::default(),
            bytes: PerThreadCounter::default(),
        }))
    },
    ..Class::BASE
};

/// Marks a frame that is for everyone or for a group, as Linux does.
#[inline(always)]
fn mark_group(packet: &mut Packet) {
    if packet.first().is_some_and(|first| first & 1 != 0) {
        let everyone = packet.starts_with(&[0xFF; 6]);
        packet.annotations_mut().reach = if everyone { Reach::Broadcast } else { Reach::Multicast };
    }
}

/// The port's name, where another framework's stands in for one, and the queue that such a
/// name may be about.
pub(super) fn named(name: &str, setup: &mut Setup<'_>) -> Result<(String, Option<usize>), ConfFault> {
    let numbers = setup.services.get::<PortNumbers>();
    let Meaning { port, queue, note } = super::names::port(setup.class, name, numbers.as_deref())?;
    if let Some(note) = note {
        setup.note(note);
    }
    Ok((port, queue))
}

/// The first queue and how many. What stands in their place, if they have one, may be the rest of the
/// port's name.
pub(super) fn queues(
    port: &str,
    by_place: bool,
    conf: &mut Conf<'_>,
) -> Result<(Option<usize>, Option<usize>), ConfFault> {
    let count = |queues: Option<i64>| queues.and_then(|n| usize::try_from(n).ok());
    if !by_place {
        return Ok((conf.keyword("QUEUE")?, count(conf.keyword("N_QUEUES")?)));
    }
    let queue = conf.positional("QUEUE").map_err(|fault| quoted(port, fault))?;
    let queues = conf.positional::<i64>("N_QUEUES").map_err(|fault| quoted(port, fault))?;
    Ok((queue, count(queues)))
}

/// What stands behind a port's name may be the rest of it.
fn quoted(port: &str, fault: ConfFault) -> ConfFault {
    ConfFault { suggestion: Some(format!("put a port that has commas in quotes: \"{port},…\"")), ..fault }
}

/// What Click has behind an interface's name: whether it is promiscuous, which is returned, and how much
/// of a packet is kept.
fn as_click(setup: &mut Setup<'_>, conf: &mut Conf<'_>) -> Result<Option<bool>, ConfFault> {
    let promiscuous = conf.positional("PROMISC")?;
    if conf.positional::<u32>("SNAPLEN")?.is_some() {
        setup.note("SNAPLEN is not needed: packets are not cut".to_owned());
    }
    Ok(promiscuous)
}

/// The address that Click's FromHost gives its interface, which a port does not.
fn host_address(setup: &mut Setup<'_>, conf: &mut Conf<'_>) -> Result<(), ConfFault> {
    if let Some(address) = conf.positional::<String>("PREFIX")? {
        setup.note(format!("the interface's address is not set: ip addr add {address} dev NAME"));
    }
    super::ignore(setup, conf, &[("ETHER", "the interface has an address"), ("TYPE", "it is a TAP")])
}

fn threads_of(text: Option<String>, threads: usize) -> Result<Option<u64>, String> {
    let one = |word: &str| {
        let thread = word.parse().ok().filter(|thread: &usize| *thread < threads);
        thread.ok_or_else(|| format!("THREADS: expected threads below {threads}, not '{word}'"))
    };
    let Some(text) = text else { return Ok(None) };
    let mask = text.split_whitespace().try_fold(0, |mask, word| Ok::<_, String>(mask | 1 << one(word)?))?;
    if mask == 0 { Err("THREADS: expected threads".into()) } else { Ok(Some(mask)) }
}

/// An address that a handler is told.
fn address(text: &str) -> Result<[u8; 6], Refused> {
    Ok(parse_alone::<Ethernet>(text)?.0)
}

/// A VLAN that a handler is told.
fn vlan(text: &str) -> Result<u16, Refused> {
    let vlan = text.trim().parse().ok().filter(|vlan| *vlan <= wire::vlan::ID);
    Ok(vlan.ok_or_else(|| format!("expected a VLAN from 0 to {}", wire::vlan::ID))?)
}

/// What is written into annotations beside the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Marks {
    /// The number of the queue, as a colour.
    queue: bool,
    /// The VLAN tag that the port took off, or zero.
    vlan: bool,
}

/// A `FromDevice` element; [`CLASS`] says what it does.
pub struct FromDevice {
    name: String,
    router_ports: Arc<RouterPorts>,
    index: usize,
    threads: usize,
    burst: usize,
    stamp: bool,
    marks: Marks,
    /// Raised while it receives; one for all threads.
    active: Signal,
    /// This thread's, with their numbers.
    queues: Vec<(usize, Box<dyn RxQueue>)>,
    next: usize,
    task: Option<TaskId>,
    count: PerThreadCounter,
    bytes: PerThreadCounter,
}

impl ThreadPlacement for FromDevice {
    fn homes(&self, taken: u64) -> u64 {
        self.router_ports.homes(self.index, self.threads, taken)
    }
}

impl Element for FromDevice {
    fn thread_placement(&self) -> Option<&dyn ThreadPlacement> {
        Some(self)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(FromDevice {
            name: self.name.clone(),
            router_ports: self.router_ports.clone(),
            index: self.index,
            threads: self.threads,
            burst: self.burst,
            stamp: self.stamp,
            marks: self.marks,
            active: self.active.clone(),
            queues: vec![],
            next: 0,
            task: None,
            count: self.count.for_another(),
            bytes: self.bytes.for_another(),
        }))
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.task = Some(cx.new_task());
        let queues = self.router_ports.rx_queues(&self.name, self.index, cx.lane());
        // Fewer queues than threads: this one has none.
        if queues > 0 {
            let rings = self.router_ports.rx_ring(&self.name) * queues;
            cx.reserve_buffers(rings, SPARE * (1 + queues));
        }
        Ok(())
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.queues = self.router_ports.rx(&self.name, self.index, cx.lane());
        // Whichever of the port's elements asked for it.
        self.marks.vlan = self.router_ports.strips_vlan(&self.name);
        // Rings have buffers before any thread runs: what comes until then waits in them.
        for (_, queue) in &mut self.queues {
            queue.recv(cx.pool(), &mut Batch::with_limit(0));
        }
        self.go_on(cx);
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.active.is_raised() {
            return Ran::IDLE;
        }
        cx.schedule(task);
        let mut received = Batch::with_limit(self.burst);
        for _ in 0..self.queues.len() {
            self.next = (self.next + 1) % self.queues.len();
            if self.queues[self.next].1.recv(cx.pool(), &mut received) > 0 {
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
            bytes += packet.total_len() as u64;
        }
        received.iter_mut().for_each(mark_group); // now that their first bytes are near
        if self.marks != Marks::default() {
            self.mark(&mut received);
        }
        self.count.add(received.len() as u64);
        self.bytes.add(bytes);
        batch.take_from(&mut received, Batch::MAX);
        Ran::push(0)
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn Any).downcast_mut::<FromDevice>() else { return };
        self.count.add(old.count.own());
        self.bytes.add(old.bytes.own());
    }

    fn publish(&mut self) {
        for (number, queue) in &self.queues {
            self.router_ports.publish(&self.name, *number, queue.stats());
        }
    }

    fn cleanup(&mut self, _: &mut Cx<'_>) {
        self.give_back();
    }
}

impl FromDevice {
    /// Changes the port's filters; `what` it must have for that.
    fn filter<T>(
        &self,
        what: &str,
        change: impl FnOnce(&mut dyn Filters) -> port::Result<T>,
    ) -> Result<T, Refused> {
        let changed =
            self.router_ports.with_port(&self.name, |port| port.filters().map(change)).ok_or(LOST)?;
        let changed = changed.ok_or_else(|| format!("{} has not {what}: receive everything", self.name))?;
        Ok(changed.map_err(|error| error.to_string())?)
    }

    /// Writes what few configurations ask for into the packets' annotations.
    #[cold]
    fn mark(&self, received: &mut Batch) {
        let queue = self.queues[self.next].0 as u8;
        for packet in received.iter_mut() {
            if self.marks.queue {
                packet.set_u8_at(annotation::PAINT, queue);
            }
            if self.marks.vlan {
                let tag = packet.vlan().unwrap_or(0);
                packet.set_bytes_at(annotation::VLAN_TCI, tag.to_be_bytes());
            }
        }
    }

    /// Receives from now on, while it is active, if it has anything to receive from.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        if let Some(task) = self.task.filter(|_| !self.queues.is_empty()) {
            cx.wake_on(&self.active, task);
            cx.schedule(task);
        }
    }

    /// To the router that comes next, which may have other threads receive.
    fn give_back(&mut self) {
        for (number, queue) in self.queues.drain(..) {
            self.router_ports.give_back(&self.name, number, queue);
        }
    }
}

impl Drop for FromDevice {
    fn drop(&mut self) {
        self.give_back();
    }
}
