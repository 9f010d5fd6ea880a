//! Random small graphs and random packets: whatever the batch and however many
//! threads, the same packets come out, those of a flow that went the same way in the
//! same order, and the same is counted.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use graph::class::{mandatory, positional};
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::lang::{self, Source};
use graph::setup::Services;
use graph::task::TaskId;
use graph::{Class, Console, Cx, Each, Element, Fate, Next, Options, PerPacket, Ran, Registry, Router};
use memory::annotation::Header;
use memory::{Batch, Packet};
use proptest::prelude::*;

/// Where marks stand in a packet's annotations: the way it went, its flow, its number.
const WAY: usize = 32;
const FLOW: usize = 40;
const NUMBER: usize = 44;
const THREADS: usize = 4;

/// The packets of each source.
#[derive(Debug)]
struct Input(Vec<Vec<Vec<u8>>>);

/// What arrived, in order, each with its number, by sink, way and flow.
type Arrived = BTreeMap<(u32, u32, u32), Vec<(u32, Vec<u8>)>>;

#[derive(Default)]
struct Output(Mutex<Arrived>);

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

/// Notes the way a packet goes.
static MARK: Class = Class {
    name: "Mark",
    arguments: &[mandatory("N", "")],
    make: |_, conf| Ok(Each::boxed(Mark(conf.mandatory("N")?))),
    ..Class::BASE
};

struct Mark(u32);

impl PerPacket for Mark {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        let way = word(packet, WAY);
        set_word(packet, WAY, (way ^ self.0).wrapping_mul(0x0100_0193));
        Fate::ON
    }

    fn replicate(&self) -> Option<Mark> {
        Some(Mark(self.0))
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
            let place = (self.sink, word(packet, WAY), word(packet, FLOW));
            output.entry(place).or_default().push((word(packet, NUMBER), packet.to_vec()));
        }
        cx.free_batch(batch);
        Next::Done
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Keep { sink: self.sink, output: self.output.clone() }))
    }
}

/// Elements between a node's input and its outputs, and how many of those it has.
/// They see packets that begin with an IP header which was checked.
const NODES: &[(&str, usize)] = &[
    ("Null", 1),
    ("Counter", 1),
    ("Paint(3)", 1),
    ("Paint(4)", 1),
    ("CheckPaint(3)", 2),
    ("PaintSwitch", 5),
    ("PaintTee(4)", 2),
    ("Tee(2)", 2),
    ("Tee(3)", 3),
    ("Switch(1)", 2),
    ("Switch(-1)", 1),
    ("HashSwitch(12, 4)", 3),
    ("Strip(4) -> Unstrip(4)", 1),
    ("EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> EtherMirror -> Strip(14)", 1),
    ("DecIPTTL", 2),
    ("CheckIPHeader", 2),
    ("IPClassifier(udp, tcp, -)", 3),
    ("IPFilter(allow udp && src port > 30000, 1 ttl < 3, deny all)", 2),
    ("Classifier(9/11, 0/45, -)", 3),
    ("Classifier(12/0a, -)", 2),
    ("IPClassifier(dst net 10.1.0.0/16, ip frag, -)", 3),
    ("StaticIPLookup(10.1.0.0/16 0, 10.2.0.0/16 1, 0/0 2)", 3),
    ("GetIPAddress(16)", 1),
    ("SetIPAddress(10.1.2.3)", 1),
    ("SetIPDSCP(7)", 1),
    ("SetIPChecksum", 1),
    ("SetUDPChecksum", 1),
    ("IPMirror", 1),
    ("FixIPSrc(10.9.9.9)", 1),
    ("DropBroadcasts", 1),
    ("IPGWOptions(10.0.0.1)", 2),
    ("IPFragmenter(96)", 2),
    ("CheckLength(100)", 2),
    ("Queue(100000) -> u$ :: Unqueue(7)", 1),
    ("Queue(100000) -> Counter -> u$ :: Unqueue(32)", 1),
    ("SimpleQueue(100000) -> Strip(0) -> u$ :: Unqueue", 1),
    ("Pad(80)", 1),
    ("MarkIPHeader", 1),
];
const SINKS: usize = 3;

/// A node: which one, and where its outputs lead.
type Node = (usize, [usize; 5]);

