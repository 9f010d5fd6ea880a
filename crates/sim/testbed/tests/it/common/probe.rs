//! A driver through everything that it can do, on models that find nothing: what the probes of
//! all drivers share. What a linter finds is printed, a line each, so that `cargo xtask mutants`
//! can see what it says of a driver with a seeded bug: then a phase may end early, but none
//! takes for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use bus::Pci;
use memory::{Batch, Packet, Pool, TxOffload};
use port::{Completion, Options, Port, RxQueue, TxQueue};
use testbed::inprocess::{Handle, while_stepping};

use super::between::{Between, in_front_of};
use super::frames::{self, Sums, payload};
use super::synchronous::synchronous;

/// Ports of a driver, with models behind them.
pub trait Ports: Sized {
    /// Registers of the first queues that tell whether these run.
    const STATES: [u32; 2];

    /// A device for each wire.
    fn devices(wires: &[&str]) -> (Vec<Pci>, Vec<Handle>);
    /// Ports on devices, their receive rings filled.
    fn over(parts: (Vec<Pci>, Vec<Handle>), options: &Options) -> Self;
    /// Handles of the models, one for each port.
    fn handles(&self) -> &[Handle];
    /// The queues that receive, of all ports; those that send, of the first one; and the pool.
    fn parts(&mut self) -> (Vec<&mut dyn RxQueue>, Vec<&mut dyn TxQueue>, &mut Pool);
    /// A packet with these bytes, in as many segments as it takes.
    fn packet(&mut self, bytes: &[u8], offload: TxOffload) -> Packet;
    /// The port with this number.
    fn device(&mut self, n: usize) -> &mut dyn Port;
    /// Changes all that a port filters by, and stops and starts it.
    fn refilter(&mut self, n: usize, round: u8) -> port::Result<()>;
    /// Lets a VLAN through a port's filter.
    fn let_in(&mut self, n: usize, vlan: u16) -> port::Result<()>;
    /// Gives up the last receive queue of the first port, if there is one.
    fn take_rx(&mut self) -> Option<Box<dyn RxQueue>>;
    /// Likewise a transmit queue.
    fn take_tx(&mut self) -> Option<Box<dyn TxQueue>>;
    /// Closes all ports.
    fn close(&mut self);
}

/// Implements [`Ports`] for a bench whose sides have a port and its queues each.
macro_rules! ports {
    ($bench:ty, $states:expr, $devices:expr, $over:expr) => {
        impl $crate::common::probe::Ports for $bench {
            const STATES: [u32; 2] = $states;

            fn devices(wires: &[&str]) -> (Vec<bus::Pci>, Vec<testbed::inprocess::Handle>) {
                $devices(wires)
            }

            fn over(
                parts: (Vec<bus::Pci>, Vec<testbed::inprocess::Handle>),
                options: &port::Options,
            ) -> $bench {
                $over(parts, options)
            }

            fn handles(&self) -> &[testbed::inprocess::Handle] {
                &self.handles
            }

            fn parts(
                &mut self,
            ) -> (Vec<&mut dyn port::RxQueue>, Vec<&mut dyn port::TxQueue>, &mut memory::Pool) {
                let (mut rx, mut tx): (Vec<&mut dyn port::RxQueue>, Vec<&mut dyn port::TxQueue>) =
                    (vec![], vec![]);
                for (n, side) in self.sides.iter_mut().enumerate() {
                    rx.extend(side.rx.iter_mut().map(|queue| queue as &mut dyn port::RxQueue));
                    tx.extend(
                        side.tx.iter_mut().filter(|_| n == 0).map(|queue| queue as &mut dyn port::TxQueue),
                    );
                }
                (rx, tx, &mut self.pool)
            }

            fn packet(&mut self, bytes: &[u8], offload: memory::TxOffload) -> memory::Packet {
                <$bench>::packet(self, bytes, offload)
            }

            fn device(&mut self, n: usize) -> &mut dyn port::Port {
                &mut self.sides[n].device
            }

            fn refilter(&mut self, n: usize, round: u8) -> port::Result<()> {
                use port::{Filters as _, Port as _};
                let (port, mac) = (&mut self.sides[n].device, [0x02, 0, 0, 0, 0, round]);
                port.add_mac(mac)?;
                port.add_mac([0x01, 0, 0x5E, 0, 0, round])?;
                port.set_promiscuous(round % 2 == 0)?;
                port.set_all_multicast(round % 2 == 1)?;
                port.set_vlan(u16::from(round), true)?;
                port.set_vlan_filter(round % 2 == 0)?;
                port.remove_mac(mac)?;
                port.stop()?;
                port.start()
            }

            fn let_in(&mut self, n: usize, vlan: u16) -> port::Result<()> {
                use port::Filters as _;
                self.sides[n].device.set_vlan(vlan, true)
            }

            fn take_rx(&mut self) -> Option<Box<dyn port::RxQueue>> {
                self.sides[0].rx.pop().map(|queue| Box::new(queue) as Box<dyn port::RxQueue>)
            }

            fn take_tx(&mut self) -> Option<Box<dyn port::TxQueue>> {
                self.sides[0].tx.pop().map(|queue| Box::new(queue) as Box<dyn port::TxQueue>)
            }

            fn close(&mut self) {
                self.sides.clear();
            }
        }
    };
}
pub(crate) use ports;

