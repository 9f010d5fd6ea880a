//! A class tried: one element of it, taken from its example, with packets that
//! nobody checked at every input. What tests and fuzzers use to ask of each class
//! that there is that no packet makes it panic, hang or lose count.
//!
//! It does not look at what becomes of the packets.

use std::collections::VecDeque;
use std::iter::repeat;
use std::sync::{Arc, Mutex, PoisonError};

use graph::class::{Handlers, Headers, action};
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::element::port_code;
use graph::lang::Flat;
use graph::{Class, Console, Cx, Element, Options, Ran, Registry, Router, Services, TaskId};
use memory::annotation::Header;
use memory::{Batch, DATA_ROOM, Dma, Packet};

use crate::fixture::flatten;

/// A packet to come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Raw {
    /// Its bytes, of all buffers.
    pub bytes: Vec<u8>,
    /// How many of them lie in each of its buffers, in order: as many as fit where nothing is said.
    pub buffers: Vec<u16>,
    /// Where it is said that its network header is.
    pub network: Option<u8>,
    /// Where it is said that its transport header is.
    pub transport: Option<u8>,
    /// The first bytes of its annotations.
    pub notes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Supply(Mutex<VecDeque<Raw>>);

impl Supply {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Raw>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends what is supplied to its outputs in turn.
static FEED: Class = Class {
    name: "TrialFeed",
    ports: "0/-",
    processing: "h",
    handlers: &Handlers::<Feed>(&[action("go", "sends", |feed, cx| {
        if let Some(task) = feed.task {
            cx.schedule(task);
        }
    })]),
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |setup, _| {
        let supply = setup.services.get().ok_or("nothing is supplied")?;
        Ok(Box::new(Feed { supply, turn: 0, task: None }))
    },
    ..Class::BASE
};

struct Feed {
    supply: Arc<Supply>,
    turn: usize,
    task: Option<TaskId>,
}

/// A packet as it is wanted; `None` where there are not enough buffers.
fn lay_out(cx: &mut Cx<'_>, raw: &Raw) -> Option<Packet> {
    let mut lengths = raw.buffers.iter().map(|&length| usize::from(length)).chain(repeat(DATA_ROOM));
    let mut next = |left: &[u8]| lengths.next().unwrap_or(DATA_ROOM).min(DATA_ROOM).min(left.len());
    let (first, mut left) = raw.bytes.split_at(next(&raw.bytes));
    let mut packet = cx.packet(first)?;
    while !left.is_empty() {
        let (here, rest) = left.split_at(next(left));
        let Some(mut segment) = cx.pool().alloc() else {
            cx.free(packet);
            return None;
        };
        let fits = segment.copy_from(here);
        debug_assert!(fits.is_ok());
        packet.append(segment);
        left = rest;
    }
    note(&mut packet, raw);
    Some(packet)
}

fn note(packet: &mut Packet, raw: &Raw) {
    for (header, at) in [(Header::Network, raw.network), (Header::Transport, raw.transport)] {
        if let Some(at) = at {
            packet.set_header(header, usize::from(at));
        }
    }
    let area = &mut packet.annotations_mut().area;
    area.iter_mut().zip(&raw.notes).for_each(|(place, note)| *place = *note);
}

impl Element for Feed {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.task = Some(cx.new_task());
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        for _ in 0..Batch::MAX {
            let Some(raw) = self.supply.lock().pop_front() else { return Ran::done(true) };
            let Some(packet) = lay_out(cx, &raw) else { return Ran::IDLE };
            cx.emit(self.turn % cx.outputs().max(1), packet);
            self.turn += 1;
        }
        cx.schedule(task);
        Ran::done(true)
    }
}

/// Elements that a class's element asks for by name.
const COMPANIONS: &[(&str, &str)] = &[
    ("AggregateFirst", "af :: AggregateIPFlows; Idle -> af -> Discard;"),
    ("TimestampDiff", "r :: RecordTimestamp(OFFSET 40); Idle -> r -> Discard;"),
    ("ToIPFlowDumps", "af :: AggregateIPFlows; Idle -> af -> Discard;"),
    ("ARPQuerier", "t :: ARPTable;"),
    (
        "EtherSpanTree",
        "Idle -> in :: Suppressor -> Discard; Idle -> out :: Suppressor -> Discard; Idle -> s :: EtherSwitch -> Discard;",
    ),
    ("OverlayDecap", OVERLAY),
    ("OverlayEncap", OVERLAY),
    ("FTPPortMapper", "rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 0); Idle -> rw -> Discard;"),
    ("ICMPRewriter", "rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 0); Idle -> rw -> Discard;"),
];

/// A table with one port of the underlay.
const OVERLAY: &str = "fib :: OverlayFIB(TEXT \"\n\
    [[underlay]]\n\
    name = 'up'\n\
    mac = '02:00:00:00:00:01'\n\
    addresses = ['192.0.2.1/24']\n\
    neighbors = { '192.0.2.2' = '02:00:00:00:00:02' }\n\
    [[network]]\n\
    number = 100\n\
    protocol = 'vxlan'\n\
    flood = ['192.0.2.2', '192.0.2.3']\n\
    \");";

/// Configurations in place of the example's: what is written to a file goes nowhere.
const CONFIGURATIONS: &[(&str, &str)] =
    &[("ToDump", "/dev/null"), ("ToIPFlowDumps", "/dev/null, NOTIFIER af")];

