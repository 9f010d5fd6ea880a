//! Our driver through everything that it can do, on our model: the linter finds
//! nothing. What it finds is printed, a line each, so that `cargo xtask mutants`
//! can see what it says of a driver with a seeded bug: then a phase may end early,
//! but none takes for ever.
#![allow(clippy::unwrap_used)]

mod common;

use port::{Completion, Filters as _, Options, Port as _, RxQueue as _, TxQueue as _};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use bus::Pci;
use common::between::{Between, in_front_of};
use common::frames::{self, Sums, payload};
use common::hasty::hasty;
use common::{Bench, devices};
use memory::{Batch, TxOffload};
use regs::ixgbe::{RXDCTL, TXDCTL};
use testbed::inprocess::{Handle, while_stepping};

/// What the driver is asked to do, on which wires, and how it is opened.
struct Phase {
    name: &'static str,
    wires: [&'static str; 2],
    options: Options,
    way: Way,
    work: fn(&mut Bench, &mut Clock),
}

/// How the driver reaches its registers.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Some are in memory that the device looks at when it likes.
    Mapped,
    /// The device sees every access, in order, and its queues are slow to start.
    Slow,
    /// It sees every access, and acts at once on each write.
    Hasty,
}

/// The device's time, which goes on by hand: the same in each run. And what the
/// linter found until then, which is told at once: with some bugs the device
/// writes over memory of ours, and nobody lives to tell later.
struct Clock {
    now_ns: u64,
    phase: &'static str,
    told: BTreeSet<String>,
}

impl Clock {
    /// Steps all models, `each_ns` apart.
    fn run(&mut self, bench: &Bench, steps: u32, each_ns: u64) {
        for _ in 0..steps {
            self.now_ns += each_ns;
            bench.handles.iter().for_each(|handle| _ = handle.step(self.now_ns));
        }
        self.tell(&bench.handles);
    }

    /// Prints what is new.
    fn tell(&mut self, handles: &[Handle]) {
        for finding in handles.iter().flat_map(|handle| handle.report().findings) {
            if self.told.insert(finding.rule.clone()) {
                let mut line = serde_json::to_value(&finding).unwrap();
                line["phase"] = self.phase.into();
                println!("finding {line}");
            }
        }
    }
}

fn phases() -> Vec<Phase> {
    let phase = |name, options, work| Phase { name, wires: ["pair"; 2], options, way: Way::Mapped, work };
    let plain = Options { rx_ring: 64, tx_ring: 64, ..Options::default() };
    let several = Options { rx_queues: 4, tx_queues: 2, ..Options::default() };
    vec![
        phase("traffic", plain.clone(), traffic),
        Phase {
            wires: ["sink+fault:flap=200ms/100ms"; 2],
            ..phase("rings that fill", plain.clone(), overload)
        },
        phase(
            "a head that is written back",
            Options { completion: Completion::Head, ..plain.clone() },
            traffic,
        ),
        phase("offloads", Options::default(), offloads),
        phase("offloads one by one", Options { vlan_strip: true, ..Options::default() }, first_offloads),
        phase("long frames", Options { max_frame: 9000, ..Options::default() }, long_frames),
        phase("filters", Options { promiscuous: false, ..Options::default() }, filters),
        phase("interrupts", Options { interrupts: true, rx_queues: 2, ..Options::default() }, interrupts),
        Phase { wires: ["gen:flows=64", "gen:flows=8,rate=100k"], ..phase("queues", several, queues) },
        Phase { way: Way::Slow, ..phase("queues that take their time", plain.clone(), traffic) },
        Phase { way: Way::Hasty, ..phase("a device that acts at once", plain, traffic) },
    ]
}

/// Sends what `batch` holds from port 0; what the ring has no room for goes back
/// to the pool.
fn send(bench: &mut Bench, batch: &mut Batch) {
    let Bench { sides, pool, .. } = bench;
    sides[0].tx[0].send(pool, batch);
    pool.free_batch(batch);
}

/// Takes what every port has, in a bounded number of calls.
fn recv(bench: &mut Bench) {
    let Bench { sides, pool, .. } = bench;
    let mut batch = Batch::default();
    for queue in sides.iter_mut().flat_map(|side| &mut side.rx) {
        for _ in 0..8 {
            queue.recv(pool, &mut batch);
            pool.free_batch(&mut batch);
        }
    }
}

fn batch(bench: &mut Bench, frames: u16) -> Batch {
    let mut batch = Batch::with_limit(64);
    for n in 0..frames {
        if bench.pool.available() > 0 {
            let frame = frames::udp4(&payload(20 + usize::from(n)), Sums::Full);
            batch.push(bench.packet(&frame, TxOffload::default()));
        }
    }
    batch
}

