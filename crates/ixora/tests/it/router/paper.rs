//! The paper's router and forwarder with the paper's traffic: flows of 1 to 128 packets,
//! small ones likelier, each port's for the three others.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::sync::Mutex;

use graph::{Class, Cx, Element, Next};
use interface::pcap::{PacketOptions, Reader, Writer};
use memory::Batch;

use super::frame::heard4;
use super::rig::{Rig, conf, quiet};

/// Bytes of a frame's headers, behind which its number is.
const HEADERS: usize = 42;
const NUMBER: std::ops::Range<usize> = HEADERS..HEADERS + 8;
const NAMES: [&str; 4] = ["P0", "P1", "P2", "P3"];

static KEEP: Class = Class {
    name: "Keep",
    brief: "keeps packets",
    ports: "1/0",
    processing: "h",
    make: |_, _| Ok(Box::new(Keep)),
    ..Class::BASE
};

static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(vec![]);

struct Keep;

impl Element for Keep {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        KEPT.lock().expect("no panic").extend(batch.iter().map(|packet| packet.to_vec()));
        cx.free_batch(batch);
        Next::Done
    }
}

/// A flow's addresses and ports, as a frame has them.
type Flow = [u8; 12];

fn flow(frame: &[u8]) -> Flow {
    frame[26..38].try_into().expect("twelve bytes")
}

fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[NUMBER].try_into().expect("eight bytes"))
}

/// What the paper's generator sends to a port: for the nets of the others, the packets
/// of each flow numbered.
fn traffic(port: usize, count: usize) -> Vec<Vec<u8>> {
    let others: Vec<String> = (0..4).filter(|n| *n != port).map(|n| format!("10.{n}.128.0/17")).collect();
    let config = format!(
        "FlowSource(300, LENGTH 60, LIMIT {count}, TRAINS true, SEED {port}, STOP true,
         SRC 10.{port}.128.0/17, DST \"{}\", SRCETH 02:00:00:00:01:0{port}, DSTETH 02:00:00:00:00:0{}) -> Keep",
        others.join(" "),
        port + 1
    );
    let mut registry = element::registry();
    registry.add(&KEEP);
    let options = graph::lang::Options {
        known_class: &|name| registry.find(name).is_some(),
        ..graph::lang::Options::default()
    };
    let flat = graph::lang::read(vec![graph::lang::Source::new("traffic", config.as_str())], &options);
    let flat = flat.unwrap_or_else(|problems| panic!("{problems}"));
    // One at a time: tests share the memory in which packets are kept.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let router = graph::Router::build(config.as_str(), flat, &registry, graph::Options::default());
    router.unwrap_or_else(|problems| panic!("{problems:?}")).run();
    let mut frames = std::mem::take(&mut *KEPT.lock().expect("no panic"));
    let mut numbers: HashMap<Flow, u64> = HashMap::new();
    for frame in &mut frames {
        let next = numbers.entry(flow(frame)).or_default();
        frame[NUMBER].copy_from_slice(&next.to_be_bytes());
        *next += 1;
    }
    frames
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let file = BufWriter::new(File::create(path).expect("a file"));
    let mut writer = Writer::new(file, &["generator"]).expect("written");
    for frame in frames {
        writer.write(0, 0, frame, PacketOptions::default()).expect("written");
    }
    writer.flush().expect("written");
}

fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(BufReader::new(File::open(path).expect("a file"))).expect("a capture");
    let mut frames = vec![];
    while let Some(record) = reader.next().expect("whole blocks") {
        frames.push(record.data.to_vec());
    }
    frames
}

/// What went through a router of four ports.
struct Run {
    rig: Rig,
    sent: Vec<Vec<Vec<u8>>>,
    /// What left each port, as it was recorded at its cable.
    left: Vec<Vec<Vec<u8>>>,
}

/// Sends so many packets to each port of a router with so many threads, at a rate.
fn run(config: &str, threads: usize, count: usize, rate: &str) -> Run {
    let place = tempfile::tempdir().expect("a directory");
    let file = |what: &str, n: usize| place.path().join(format!("{what}{n}.pcapng"));
    let sent: Vec<_> = (0..4).map(|n| traffic(n, count)).collect();
    sent.iter().enumerate().for_each(|(n, frames)| write(&file("in", n), frames));
    let wire = |n| {
        format!("pcap:{},hold,rate={rate}+sink+record:{}", file("in", n).display(), file("out", n).display())
    };
    let wires: Vec<String> = (0..4).map(wire).collect();
    let mut rig = Rig::new(config, &NAMES, threads, &wires);
    rig.run(quiet);
    // The recorder has both directions: what the router sends has its address.
    let ours = |n: usize| {
        move |frame: &Vec<u8>| frame[6..12] == [2, 0, 0, 0, 0, n as u8 + 1] && frame[..6] != frame[6..12]
    };
    let left = (0..4).map(|n| read(&file("out", n)).into_iter().filter(ours(n)).collect()).collect();
    Run { rig, sent, left }
}