/// The graph that nodes describe: each leads to later ones, or to a sink.
fn text(nodes: &[Node], burst: usize) -> String {
    let mut text = String::from("c :: Classifier(12/0800, -); k :: CheckIPHeader; c -> Strip(14) -> k;\n");
    let mut wires = String::from("k -> Mark(0) -> n0; c[1] -> Mark(1) -> s0; k[1] -> Mark(2) -> s0;\n");
    let mut threads = String::new();
    for source in 0..THREADS {
        let _ = writeln!(text, "f{source} :: Feed({source}, {burst}) -> c;");
        let _ = write!(threads, "f{source} {source}, ");
    }
    for sink in 0..SINKS {
        let _ = writeln!(text, "s{sink} :: Keep({sink});");
    }
    let mut used = vec![false; nodes.len()];
    used[0] = true;
    let mut all_sinks = [false; SINKS];
    all_sinks[0] = true;
    for (n, (kind, leads)) in nodes.iter().enumerate() {
        if !used[n] {
            continue;
        }
        let (chain, outputs) = NODES[*kind];
        let chain = chain.replace("u$", &format!("u{n}"));
        if chain.contains("Unqueue") {
            let _ = write!(threads, "u{n} {}, ", leads[0] % THREADS);
        }
        // A name for the last of the chain, whose outputs these are.
        let (front, last) = chain
            .rsplit_once(" -> ")
            .map_or((String::new(), chain.as_str()), |(f, l)| (format!("{f} -> "), l));
        let last = if last.contains("::") { last.to_string() } else { format!("e{n} :: {last}") };
        let name = last.split(' ').next().unwrap().to_string();
        let _ = writeln!(text, "n{n} :: Mark({}) -> {front}{last};", n + 10);
        for (output, lead) in leads.iter().enumerate().take(outputs) {
            let later = nodes.len() - n - 1;
            let target = match lead % (later + SINKS) {
                to if to < later => {
                    used[n + 1 + to] = true;
                    format!("n{}", n + 1 + to)
                }
                to => {
                    all_sinks[to - later] = true;
                    format!("s{}", to - later)
                }
            };
            let _ = writeln!(wires, "{name}[{output}] -> Mark({}) -> {target};", 100 + output);
        }
    }
    for sink in (0..SINKS).filter(|sink| !all_sinks[*sink]) {
        let _ = writeln!(wires, "Idle -> s{sink};");
    }
    text + &wires + &format!("StaticThreadSched({});", threads.trim_end_matches(", "))
}

fn registry() -> Registry {
    let mut registry = element::registry();
    [&FEED, &MARK, &KEEP].into_iter().for_each(|class| registry.add(class));
    registry
}

/// What came of a run.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    arrived: Arrived,
    counts: Vec<(String, String)>,
    drops: Vec<(String, Vec<u64>)>,
}

fn build(text: &str, input: &Arc<Input>, threads: usize) -> (Router, Arc<Output>) {
    let registry = registry();
    let options =
        lang::Options { known_class: &|name| registry.find(name).is_some(), ..lang::Options::default() };
    let flat =
        lang::read(vec![Source::new("config", text)], &options).unwrap_or_else(|p| panic!("{p}\n{text}"));
    let output = Arc::new(Output::default());
    let mut services = Services::default();
    services.add(input.clone());
    services.add(output.clone());
    let clock = if threads == 1 { Clock::simulated(SIMULATION_START_NS) } else { Clock::real() };
    let console = Console::Memory(Arc::default());
    let options = Options { threads, services, clock: Arc::new(clock), console, ..Options::default() };
    let router = Router::build(text, flat, &registry, options);
    let router = router
        .unwrap_or_else(|list| panic!("{:?}\n{text}", list.iter().map(|p| p.text()).collect::<Vec<_>>()));
    (router, output)
}

fn outcome(router: &mut Router, output: &Output) -> Outcome {
    let shared = router.shared();
    let named = shared.plan.elements.iter().enumerate();
    let drops = named.map(|(n, e)| {
        let mut sums = vec![0; e.kind.drops.len()];
        for lane in router.lanes() {
            sums.iter_mut().zip(&lane.figures(n).drops).for_each(|(sum, drops)| *sum += drops);
        }
        (e.name.clone(), sums)
    });
    let drops = drops.collect();
    let counters =
        shared.plan.elements.iter().filter(|e| e.kind.name == "Counter" || e.kind.name == "DecIPTTL");
    let counts = counters.map(|e| {
        let handler = if e.kind.name == "Counter" { "byte_count" } else { "drops" };
        let name = format!("{}.{handler}", e.name);
        let value = router.read(&name, "").unwrap();
        (name, value)
    });
    Outcome { counts: counts.collect(), arrived: std::mem::take(&mut *output.0.lock().unwrap()), drops }
}

/// Runs on one thread until nothing is left to do.
fn run(nodes: &[Node], burst: usize, input: &Arc<Input>) -> Outcome {
    let (mut router, output) = build(&text(nodes, burst), input, 1);
    for _ in 0..1000 {
        let before: usize = output.0.lock().unwrap().values().map(Vec::len).sum();
        router.lanes_mut()[0].step(3000);
        if before == output.0.lock().unwrap().values().map(Vec::len).sum::<usize>() {
            break;
        }
    }
    outcome(&mut router, &output)
}