/// Some laps around the rings, in bursts of all lengths; then a while in which
/// frames wait for what the driver does not do.
fn traffic(bench: &mut Bench, clock: &mut Clock) {
    for round in 0..100 {
        let mut batch = batch(bench, round % 33);
        send(bench, &mut batch);
        clock.run(bench, 8, 10_000);
        recv(bench);
    }
    for _ in 0..20 {
        let mut batch = batch(bench, 32);
        send(bench, &mut batch);
        recv(bench);
        clock.run(bench, 8, 10_000_000);
    }
}

/// The link goes down, so that the device is behind for longer than a ring has room.
fn overload(bench: &mut Bench, clock: &mut Clock) {
    for _ in 0..600 {
        let mut batch = batch(bench, 40);
        send(bench, &mut batch);
        recv(bench);
        clock.run(bench, 1, 1_000_000);
    }
}

const IP: u8 = TxOffload::IP_CHECKSUM;
const UDP: u8 = TxOffload::UDP_CHECKSUM;
const TCP: u8 = TxOffload::TCP_CHECKSUM;
const V6: u8 = TxOffload::IPV6;

fn ask(flags: u8) -> TxOffload {
    let (l3_len, l4_len) = (if flags & V6 == 0 { 20 } else { 40 }, if flags & UDP == 0 { 20 } else { 8 });
    TxOffload { flags, l2_len: 14, l3_len, l4_len, ..TxOffload::default() }
}

fn cross(bench: &mut Bench, clock: &mut Clock, bytes: &[u8], offload: TxOffload) {
    let mut batch = Batch::default();
    batch.push(bench.packet(bytes, offload));
    send(bench, &mut batch);
    clock.run(bench, 8, 10_000);
    recv(bench);
}

/// Checksums, tags and segments in turn, so that contexts come and go.
fn offloads(bench: &mut Bench, clock: &mut Clock) {
    let bytes = payload(333);
    for _ in 0..2 {
        cross(bench, clock, &frames::udp4(&bytes, Sums::Pseudo), ask(IP | UDP));
        cross(bench, clock, &frames::tcp6(&bytes, Sums::Pseudo), ask(TCP | V6));
        cross(bench, clock, &frames::tcp4(&bytes, Sums::Pseudo), ask(IP | TCP));
        let tag = TxOffload { flags: TxOffload::VLAN, l2_len: 14, vlan: 5, ..TxOffload::default() };
        cross(bench, clock, &frames::udp4(&bytes, Sums::Full), tag);
        let large = payload(5000);
        let cut = TxOffload { segment_size: 1440, ..ask(TxOffload::SEGMENT | TCP | IP) };
        cross(bench, clock, &frames::tcp4(&large, Sums::PseudoNoLength), cut);
        let cut = TxOffload { segment_size: 1440, ..ask(TxOffload::SEGMENT | TCP | V6) };
        cross(bench, clock, &frames::tcp6(&large, Sums::PseudoNoLength), cut);
    }
}

/// A port whose first offload is a tag; and packets that cannot be sent.
fn first_offloads(bench: &mut Bench, clock: &mut Clock) {
    let tag = TxOffload { flags: TxOffload::VLAN, l2_len: 14, vlan: 7, ..TxOffload::default() };
    let frame = frames::udp4(&payload(100), Sums::Full);
    cross(bench, clock, &frame, tag);
    cross(bench, clock, &frame, TxOffload::default());
    cross(bench, clock, &frame, ask(IP));
    cross(bench, clock, &frame, TxOffload { l3_len: 255, ..ask(IP) });
    cross(bench, clock, &payload(40), TxOffload::default());
    unsendable(bench, clock);
}

/// Frames of several buffers, to the longest and beyond.
fn long_frames(bench: &mut Bench, clock: &mut Clock) {
    for len in [60, 2048, 2049, 4096, 8999, 9000, 20_000] {
        cross(bench, clock, &payload(len), TxOffload::default());
    }
    unsendable(bench, clock);
    for _ in 0..64 {
        cross(bench, clock, &payload(9000), TxOffload::default());
    }
}

/// Chains with too many segments, and with empty ones.
fn unsendable(bench: &mut Bench, clock: &mut Clock) {
    for lens in [&[60; 60][..], &[60, 0, 60], &[0]] {
        let mut segments = lens.iter().map(|&len| {
            let mut segment = bench.pool.alloc().unwrap();
            segment.copy_from(&payload(len)).unwrap();
            segment
        });
        let mut chain = segments.next().unwrap();
        segments.for_each(|segment| chain.append(segment));
        let mut batch = Batch::default();
        batch.push(chain);
        send(bench, &mut batch);
        clock.run(bench, 8, 10_000);
        recv(bench);
    }
}