/// What the driver is asked to do, on which wires, and how it is opened.
pub struct Phase<B> {
    pub name: &'static str,
    pub wires: [&'static str; 2],
    pub options: Options,
    pub way: RegisterAccess,
    pub work: fn(&mut B, &mut Clock),
}

impl<B> Phase<B> {
    /// On two ends of a cable, with registers that are mapped.
    pub fn new(name: &'static str, options: Options, work: fn(&mut B, &mut Clock)) -> Phase<B> {
        Phase { name, wires: ["pair"; 2], options, way: RegisterAccess::Mapped, work }
    }
}

/// How the driver reaches its registers.
#[derive(Clone, Copy, PartialEq)]
pub enum RegisterAccess {
    /// Some are in memory that the device looks at when it likes.
    Mapped,
    /// The device sees every access, in order, and its queues are slow to start.
    Slow,
    /// It sees every access, and acts at once on each write.
    Synchronous,
}

/// The device's time, which goes on by hand: the same in each run. And what the
/// linter found until then, which is told at once: with some bugs the device
/// writes over memory of ours, and nobody lives to tell later.
pub struct Clock {
    pub now_ns: u64,
    phase: &'static str,
    told: BTreeSet<String>,
}

impl Clock {
    /// Steps all models, `each_ns` apart.
    pub fn run(&mut self, ports: &impl Ports, steps: u32, each_ns: u64) {
        for _ in 0..steps {
            self.now_ns += each_ns;
            ports.handles().iter().for_each(|handle| _ = handle.step(self.now_ns));
        }
        self.tell(ports.handles());
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

/// Runs all phases: each comes to its end, and the linter finds nothing.
pub fn all<B: Ports>(phases: &[Phase<B>]) {
    // At once: most of the time they sleep, as a reset asks for. What the devices are, this thread says.
    let probed: Vec<_> = thread::scope(|scope| {
        let devices = phases.iter().map(|phase| (phase, B::devices(&phase.wires)));
        let running: Vec<_> =
            devices.map(|(phase, devices)| scope.spawn(move || probe(phase, devices))).collect();
        running.into_iter().map(|phase| phase.join().unwrap()).collect()
    });
    for (phase, (content, ended)) in phases.iter().zip(probed) {
        assert!(content, "{}: the linter found what is printed above", phase.name);
        assert_eq!(ended, Ok(()), "{}: ended early", phase.name);
    }
}

/// Runs a phase on devices to its end, or as far as it comes; opens and closes the ports twice.
/// Whether the linter found nothing, and how it ended.
fn probe<B: Ports>(phase: &Phase<B>, (pcis, handles): (Vec<Pci>, Vec<Handle>)) -> (bool, Result<(), String>) {
    let driven = |(pci, handle): (&Pci, &Handle)| match phase.way {
        RegisterAccess::Mapped => pci.clone(),
        RegisterAccess::Slow => {
            in_front_of(pci.clone(), Arc::new(Slow { states: B::STATES, before: Mutex::default() }))
        }
        RegisterAccess::Synchronous => synchronous(pci.clone(), handle),
    };
    let driven: Vec<_> = pcis.iter().zip(&handles).map(driven).collect();
    let mut clock = Clock { now_ns: 0, phase: phase.name, told: BTreeSet::new() };
    let run = || {
        for hour in 1..=2 {
            let mut ports = B::over((driven.clone(), handles.clone()), &phase.options);
            clock.tell(&handles);
            // Later than the machine's clock can be by then.
            clock.now_ns = hour * 3_600_000_000_000;
            clock.run(&ports, 200, 50_000);
            (phase.work)(&mut ports, &mut clock);
            // A while that is long for the device, before and after it is closed.
            while_stepping(&handles, || {
                sleep(Duration::from_millis(3));
                ports.close();
                sleep(Duration::from_millis(3));
            })
            .unwrap();
        }
    };
    let ended = catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        words.or(panic.downcast_ref::<&str>().map(|&words| words.to_owned())).unwrap_or_default()
    });
    clock.tell(&handles);
    (clock.told.is_empty(), ended)
}

/// Queues that take their time to start and to stop: two looks see them as before.
#[derive(Debug)]
struct Slow {
    states: [u32; 2],
    before: Mutex<BTreeMap<u32, (u32, [u8; 4])>>,
}

impl Between for Slow {
    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        match self.before.lock().unwrap().get_mut(&offset) {
            Some((left @ 1.., before)) => {
                *left -= 1;
                data.copy_from_slice(&before[..data.len()]);
                Ok(())
            }
            _ => inner.read_bar(index, offset, data),
        }
    }

    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> bus::Result<()> {
        if self.states.contains(&offset) {
            let mut before = [0; 4];
            inner.read_bar(index, offset, &mut before)?;
            self.before.lock().unwrap().insert(offset, (2, before));
        }
        inner.write_bar(index, offset, data)
    }
}

