//! Routers with a class that feeds packets and one that keeps them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use graph::class::mandatory;
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::fused::Region;
use graph::lang::{self, Flat, Source};
use graph::plan::Instances;
use graph::plan::Plan;
use graph::{Class, Console, Cx, Element, Next, Options, Ran, Registry, Router, Services, TaskId};
use memory::annotation::Header;
use memory::{Batch, Packet};

/// Where packets carry the flow they belong to.
const FLOW: usize = 40;
/// And their number in it.
const NUMBER: usize = 44;

type Frames = Vec<Vec<u8>>;

#[derive(Debug)]
struct Input(Vec<Frames>);

/// A flow, as far as what all its packets have in common decides their way: the flow they
/// were fed with, and what their network header says but for its length and fragment,
/// and the byte behind it: which kind of error.
type Flow = (u32, Vec<u8>);

/// What arrived, by sink and flow: the bytes and the annotations.
type Arrived = BTreeMap<(u32, Flow), Vec<(Vec<u8>, Vec<u8>)>>;

/// The identification of all packets but those that routers make themselves.
const ID: [u8; 2] = [0x12, 0x34];

#[derive(Default)]
struct Output(Mutex<Arrived>);

fn flow(packet: &Packet) -> Flow {
    let flow = u32::from_ne_bytes(packet.annotations().area[FLOW..FLOW + 4].try_into().unwrap());
    let ip = packet.header(Header::Network).unwrap_or(&[]);
    let way = ip.iter().take(21).enumerate().filter(|(at, _)| !matches!(at, 2..=3 | 6..=7 | 10..=11));
    (flow, way.map(|(_, byte)| *byte).collect())
}

/// Routers number the errors they send in order of all flows, which nobody promises.
fn forget_number(packet: &mut Packet) {
    if let Some(ip) = packet.header_mut(Header::Network)
        && ip.len() >= 20
        && ip[9] == 1
        && ip[4..6] != ID
    {
        ip[4..6].fill(0);
        ip[10..12].fill(0);
    }
}

static FEED: Class = Class {
    name: "Feed",
    ports: "0/1",
    processing: "h",
    arguments: &[mandatory("N", ""), mandatory("BURST", "")],
    make: |setup, conf| {
        let (source, burst) = (conf.mandatory("N")?, conf.mandatory("BURST")?);
        let input = setup.services.get::<Input>().unwrap();
        Ok(Box::new(Feed { input, source, burst, next: 0 }))
    },
    ..Class::BASE
};

struct Feed {
    input: Arc<Input>,
    source: usize,
    burst: usize,
    next: usize,
}

impl Element for Feed {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        let frames = &self.input.0[self.source];
        for bytes in frames[self.next..].iter().take(self.burst) {
            let mut packet = cx.packet(bytes).unwrap();
            packet.set_header(Header::Link, 0);
            let flow = (self.source * 4 + self.next % 4) as u32;
            packet.annotations_mut().area[FLOW..FLOW + 4].copy_from_slice(&flow.to_ne_bytes());
            let number = (self.next as u32).to_ne_bytes();
            packet.annotations_mut().area[NUMBER..NUMBER + 4].copy_from_slice(&number);
            assert!(batch.push(packet).is_none());
            self.next += 1;
        }
        if self.next < frames.len() {
            cx.schedule(task);
        }
        Ran::push(0)
    }
}

static KEEP: Class = Class {
    name: "Keep",
    ports: "1/0",
    processing: "h",
    arguments: &[mandatory("N", "")],
    make: |setup, conf| {
        Ok(Box::new(Keep { sink: conf.mandatory("N")?, output: setup.services.get().unwrap() }))
    },
    ..Class::BASE
};

struct Keep {
    sink: u32,
    output: Arc<Output>,
}