/// The configuration in a class's example: what stands in parentheses behind its
/// name; empty where nothing does.
pub fn example(name: &str, example: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in example.match_indices(name) {
        let (before, behind) = (&example[..at], &example[at + name.len()..]);
        if before.ends_with(is_word) || behind.starts_with(is_word) || !behind.starts_with('(') {
            continue;
        }
        let mut depth = 0;
        for (end, c) in behind.char_indices() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if depth == 0 {
                return behind[1..end].to_string();
            }
        }
    }
    String::new()
}

/// The configuration that a class's element is tried with.
pub fn configuration(class: &Class) -> String {
    let given = CONFIGURATIONS.iter().find(|(name, _)| *name == class.name);
    given.map_or_else(|| example(class.name, class.example), |(_, given)| given.to_string())
}

/// A configuration around one element, read and checked: routers of it are built without
/// its text being read again, each with an element as new. Fuzzers build one for each run.
pub struct Configuration {
    text: String,
    flat: Flat,
    registry: Arc<Registry>,
    /// How many inputs and outputs the element has.
    pub ports: (usize, usize),
}

impl Configuration {
    /// One of a known class, with the ports that are asked for.
    fn read(
        class: &Class,
        config: &str,
        (inputs, outputs): (usize, usize),
        registry: &Arc<Registry>,
    ) -> Result<Configuration, String> {
        let mut text = format!("feed :: TrialFeed; feed[{inputs}] -> Discard;\n");
        let companions = COMPANIONS.iter().filter(|(name, _)| *name == class.name);
        companions.for_each(|(_, companion)| text += companion);
        text += &format!("e :: {}({config});\n", class.name);
        for n in 0..inputs {
            let queue =
                if port_code::processing(class.processing, false, n) == 'l' { "-> Queue(64) " } else { "" };
            text += &format!("feed[{n}] {queue}-> [{n}]e;\n");
        }
        for n in 0..outputs {
            // Some want a queue nearby.
            let queue =
                if port_code::processing(class.processing, true, n) == 'l' { "" } else { "-> Queue(64) " };
            text += &format!("e[{n}] {queue}-> Discard;\n");
        }
        let flat = flatten(&text, registry)?;
        Ok(Configuration { text, flat, registry: registry.clone(), ports: (inputs, outputs) })
    }

    /// A router of it, with so many packet buffers in memory of `dma`.
    ///
    /// # Errors
    /// What an element of it says is wrong.
    pub fn build(&self, dma: &Dma, buffers: usize) -> Result<Trial, String> {
        let (supply, printed) = (Arc::new(Supply::default()), Arc::new(Mutex::new(String::new())));
        let mut services = Services::default();
        services.add(supply.clone());
        let options = Options {
            clock: Arc::new(Clock::simulated(SIMULATION_START_NS)),
            console: Console::Memory(printed.clone()),
            services,
            buffers: Some(buffers),
            dma: dma.clone(),
            ..Options::default()
        };
        let router = Router::build(&self.text[..], self.flat.clone(), &self.registry, options)
            .map_err(|problems| problems.iter().map(|p| p.text() + "\n").collect::<String>())?;
        Ok(Trial { router, supply, printed })
    }
}

/// A router around one element.
pub struct Trial {
    /// The router; the element is `e`.
    pub router: Router,
    supply: Arc<Supply>,
    printed: Arc<Mutex<String>>,
}

/// Packet buffers of a router that is built once.
const BUFFERS: usize = 512;

/// Ports that are tried to find as many as the example's configuration asks for.
const PORTS: std::ops::RangeInclusive<usize> = 0..=6;

impl Trial {
    /// An element of a known class by its name in configurations, with as many ports as its
    /// example's configuration can do with; and the configuration, to build others of it.
    ///
    /// # Errors
    /// Why there is no such element, in the words of the last try.
    pub fn of(name: &str, registry: &Registry) -> Result<(Trial, Configuration), String> {
        let class = registry.find(name).ok_or_else(|| format!("no class {name}"))?;
        let config = configuration(class);
        let mut registry = registry.clone();
        registry.add(&FEED);
        let (registry, dma) = (Arc::new(registry), Options::default().dma);
        let mut error = String::from("no number of ports");
        for inputs in PORTS {
            let count = port_code::count(class.ports, inputs);
            // More inputs than it needs are of use only where it takes any number.
            if inputs < count.inputs.0 || inputs > count.inputs.1 || inputs > count.inputs.0.max(4) {
                continue;
            }
            for outputs in PORTS.rev().filter(|n| (count.outputs.0..=count.outputs.1).contains(n)) {
                let read = Configuration::read(class, &config, (inputs, outputs), &registry);
                match read.and_then(|read| Ok((read.build(&dma, BUFFERS)?, read))) {
                    Ok(found) => return Ok(found),
                    Err(wrong) => error = wrong,
                }
            }
        }
        Err(error)
    }

    /// Sends packets, and lets time pass while the element has something to do; what was printed.
    pub fn send(&mut self, packets: impl IntoIterator<Item = Raw>) -> String {
        self.supply.lock().extend(packets);
        let gone = self.router.write("feed.go", "");
        debug_assert!(gone.is_ok());
        for lane in self.router.lanes_mut() {
            lane.step(64);
        }
        std::mem::take(&mut *self.printed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads every handler of the element; what comes of it does not matter.
    pub fn read_all(&mut self, class: &Class) {
        for handler in class.handlers().filter(|handler| handler.read) {
            let _ = self.router.read(&format!("e.{}", handler.name), "");
        }
    }
}