/// Sends what `batch` holds from the first port; what the ring has no room for goes back
/// to the pool.
fn send(ports: &mut impl Ports, batch: &mut Batch) {
    let (_, mut tx, pool) = ports.parts();
    tx[0].send(pool, batch);
    pool.free_batch(batch);
}

/// Takes what every port has, in a bounded number of calls.
pub fn recv(ports: &mut impl Ports) {
    let (rx, _, pool) = ports.parts();
    let mut batch = Batch::default();
    for queue in rx {
        for _ in 0..8 {
            queue.recv(pool, &mut batch);
            pool.free_batch(&mut batch);
        }
    }
}

/// So many frames of different lengths, if there are buffers.
fn batch(ports: &mut impl Ports, frames: u16) -> Batch {
    let mut batch = Batch::with_limit(64);
    for n in 0..frames {
        if ports.parts().2.available() > 0 {
            let frame = frames::udp4(&payload(20 + usize::from(n)), Sums::Full);
            batch.push(ports.packet(&frame, TxOffload::default()));
        }
    }
    batch
}

/// Some laps around the rings, in bursts of all lengths; then a while in which
/// frames wait for what the driver does not do.
fn traffic(ports: &mut impl Ports, clock: &mut Clock) {
    for round in 0..100 {
        let mut batch = batch(ports, round % 33);
        send(ports, &mut batch);
        clock.run(ports, 8, 10_000);
        recv(ports);
    }
    for _ in 0..20 {
        let mut batch = batch(ports, 32);
        send(ports, &mut batch);
        recv(ports);
        clock.run(ports, 8, 10_000_000);
    }
}

/// Sends one burst through the ports, and receives it.
pub fn traffic_once(ports: &mut impl Ports, clock: &mut Clock) {
    let mut batch = batch(ports, 20);
    send(ports, &mut batch);
    clock.run(ports, 8, 10_000);
    recv(ports);
}