/// Runs on four threads until as many packets arrived as should, or for a while;
/// what is left then goes on in turns.
fn run_threads(nodes: &[Node], input: &Arc<Input>, wanted: usize) -> Outcome {
    let (mut router, output) = build(&text(nodes, 32), input, THREADS);
    let shared = router.shared();
    let arrived = || output.0.lock().unwrap().values().map(Vec::len).sum::<usize>();
    std::thread::scope(|scope| {
        scope.spawn(|| router.run());
        let end = Instant::now() + Duration::from_millis(200);
        while arrived() < wanted && Instant::now() < end {
            std::thread::sleep(Duration::from_micros(100));
        }
        shared.end();
    });
    for _ in 0..300 {
        router.lanes_mut().iter_mut().for_each(|lane| lane.step(20));
    }
    outcome(&mut router, &output)
}

/// A frame of these few numbers: mostly IP, mostly right.
fn frame((kind, ttl, to, port, length): (u8, u8, u8, u16, usize)) -> Vec<u8> {
    let mut frame = vec![0xAB; 14 + 20 + 8 + length];
    frame[12..14].copy_from_slice(if kind == 0 { &[8, 6] } else { &[8, 0] });
    let ip = &mut frame[14..];
    let total = ip.len() as u16;
    ip[..2].copy_from_slice(&[0x45, kind]);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..8].copy_from_slice(&[0, 7, if kind & 8 == 0 { 0 } else { 0x40 }, 0]);
    ip[8..10].copy_from_slice(&[ttl, [17, 6, 1, 200][usize::from(kind) % 4]]);
    ip[12..16].copy_from_slice(&[10, to, 0, 1]);
    ip[16..20].copy_from_slice(&[10, to % 3, 7, if kind & 16 == 0 { 9 } else { 255 }]);
    ip[20..22].copy_from_slice(&port.to_be_bytes());
    ip[22..24].copy_from_slice(&53u16.to_be_bytes());
    ip[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    let sum = wire::checksum::of(&{
        let mut header = ip[..20].to_vec();
        header[10..12].fill(0);
        header
    });
    ip[10..12].copy_from_slice(&if kind == 63 { [1, 2] } else { sum.to_be_bytes() });
    frame
}

fn graphs() -> impl Strategy<Value = Vec<Node>> {
    proptest::collection::vec((0..NODES.len(), any::<[u16; 5]>()), 1..12)
        .prop_map(|nodes| nodes.into_iter().map(|(kind, leads)| (kind, leads.map(usize::from))).collect())
}

fn inputs() -> impl Strategy<Value = Arc<Input>> {
    let numbers = (0u8..64, 0u8..6, any::<u8>(), any::<u16>(), 0usize..120);
    let one = proptest::collection::vec(numbers.prop_map(frame), 1..150);
    proptest::collection::vec(one, THREADS).prop_map(|sources| Arc::new(Input(sources)))
}

fn cases(count: u32) -> ProptestConfig {
    let count = std::env::var("IXORA_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(count);
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn batches_change_nothing(nodes in graphs(), input in inputs()) {
        let alone = run(&nodes, 1, &input);
        for burst in [2, 32, 256] {
            prop_assert_eq!(&alone, &run(&nodes, burst, &input), "batches of {}\n{}", burst, text(&nodes, burst));
        }
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn threads_change_nothing(nodes in graphs(), input in inputs()) {
        let alone = run(&nodes, 32, &input);
        let wanted = alone.arrived.values().map(Vec::len).sum();
        prop_assert_eq!(&alone, &run_threads(&nodes, &input, wanted), "{}", text(&nodes, 32));
    }
}

/// Every kind of node at least once, so that a word that is wrong is found.
#[test]
fn every_node_can_be_built() {
    let input = Arc::new(Input(vec![vec![frame((1, 5, 1, 9, 50)); 40]; THREADS]));
    for (kind, (name, _)) in NODES.iter().enumerate() {
        let alone = run(&[(kind, [0, 1, 2, 0, 1])], 1, &input);
        assert_eq!(alone, run(&[(kind, [0, 1, 2, 0, 1])], 32, &input), "{}", name);
        let dropped: u64 = alone.drops.iter().flat_map(|(_, drops)| drops).sum();
        let arrived: usize = alone.arrived.values().map(Vec::len).sum();
        assert!(arrived + dropped as usize >= 160, "{}: {arrived} and {dropped}", name);
    }
}
