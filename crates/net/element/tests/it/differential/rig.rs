//! Runs a configuration between sources that send given packets and sinks that keep what
//! comes, alone or on threads, as it is or with programs in it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use graph::class::{mandatory, positional};
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::fused::Region;
use graph::lang::{self, Flat, Source};
use graph::plan::Instances;
use graph::plan::Plan;
use graph::{Class, Console, Cx, Element, Next, Options, Ran, Registry, Router, Services, TaskId};
use memory::annotation::Header;
use memory::{Batch, Packet};

use super::random::{THREADS, WAY};

/// Annotations: a packet's flow, and its number.
const FLOW: usize = 40;
const NUMBER: usize = 44;

/// The packets of each source.
#[derive(Debug)]
pub struct Input(pub Vec<Vec<Vec<u8>>>);

/// The sink, the way there, and the flow.
type Place = (u32, Vec<u8>, u32);
/// The number of a packet, its bytes, and its other annotations.
type Kept = (u32, Vec<u8>, Vec<u8>);
/// What arrived, in order.
type Arrived = BTreeMap<Place, Vec<Kept>>;

#[derive(Default)]
pub struct Output(Mutex<Arrived>);

impl Output {
    fn count(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }
}

fn word(packet: &Packet, at: usize) -> u32 {
    u32::from_ne_bytes(packet.annotations().area[at..at + 4].try_into().unwrap())
}

fn set_word(packet: &mut Packet, at: usize, value: u32) {
    packet.annotations_mut().area[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

/// Sends the packets of source `N`, `BURST` at a time.
static FEED: Class = Class {
    name: "Feed",
    ports: "0/1",
    processing: "h",
    arguments: &[mandatory("N", ""), positional("BURST", "")],
    make: |setup, conf| {
        let (source, burst) = (conf.mandatory("N")?, conf.positional("BURST")?.unwrap_or(32));
        let input = setup.services.get::<Input>().unwrap();
        Ok(Box::new(Feed { input, source, burst, next: 0, task: None }))
    },
    ..Class::BASE
};

struct Feed {
    input: Arc<Input>,
    source: usize,
    burst: usize,
    next: usize,
    task: Option<TaskId>,
}

impl Element for Feed {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        self.task = Some(task);
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        let packets = &self.input.0[self.source];
        for bytes in packets[self.next..].iter().take(self.burst) {
            let mut packet = cx.packet(bytes).unwrap();
            packet.set_header(Header::Link, 0);
            // A source has four flows.
            set_word(&mut packet, FLOW, (self.source * 4 + self.next % 4) as u32);
            set_word(&mut packet, NUMBER, self.next as u32);
            assert!(batch.push(packet).is_none());
            self.next += 1;
        }
        if self.next < packets.len() {
            cx.schedule(task);
        }
        Ran::push(0)
    }
}

/// Keeps what arrives.
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
        for packet in batch.iter() {
            let area = &packet.annotations().area;
            let place = (self.sink, area[WAY].to_vec(), word(packet, FLOW));
            let bytes = packet.segments().flat_map(|segment| segment.to_vec()).collect();
            let notes = area[..WAY.start].to_vec();
            output.entry(place).or_default().push((word(packet, NUMBER), bytes, notes));
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
    let options =
        lang::Options { known_class: &|name| registry.find(name).is_some(), ..lang::Options::default() };
    lang::read(vec![Source::new("config", text)], &options).unwrap_or_else(|p| panic!("{p}\n{text}"))
}

fn options(input: &Arc<Input>, output: &Arc<Output>) -> Options {
    let mut services = Services::default();
    services.add(input.clone());
    services.add(output.clone());
    Options { services, console: Console::Memory(Arc::default()), ..Options::default() }
}

/// A configuration's elements.
pub fn made(text: &str) -> (Plan, Instances) {
    let options = options(&Arc::new(Input(vec![])), &Arc::default());
    Router::configure(text, flat(text), &registry(), options)
        .unwrap_or_else(|list| panic!("{:?}\n{text}", list.iter().map(|p| p.text()).collect::<Vec<_>>()))
}

fn build(
    text: &str,
    regions: &'static [Region],
    input: &Arc<Input>,
    threads: usize,
) -> (Router, Arc<Output>) {
    let output = Arc::default();
    let clock = if threads == 1 { Clock::simulated(SIMULATION_START_NS) } else { Clock::real() };
    let options = Options { fused: regions, threads, clock: Arc::new(clock), ..options(input, &output) };
    let router = Router::build(text, flat(text), &registry(), options);
    let router = router
        .unwrap_or_else(|list| panic!("{:?}\n{text}", list.iter().map(|p| p.text()).collect::<Vec<_>>()));
    (router, output)
}

/// What came of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub arrived: Arrived,
    /// All handlers that can be read.
    pub handlers: BTreeMap<String, String>,
    pub drops: BTreeMap<String, Vec<u64>>,
    /// How many packets came to each element, where that is counted.
    pub packets: BTreeMap<String, u64>,
}