/// The link goes down, so that the device is behind for longer than a ring has room.
fn overload(ports: &mut impl Ports, clock: &mut Clock) {
    for _ in 0..600 {
        let mut batch = batch(ports, 40);
        send(ports, &mut batch);
        recv(ports);
        clock.run(ports, 1, 1_000_000);
    }
}

/// More frames at once than a ring of 128 has room for, while the device takes 64 in a step.
pub fn overfull(ports: &mut impl Ports, clock: &mut Clock) {
    for _ in 0..8 {
        for _ in 0..4 {
            let mut batch = batch(ports, 60);
            send(ports, &mut batch);
        }
        clock.run(ports, 1, 10_000);
        recv(ports);
    }
    clock.run(ports, 8, 10_000);
    recv(ports);
}

const IP: u8 = TxOffload::IP_CHECKSUM;
const UDP: u8 = TxOffload::UDP_CHECKSUM;
const TCP: u8 = TxOffload::TCP_CHECKSUM;
const V6: u8 = TxOffload::IPV6;

/// What is asked for a frame, with the lengths of its headers.
fn ask(flags: u8) -> TxOffload {
    let (l3_len, l4_len) = (if flags & V6 == 0 { 20 } else { 40 }, if flags & UDP == 0 { 20 } else { 8 });
    TxOffload { flags, l2_len: 14, l3_len, l4_len, ..TxOffload::default() }
}

/// A frame from the first port to the others.
fn cross(ports: &mut impl Ports, clock: &mut Clock, bytes: &[u8], offload: TxOffload) {
    let mut batch = Batch::default();
    batch.push(ports.packet(bytes, offload));
    send(ports, &mut batch);
    clock.run(ports, 8, 10_000);
    recv(ports);
}

/// Checksums, tags and segments in turn, so that contexts come and go.
fn offloads(ports: &mut impl Ports, clock: &mut Clock) {
    let bytes = payload(333);
    for _ in 0..2 {
        cross(ports, clock, &frames::udp4(&bytes, Sums::Pseudo), ask(IP | UDP));
        cross(ports, clock, &frames::tcp6(&bytes, Sums::Pseudo), ask(TCP | V6));
        cross(ports, clock, &frames::tcp4(&bytes, Sums::Pseudo), ask(IP | TCP));
        let tag = TxOffload { flags: TxOffload::VLAN, l2_len: 14, vlan: 5, ..TxOffload::default() };
        cross(ports, clock, &frames::udp4(&bytes, Sums::Full), tag);
        let large = payload(5000);
        let cut = TxOffload { segment_size: 1440, ..ask(TxOffload::SEGMENT | TCP | IP) };
        cross(ports, clock, &frames::tcp4(&large, Sums::PseudoNoLength), cut);
        let cut = TxOffload { segment_size: 1440, ..ask(TxOffload::SEGMENT | TCP | V6) };
        cross(ports, clock, &frames::tcp6(&large, Sums::PseudoNoLength), cut);
        let cut = TxOffload { segment_size: 1440, ..ask(TxOffload::SEGMENT | UDP | IP) };
        cross(ports, clock, &frames::udp4(&large, Sums::PseudoNoLength), cut);
    }
}

/// Frames of several buffers, to the longest and beyond.
fn long_frames(ports: &mut impl Ports, clock: &mut Clock) {
    for len in [60, 2048, 2049, 4096, 8999, 9000, 20_000] {
        cross(ports, clock, &payload(len), TxOffload::default());
    }
    unsendable(ports, clock);
    for _ in 0..64 {
        cross(ports, clock, &payload(9000), TxOffload::default());
    }
}