impl Run {
    /// Every packet that left is one that was sent, at the port of its net, as a router
    /// sends it on; and no packet overtook another of its flow.
    fn check(&self) {
        let mut flows: HashMap<Flow, Vec<&Vec<u8>>> = HashMap::new();
        for frame in self.sent.iter().flatten() {
            flows.entry(flow(frame)).or_default().push(frame);
        }
        let mut last: HashMap<Flow, u64> = HashMap::new();
        for (port, frames) in self.left.iter().enumerate() {
            for frame in frames {
                let heard = heard4(frame);
                let address = heard.dst().octets();
                assert_eq!(address[..2], [10, port as u8], "it leaves at the port of its net");
                assert_eq!(heard.link, ([2, 0, 0, 0, 1, port as u8], [2, 0, 0, 0, 0, port as u8 + 1]));
                assert_eq!(heard.ttl(), 63);
                let before = flows[&flow(frame)][number(frame) as usize];
                assert_eq!(frame[26..], before[26..], "what it carries is as it was");
                assert_eq!(frame[14..22], before[14..22]);
                let next = last.insert(flow(frame), number(frame) + 1).unwrap_or(0);
                assert!(number(frame) >= next, "packet {} of a flow after {next}", number(frame));
            }
        }
    }

    /// All that came in left, or was lost with a name.
    fn balance(&self) -> u64 {
        let (offered, delivered) = self.rig.passed();
        let drops = self.rig.drops();
        assert_eq!(offered, self.sent.iter().map(|frames| frames.len() as u64).sum::<u64>());
        assert_eq!(offered, delivered + drops.values().sum::<u64>(), "{drops:#?}");
        assert_eq!(delivered, self.left.iter().map(|frames| frames.len() as u64).sum::<u64>());
        let findings = self.rig.findings();
        assert!(findings.is_empty(), "the driver kept to the datasheet: {findings:#?}");
        delivered
    }
}

/// The router, with rings that are waited for, and each port received by these threads.
fn patient(threads: &str) -> String {
    let config = conf("router.click").replace("ToDevice($port)", "ToDevice($port, BLOCKING true)");
    assert!(config.contains("BLOCKING"));
    config.replace("FromDevice($port)", &format!("FromDevice($port, THREADS {threads})"))
}

#[test]
fn the_generator_sends_small_trains_more_often_than_large_ones() {
    let frames = traffic(0, 10_000);
    assert_eq!(frames.len(), 10_000);
    let trains: Vec<usize> = frames.chunk_by(|a, b| flow(a) == flow(b)).map(<[_]>::len).collect();
    let shorter = |than: usize| trains.iter().filter(|train| **train <= than).count() * 100 / trains.len();
    assert!(trains.iter().all(|train| (1..=256).contains(train)), "two in a row at most");
    assert!(shorter(16) > 35 && shorter(64) > 75 && shorter(120) < 100, "{trains:?}");
    let net = |frame: &Vec<u8>| frame[31];
    let to = |n: u8| frames.iter().filter(|frame| net(frame) == n).count();
    assert!((1..4).all(|n| (2500..4200).contains(&to(n))) && to(0) == 0, "equally to the three others");
}

#[test]
fn every_packet_leaves_the_right_port_as_it_should() {
    let run = run(&patient("0"), 1, 10_000, "max");
    run.check();
    assert_eq!(run.balance(), 40_000, "{:#?}", run.rig.drops());
}

#[test]
fn two_threads_share_all_ports_and_keep_each_flows_order() {
    let run = run(&patient("0 1"), 2, 10_000, "20k");
    run.check();
    assert_eq!(run.balance(), 40_000, "{:#?}", run.rig.drops());
    // Receive-side scaling gave each thread its part of each port's flows.
    let shares = run.rig.by_thread("Classifier");
    assert!(shares.len() == 4 && shares.iter().flatten().all(|packets| *packets > 1000), "{shares:?}");
}

