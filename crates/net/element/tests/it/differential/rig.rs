//! Runs a configuration between sources that send given packets and sinks that keep what
//! comes, alone or on threads, as it is or with programs in it. Tests of compiled routers in
//! `crates/ixora` use it too.
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

/// Annotations of configurations begin the area; behind them is what tests write.
const OWN: usize = 32;
/// Annotations, the last ones: a packet's flow in one byte, and its number in two.
const FLOW: usize = 45;
const NUMBER: usize = 46;

/// What tells the way by which a packet came to a sink: packets of a flow that came the same
/// way are in order. It may take out of a packet what nobody promises.
pub type PathMark = fn(&mut Packet) -> Vec<u8>;

/// The packets of each source, and what tells the ways that they take.
#[derive(Debug)]
pub struct Input {
    pub sources: Vec<Vec<Vec<u8>>>,
    pub way: PathMark,
}

/// The sink, the way there, and the flow.
type FlowAtSink = (u32, Vec<u8>, u8);
/// The number of a packet, its bytes, and its other annotations.
type Kept = (u16, Vec<u8>, Vec<u8>);
/// What arrived, in order.
type Arrived = BTreeMap<FlowAtSink, Vec<Kept>>;

pub struct Output {
    way: PathMark,
    arrived: Mutex<Arrived>,
}

impl Output {
    fn count(&self) -> usize {
        self.arrived.lock().unwrap().values().map(Vec::len).sum()
    }
}

fn number(packet: &Packet) -> u16 {
    u16::from_ne_bytes(packet.annotations().area[NUMBER..].try_into().unwrap())
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
        let packets = &self.input.sources[self.source];
        for bytes in packets[self.next..].iter().take(self.burst) {
            let mut packet = cx.packet(bytes).unwrap();
            packet.set_header(Header::Link, 0);
            // A source has four flows.
            let area = &mut packet.annotations_mut().area;
            area[FLOW] = u8::try_from(self.source * 4 + self.next % 4).unwrap();
            area[NUMBER..].copy_from_slice(&u16::try_from(self.next).unwrap().to_ne_bytes());
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
        let mut arrived = self.output.arrived.lock().unwrap();
        for packet in batch.iter_mut() {
            let place = (self.sink, (self.output.way)(packet), packet.annotations().area[FLOW]);
            let bytes = packet.segments().flat_map(|segment| segment.to_vec()).collect();
            let notes = packet.annotations().area[..OWN].to_vec();
            arrived.entry(place).or_default().push((number(packet), bytes, notes));
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
    let input = Input { sources: vec![], way: |_| vec![] };
    let output = Output { way: input.way, arrived: Mutex::default() };
    Router::configure(text, flat(text), &registry(), options(&Arc::new(input), &Arc::new(output)))
        .unwrap_or_else(|list| panic!("{:?}\n{text}", list.iter().map(|p| p.text()).collect::<Vec<_>>()))
}

/// A router, and what came out of it.
pub struct Rig {
    pub router: Router,
    output: Arc<Output>,
}

impl Rig {
    pub fn new(text: &str, regions: &'static [Region], threads: usize, input: &Arc<Input>) -> Rig {
        Rig::build(text, regions, threads, input).unwrap_or_else(|problems| panic!("{problems}{text}"))
    }

    /// The same; what is wrong when there is no such router.
    pub fn build(
        text: &str,
        regions: &'static [Region],
        threads: usize,
        input: &Arc<Input>,
    ) -> Result<Rig, String> {
        let output = Arc::new(Output { way: input.way, arrived: Mutex::default() });
        let clock = if threads == 1 { Clock::simulated(SIMULATION_START_NS) } else { Clock::real() };
        let options = Options { fused: regions, threads, clock: Arc::new(clock), ..options(input, &output) };
        let router = Router::build(text, flat(text), &registry(), options)
            .map_err(|list| list.iter().map(|p| p.text() + "\n").collect::<String>())?;
        Ok(Rig { router, output })
    }

    /// Runs on one thread until nothing comes any more.
    pub fn run(&mut self) {
        for _ in 0..1000 {
            let before = self.output.count();
            self.router.lanes_mut()[0].step(3000);
            if before == self.output.count() {
                break;
            }
        }
    }

    /// Runs on the router's threads until as many packets arrived as should, or for a while;
    /// what is left then goes on in turns.
    pub fn run_threads(&mut self, wanted: usize) {
        let (shared, output) = (self.router.shared(), &self.output);
        std::thread::scope(|scope| {
            scope.spawn(|| self.router.run());
            let end = Instant::now() + Duration::from_millis(200);
            while output.count() < wanted && Instant::now() < end {
                std::thread::sleep(Duration::from_micros(100));
            }
            shared.end();
        });
        for _ in 0..300 {
            self.router.lanes_mut().iter_mut().for_each(|lane| lane.step(20));
        }
    }

    /// What came of it: packets, all handlers that are read, all counts.
    pub fn outcome(&mut self) -> Outcome {
        Outcome::new(&mut self.router, &self.output)
    }
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
            drops.insert(planned.name.to_string(), sums);
            let all = router.lanes().iter().map(|lane| lane.counters(number).packets).sum();
            packets.insert(planned.name.to_string(), all);
            for handler in planned.kind.handlers().filter(|h| h.read && !h.name.contains("rate")) {
                let name = format!("{}.{}", planned.name, handler.name);
                let value = router.read(&name, "").unwrap_or_else(|refused| refused.to_string());
                handlers.insert(name, value);
            }
        }
        Outcome { arrived: std::mem::take(&mut *output.arrived.lock().unwrap()), handlers, drops, packets }
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

    /// Fails where two are different.
    pub fn assert_same(&self, other: &Outcome, what: &str) {
        assert_eq!(self.difference(other), None, "{what}");
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
                let numbers: Vec<u16> = all.iter().map(|(number, ..)| *number).collect();
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
    let mut rig = Rig::new(text, regions, 1, input);
    rig.run();
    rig.outcome()
}

/// The same, and all packets are counted at each element.
pub fn run_counted(text: &str, regions: &'static [Region], input: &Arc<Input>) -> Outcome {
    let mut rig = Rig::new(text, regions, 1, input);
    rig.router.write("measure", "true").unwrap();
    rig.run();
    rig.outcome()
}

/// Runs on a thread for each source until as many packets arrived as should, or for a while.
pub fn run_threads(text: &str, regions: &'static [Region], input: &Arc<Input>, wanted: usize) -> Outcome {
    let mut rig = Rig::new(text, regions, input.sources.len(), input);
    rig.run_threads(wanted);
    rig.outcome()
}