impl Outcome {
    fn new(router: &mut Router, output: &Output) -> Outcome {
        let shared = router.shared();
        let (mut handlers, mut drops, mut packets) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (number, planned) in shared.plan.elements.iter().enumerate() {
            let mut sums = vec![0; planned.kind.drops.len()];
            for lane in router.lanes() {
                sums.iter_mut().zip(&lane.counters(number).drops).for_each(|(sum, drops)| *sum += drops);
            }
            drops.insert(planned.name.clone(), sums);
            let all = router.lanes().iter().map(|lane| lane.counters(number).packets).sum();
            packets.insert(planned.name.clone(), all);
            for handler in planned.kind.handlers().filter(|h| h.read && !h.name.contains("rate")) {
                let name = format!("{}.{}", planned.name, handler.name);
                let value = router.read(&name, "").unwrap_or_else(|refused| refused.to_string());
                handlers.insert(name, value);
            }
        }
        Outcome { arrived: std::mem::take(&mut *output.0.lock().unwrap()), handlers, drops, packets }
    }

    /// How many packets arrived.
    pub fn count(&self) -> usize {
        self.arrived.values().map(Vec::len).sum()
    }

    /// Forgets what depends on how many packets come at a time: how full queues were.
    pub fn apart_from_queues(mut self) -> Outcome {
        self.handlers.retain(|name, _| !name.ends_with("length"));
        self
    }

    /// Says where two are different, if they are.
    pub fn difference(&self, other: &Outcome) -> Option<String> {
        let handlers = self.handlers.iter().filter(|(name, value)| other.handlers.get(*name) != Some(value));
        let handlers =
            handlers.map(|(name, value)| format!("{name}: {value}, {:?}", other.handlers.get(name)));
        let drops = self.drops.iter().filter(|(name, value)| other.drops.get(*name) != Some(value));
        let drops =
            drops.map(|(name, value)| format!("drops of {name}: {value:?}, {:?}", other.drops.get(name)));
        let counts = self.packets.iter().filter(|(name, value)| other.packets.get(*name) != Some(value));
        let counts =
            counts.map(|(name, value)| format!("packets at {name}: {value}, {:?}", other.packets.get(name)));
        let places = self.arrived.keys().chain(other.arrived.keys());
        let packets = places.filter(|place| self.arrived.get(*place) != other.arrived.get(*place));
        let packets = packets.map(|place| {
            let some = |outcome: &Outcome| {
                let all = outcome.arrived.get(place).map_or(&[][..], Vec::as_slice);
                let numbers: Vec<u32> = all.iter().map(|(number, ..)| *number).collect();
                (all.to_vec(), numbers)
            };
            let ((mine, numbers), (theirs, others)) = (some(self), some(other));
            match mine.iter().zip(&theirs).find(|(a, b)| a != b).filter(|_| numbers == others) {
                Some((mine, theirs)) => format!("sink, way, flow {place:?}: {mine:x?}\n{theirs:x?}"),
                None => format!("sink, way, flow {place:?}: packets {numbers:?}, {others:?}"),
            }
        });
        let first: Vec<String> = handlers.chain(drops).chain(counts).chain(packets).take(5).collect();
        (self != other).then(|| first.join("\n"))
    }
}

/// Runs on one thread until nothing comes any more.
pub fn run(text: &str, regions: &'static [Region], input: &Arc<Input>) -> Outcome {
    run_on(build(text, regions, input, 1))
}

/// The same, and all packets are counted at each element.
pub fn run_counted(text: &str, regions: &'static [Region], input: &Arc<Input>) -> Outcome {
    let (mut router, output) = build(text, regions, input, 1);
    router.write("measure", "true").unwrap();
    run_on((router, output))
}

fn run_on((mut router, output): (Router, Arc<Output>)) -> Outcome {
    for _ in 0..1000 {
        let before = output.count();
        router.lanes_mut()[0].step(3000);
        if before == output.count() {
            break;
        }
    }
    Outcome::new(&mut router, &output)
}

/// Runs on four threads until as many packets arrived as should, or for a while;
/// what is left then goes on in turns.
pub fn run_threads(text: &str, regions: &'static [Region], input: &Arc<Input>, wanted: usize) -> Outcome {
    let (mut router, output) = build(text, regions, input, THREADS);
    let shared = router.shared();
    std::thread::scope(|scope| {
        scope.spawn(|| router.run());
        let end = Instant::now() + Duration::from_millis(200);
        while output.count() < wanted && Instant::now() < end {
            std::thread::sleep(Duration::from_micros(100));
        }
        shared.end();
    });
    for _ in 0..300 {
        router.lanes_mut().iter_mut().for_each(|lane| lane.step(20));
    }
    Outcome::new(&mut router, &output)
}