#[test]
fn threads_that_have_two_ports_each_send_on_all() {
    let run = run(
        &conf("router.click").replace("ToDevice($port)", "ToDevice($port, BLOCKING true)"),
        2,
        5_000,
        "20k",
    );
    run.check();
    assert_eq!(run.balance(), 20_000, "{:#?}", run.rig.drops());
}

#[test]
fn more_than_it_can_send_is_lost_by_name() {
    // The packets of three ports for one, and rings that nobody waits for.
    let config = conf("router.click").replace(
        "10.0.0.0/16 0, 10.1.0.0/16 1, 10.2.0.0/16 2, 10.3.0.0/16 3",
        "10.0.0.0/8 1, 11.0.0.0/16 0, 11.2.0.0/16 2, 11.3.0.0/16 3",
    );
    let place = tempfile::tempdir().expect("a directory");
    let file = |n: usize| place.path().join(format!("in{n}.pcapng"));
    (0..4).for_each(|n| write(&file(n), &if n == 1 { vec![] } else { traffic(n, 20_000) }));
    let wires: Vec<String> = (0..4).map(|n| format!("pcap:{},hold+sink", file(n).display())).collect();
    let mut rig = Rig::new(&config, &NAMES, 2, &wires);
    rig.run(quiet);
    let (drops, (offered, delivered)) = (rig.drops(), rig.passed());
    assert_eq!(offered, 60_000);
    assert_eq!(offered, delivered + drops.values().sum::<u64>(), "{drops:#?}");
}

#[test]
fn the_forwarder_gives_each_port_the_others_packets() {
    let place = tempfile::tempdir().expect("a directory");
    let config = conf("forwarder.click").replace("\")", "\", BLOCKING true)").replacen(
        "\", BLOCKING true) -> E",
        "\") -> E",
        2,
    );
    let file = |what: &str, n: usize| place.path().join(format!("{what}{n}.pcapng"));
    let sent = [traffic(0, 5_000), traffic(1, 5_000)];
    (0..2).for_each(|n| write(&file("in", n), &sent[n]));
    let wire = |n| format!("pcap:{},hold+sink+record:{}", file("in", n).display(), file("out", n).display());
    let mut rig = Rig::new(&config, &["A", "B"], 2, &[wire(0), wire(1)]);
    rig.run(quiet);
    for n in 0..2 {
        // Addresses exchanged, all else as it was, in order.
        let mirrored = |f: &Vec<u8>| [&f[6..12], &f[..6], &f[12..]].concat();
        let wanted: Vec<Vec<u8>> = sent[1 - n].iter().map(mirrored).collect();
        let out = read(&file("out", n));
        let left: Vec<Vec<u8>> = out.into_iter().filter(|f| f[6..12] == wanted[0][6..12]).collect();
        assert!(left == wanted, "{} of {} left port {n}", left.len(), wanted.len());
    }
    assert_eq!((rig.passed(), rig.drops().len()), ((10_000, 10_000), 0));
}

#[test]
fn the_same_configuration_runs_from_the_command_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/router.click");
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("in.pcapng");
    write(&file, &traffic(0, 2_000));
    let wires =
        (1..4).map(|n| format!("P{n}=model:82599,wire=sink+record:{}/out{n}", place.path().display()));
    let arguments = format!(
        "click {} P0=model:82599,wire=pcap:{},loop,rate=20k+sink {} -j 2 -h ToDevice.count -h ToDevice.dropped -h FromDevice.count",
        path.display(),
        file.display(),
        wires.collect::<Vec<_>>().join(" ")
    );
    let running = crate::common::start(place.path(), &arguments);
    let written = |n| std::fs::metadata(place.path().join(format!("out{n}"))).map_or(0, |file| file.len());
    crate::common::until("thousands of packets have left", || (1..4).all(|n| written(n) > 100_000));
    running.signal(rustix::process::Signal::INT);
    let done = running.wait(20);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let (mut received, mut sent) = (0, [0; 4]);
    let mut lines = done.stdout.lines();
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        let value: u64 = value.parse().expect("a number");
        match name.strip_prefix('o').and_then(|rest| rest[..1].parse::<usize>().ok()) {
            Some(port) => sent[port] += value,
            None => received += value,
        }
        lines.next();
    }
    assert!(received > 1_000 && sent[0] == 0 && sent[1..].iter().all(|sent| *sent > 0), "{done:#?}");
    assert_eq!(received, sent.iter().sum::<u64>(), "{done:#?}");
}