impl Element for Keep {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let mut output = self.output.0.lock().unwrap();
        for packet in batch.iter_mut() {
            forget_number(packet);
            let bytes = packet.segments().flat_map(|segment| segment.to_vec()).collect();
            let area = &packet.annotations().area;
            let notes = [&area[..24], &area[NUMBER..]].concat();
            output.entry((self.sink, flow(packet))).or_default().push((bytes, notes));
        }
        cx.free_batch(batch);
        Next::Done
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Keep { sink: self.sink, output: self.output.clone() }))
    }
}

fn registry() -> Registry {
    let mut registry = element::registry();
    [&FEED, &KEEP].into_iter().for_each(|class| registry.add(class));
    registry
}

fn flat(text: &str) -> Flat {
    let registry = registry();
    let options = lang::Options { known_class: &|name| registry.find(name).is_some(), ..Default::default() };
    lang::read(vec![Source::new("config", text)], &options).unwrap_or_else(|problems| panic!("{problems}"))
}

fn options(input: &[Frames], output: &Arc<Output>) -> Options {
    let mut services = Services::default();
    services.add(Arc::new(Input(input.to_vec())));
    services.add(output.clone());
    Options { services, console: Console::Memory(Arc::default()), ..Options::default() }
}

/// A configuration and its elements.
pub fn made(text: &str) -> (Plan, Instances) {
    let made = Router::configure(text, flat(text), &registry(), options(&[], &Arc::default()));
    made.unwrap_or_else(|list| panic!("{:?}", list.iter().map(|p| p.text()).collect::<Vec<_>>()))
}

/// A router and what came out of it.
pub struct Rig {
    pub router: Router,
    output: Arc<Output>,
    threads: usize,
}

pub fn build(
    text: &str,
    regions: &'static [Region],
    threads: usize,
    input: &[Frames],
) -> Result<Rig, String> {
    let output = Arc::default();
    let clock = if threads == 1 { Clock::simulated(SIMULATION_START_NS) } else { Clock::real() };
    let options = Options { fused: regions, threads, clock: Arc::new(clock), ..options(input, &output) };
    let router = Router::build(text, flat(text), &registry(), options)
        .map_err(|list| list.iter().map(|p| p.text() + "\n").collect::<String>())?;
    Ok(Rig { router, output, threads })
}

/// What came of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub arrived: Arrived,
    pub handlers: Vec<(String, String)>,
    pub drops: Vec<(String, Vec<u64>)>,
}

impl Outcome {
    /// Says where two differ.
    pub fn assert_same(&self, other: &Outcome, what: &str) {
        assert_eq!(self.handlers, other.handlers, "{what}");
        assert_eq!(self.drops, other.drops, "{what}");
        let count = |outcome: &Outcome| -> Vec<_> {
            outcome.arrived.iter().map(|(place, packets)| (place.clone(), packets.len())).collect()
        };
        assert_eq!(count(self), count(other), "{what}: packets by sink and flow");
        for (place, packets) in &self.arrived {
            let numbers = |outcome: &Outcome| -> Vec<_> {
                outcome.arrived[place].iter().map(|(_, notes)| notes[24..26].to_vec()).collect()
            };
            assert_eq!(numbers(self), numbers(other), "{what}: sink and flow {place:?}");
            for (n, (mine, theirs)) in packets.iter().zip(&other.arrived[place]).enumerate() {
                assert_eq!(mine, theirs, "{what}: sink and flow {place:?}, packet {n}");
            }
        }
    }
}

impl Rig {
    pub fn new(text: &str, regions: &'static [Region], threads: usize, input: [Frames; 2]) -> Rig {
        build(text, regions, threads, &input).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn arrived(&self) -> usize {
        self.output.0.lock().unwrap().values().map(Vec::len).sum()
    }

    /// Runs until nothing comes any more.
    pub fn run(&mut self) {
        if self.threads == 1 {
            self.router.lanes_mut()[0].step(3000);
            return;
        }
        let (shared, output) = (self.router.shared(), self.output.clone());
        let arrived = || output.0.lock().unwrap().values().map(Vec::len).sum::<usize>();
        std::thread::scope(|scope| {
            scope.spawn(|| self.router.run());
            let (mut before, mut since) = (0, Instant::now());
            let end = Instant::now() + Duration::from_secs(60);
            // What arrived is looked at once the threads have ended.
            while (since.elapsed() < Duration::from_millis(300) || before == 0) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
                if arrived() != before {
                    (before, since) = (arrived(), Instant::now());
                }
            }
            shared.end();
        });
    }