/// All filters, changed while frames come.
fn filters(bench: &mut Bench, clock: &mut Clock) {
    for round in 0..4 {
        let port = &mut bench.sides[1].device;
        let mac = [0x02, 0, 0, 0, 0, round];
        let changed = while_stepping(&bench.handles, || -> port::Result<()> {
            port.add_mac(mac)?;
            port.add_mac([0x01, 0, 0x5E, 0, 0, round])?;
            port.set_promiscuous(round % 2 == 0)?;
            port.set_all_multicast(round % 2 == 1)?;
            port.set_vlan(u16::from(round), true)?;
            port.set_vlan_filter(round % 2 == 0)?;
            port.remove_mac(mac)?;
            port.stop()?;
            Ok(port.start()?)
        });
        changed.unwrap().unwrap();
        clock.now_ns += 1_000_000_000;
        traffic_once(bench, clock);
    }
}

fn traffic_once(bench: &mut Bench, clock: &mut Clock) {
    let mut batch = batch(bench, 20);
    send(bench, &mut batch);
    clock.run(bench, 8, 10_000);
    recv(bench);
}

/// Both queues armed, woken and polled, over and over.
fn interrupts(bench: &mut Bench, clock: &mut Clock) {
    for _ in 0..20 {
        bench.sides[1].rx.iter_mut().for_each(|queue| _ = queue.arm());
        traffic_once(bench, clock);
        clock.run(bench, 8, 100_000);
        bench.sides[1].rx.iter_mut().for_each(|queue| queue.disarm());
    }
}

/// Several queues under traffic, of which some go while it lasts.
fn queues(bench: &mut Bench, clock: &mut Clock) {
    for _ in 0..100 {
        clock.run(bench, 8, 10_000);
        recv(bench);
    }
    while let Some(queue) = bench.sides[0].rx.pop() {
        bench.meanwhile(|_| drop(queue));
        clock.now_ns += 1_000_000_000;
        for _ in 0..20 {
            clock.run(bench, 8, 10_000);
            recv(bench);
        }
    }
    bench.meanwhile(|bench| drop(bench.sides[0].tx.pop()));
}

/// Queues that take their time to start and to stop: two looks see them as before.
#[derive(Debug, Default)]
struct Slow(Mutex<BTreeMap<u32, (u32, [u8; 4])>>);

impl Between for Slow {
    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        match self.0.lock().unwrap().get_mut(&offset) {
            Some((left @ 1.., before)) => {
                *left -= 1;
                data.copy_from_slice(&before[..data.len()]);
                Ok(())
            }
            _ => inner.read_bar(index, offset, data),
        }
    }

    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> bus::Result<()> {
        if offset == RXDCTL::at(0) || offset == TXDCTL::at(0) {
            let mut before = [0; 4];
            inner.read_bar(index, offset, &mut before)?;
            self.0.lock().unwrap().insert(offset, (2, before));
        }
        inner.write_bar(index, offset, data)
    }
}

/// Runs a phase to its end, or as far as it comes; opens and closes the port twice.
/// Whether the linter found nothing, and how it ended.
fn probe(phase: &Phase) -> (bool, Result<(), String>) {
    let (pcis, handles) = devices(&phase.wires);
    let driven = |(pci, handle): (&Pci, &Handle)| match phase.way {
        Way::Mapped => pci.clone(),
        Way::Slow => in_front_of(pci.clone(), Arc::<Slow>::default()),
        Way::Hasty => hasty(pci.clone(), handle),
    };
    let driven: Vec<_> = pcis.iter().zip(&handles).map(driven).collect();
    let mut clock = Clock { now_ns: 0, phase: phase.name, told: BTreeSet::new() };
    let run = || {
        for hour in 1..=2 {
            let parts = (driven.clone(), handles.clone());
            let mut bench = Bench::over(parts, &phase.options, 4096);
            clock.tell(&handles);
            // Later than the machine's clock can be by then.
            clock.now_ns = hour * 3_600_000_000_000;
            clock.run(&bench, 200, 50_000);
            (phase.work)(&mut bench, &mut clock);
            // A while that is long for the device, before and after it is closed.
            bench.meanwhile(|bench| {
                sleep(Duration::from_millis(3));
                bench.sides.clear();
                sleep(Duration::from_millis(3));
            });
        }
    };
    let ended = catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        words.or(panic.downcast_ref::<&str>().map(|&words| words.to_owned())).unwrap_or_default()
    });
    clock.tell(&handles);
    (clock.told.is_empty(), ended)
}

#[test]
fn the_linter_finds_nothing_whatever_the_driver_is_asked_to_do() {
    let phases = phases();
    // At once: most of the time they sleep, as a reset asks for.
    let probed: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = phases.iter().map(|phase| scope.spawn(|| probe(phase))).collect();
        running.into_iter().map(|phase| phase.join().unwrap()).collect()
    });
    for (phase, (content, ended)) in phases.iter().zip(probed) {
        assert!(content, "{}: the linter found what is printed above", phase.name);
        assert_eq!(ended, Ok(()), "{}: ended early", phase.name);
    }
}