/// Chains with too many segments, and with empty ones; and what is too short.
fn unsendable(ports: &mut impl Ports, clock: &mut Clock) {
    for lens in [&[60; 60][..], &[60; 20], &[60, 0, 60], &[0], &[10]] {
        let pool = ports.parts().2;
        let mut segments = lens.iter().map(|&len| {
            let mut segment = pool.alloc().unwrap();
            segment.copy_from(&payload(len)).unwrap();
            segment
        });
        let mut chain = segments.next().unwrap();
        segments.for_each(|segment| chain.append(segment));
        let mut batch = Batch::default();
        batch.push(chain);
        send(ports, &mut batch);
        clock.run(ports, 8, 10_000);
        recv(ports);
    }
}

/// A port whose first offload is a tag; and packets that cannot be sent.
fn first_offloads(ports: &mut impl Ports, clock: &mut Clock) {
    let tag = TxOffload { flags: TxOffload::VLAN, l2_len: 14, vlan: 7, ..TxOffload::default() };
    let frame = frames::udp4(&payload(100), Sums::Full);
    cross(ports, clock, &frame, tag);
    cross(ports, clock, &frame, TxOffload::default());
    cross(ports, clock, &frame, ask(IP));
    cross(ports, clock, &frame, TxOffload { l3_len: 255, ..ask(IP) });
    cross(ports, clock, &payload(40), TxOffload::default());
    unsendable(ports, clock);
}

/// All filters, changed while frames come.
fn filters(ports: &mut impl Ports, clock: &mut Clock) {
    for round in 0..4 {
        let handles = ports.handles().to_vec();
        while_stepping(&handles, || ports.refilter(1, round)).unwrap().unwrap();
        clock.now_ns += 1_000_000_000;
        traffic_once(ports, clock);
    }
}

/// All queues armed, woken and polled, over and over.
fn interrupts(ports: &mut impl Ports, clock: &mut Clock) {
    for _ in 0..20 {
        ports.parts().0.into_iter().for_each(|queue| _ = queue.arm());
        traffic_once(ports, clock);
        clock.run(ports, 8, 100_000);
        ports.parts().0.into_iter().for_each(|queue| queue.disarm());
    }
}

/// Several queues under traffic, of which some go while it lasts.
fn queues(ports: &mut impl Ports, clock: &mut Clock) {
    for _ in 0..100 {
        clock.run(ports, 8, 10_000);
        recv(ports);
    }
    let handles = ports.handles().to_vec();
    while let Some(queue) = ports.take_rx() {
        while_stepping(&handles, || drop(queue)).unwrap();
        clock.now_ns += 1_000_000_000;
        for _ in 0..20 {
            clock.run(ports, 8, 10_000);
            recv(ports);
        }
    }
    let gone = ports.take_tx();
    while_stepping(&handles, || drop(gone)).unwrap();
}

/// What every driver of Intel's can do; `several` has more than one queue.
pub fn phases<B: Ports>(several: Options) -> Vec<Phase<B>> {
    let default = Options::default;
    let plain = Options { rx_ring: 64, tx_ring: 64, ..default() };
    let head = Options { completion: Completion::Head, ..plain.clone() };
    let armed = Options { interrupts: true, rx_queues: 2, ..default() };
    vec![
        Phase::new("traffic", plain.clone(), traffic),
        Phase {
            wires: ["sink+fault:flap=200ms/100ms"; 2],
            ..Phase::new("rings that fill", plain.clone(), overload)
        },
        Phase::new("a head that is written back", head, traffic),
        Phase::new("offloads", default(), offloads),
        Phase::new("offloads one by one", Options { vlan_strip: true, ..default() }, first_offloads),
        Phase::new("long frames", Options { max_frame: 9000, ..default() }, long_frames),
        Phase::new("filters", Options { promiscuous: false, ..default() }, filters),
        Phase::new("interrupts", armed, interrupts),
        Phase { wires: ["gen:flows=64", "gen:flows=8,rate=100k"], ..Phase::new("queues", several, queues) },
        Phase {
            way: RegisterAccess::Slow,
            ..Phase::new("queues that take their time", plain.clone(), traffic)
        },
        Phase {
            way: RegisterAccess::Synchronous,
            ..Phase::new("a device that acts at once", plain, traffic)
        },
    ]
}