    /// What came of it: packets, all handlers that are read, all drops.
    pub fn outcome(&mut self) -> Outcome {
        assert!(self.arrived() > 0);
        let shared = self.router.shared();
        let (mut handlers, mut drops) = (vec![], vec![]);
        for (number, planned) in shared.plan.elements.iter().enumerate() {
            let mut sums = vec![0; planned.kind.drops.len()];
            for lane in self.router.lanes() {
                sums.iter_mut().zip(&lane.counters(number).drops).for_each(|(sum, drops)| *sum += drops);
            }
            drops.push((planned.name.clone(), sums));
            for handler in planned.kind.handlers().filter(|h| h.read && !h.name.contains("rate")) {
                let name = format!("{}.{}", planned.name, handler.name);
                let value = self.router.read(&name, "").unwrap_or_else(|refused| refused.to_string());
                handlers.push((name, value));
            }
        }
        Outcome { arrived: self.output.0.lock().unwrap().clone(), handlers, drops }
    }
}

/// Numbers that are random enough.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }
}

/// Frames of all kinds: right, wrong, cut off, and none at all.
pub fn frames(seed: u64, count: usize) -> Frames {
    let mut random = Random(seed);
    (0..count).map(|_| frame(&mut random)).collect()
}

fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let kind = random.below(24);
    match kind {
        0 => frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, random.below(3) as u8]),
        1 => frame.extend([0x81, 0, 0, 5, 8, 0]),
        2 => frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 8, 17, random.below(3) as u8]),
        3 => (0..random.below(40)).for_each(|n| frame.push((n * 37) as u8)),
        _ => {
            frame.extend([8, 0]);
            ip(random, kind, &mut frame);
        }
    }
    (0..random.below(80)).for_each(|n| frame.push((n * 11) as u8));
    if random.below(8) == 0 {
        frame.truncate(random.below(frame.len() as u64) as usize);
    }
    if random.below(16) == 0 {
        frame.iter_mut().take(6).for_each(|byte| *byte = 0xFF);
    }
    if frame.is_empty() {
        frame.push(0);
    }
    frame
}

/// An IP packet, more or less.
fn ip(random: &mut Random, kind: u64, frame: &mut Vec<u8>) {
    let options: &[u8] = match kind {
        4 => &[7, 7, 4, 0, 0, 0, 0, 0],  // a route to record
        5 => &[68, 8, 5, 0, 0, 0, 0, 0], // a time
        6 => &[7, 200, 4, 0],            // too long
        7 => &[1, 1, 68, 4, 1, 0, 0, 0], // a wrong place
        _ => &[],
    };
    let payload =
        if kind == 8 || kind == 9 { 800 + random.below(700) } else { 8 + random.below(60) } as usize;
    let header = 20 + options.len();
    let at = frame.len();
    frame.extend([0x40 | (header / 4) as u8, 0]);
    frame.extend(((header + payload) as u16).to_be_bytes());
    frame.extend([ID[0], ID[1], if kind == 9 { 0x40 } else { 0 }, 0]);
    let ttl = if random.below(4) == 0 { random.below(4) } else { 64 } as u8;
    let protocol = [17, 6, 1, 17, 50][random.below(5) as usize];
    frame.extend([ttl, protocol, 0, 0, 10, random.below(5) as u8, 9, random.below(250) as u8]);
    frame.extend([10, random.below(5) as u8, random.below(3) as u8 + 6, random.below(250) as u8]);
    frame.extend(options);
    if kind != 10 {
        let sum = wire::checksum::of(&frame[at..]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
    (0..payload).for_each(|n| frame.push((n as u64 * 7 + kind) as u8));
}
