//! Forwarding in fixed buffers on models of the 82599: what comes out of the outputs is what
//! went in, in order, and nothing is lost without a name, whatever an output or a device does.

use std::time::{Duration, Instant};

use bus::Pci;
use driver::ixgbe::{FixedRing, Frame, Ixgbe, RxQueue, TxQueue, join};
use memory::{Batch, Dma, Pool, TxOffload};
use port::{Feature, Offload, Options, Port as _, RxQueue as _, TxQueue as _};
use regs::ixgbe::{RXDCTL, TXDCTL};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::wire::{Plug, plug};
use testbed::{DeviceReport, ixgbe};

use crate::common::broken::{Broken, Faults};
use crate::common::frames::payload;
use crate::common::limit::Limit;
use crate::common::{contents, devices, run_until_idle, sound};

fn fixed(ring: usize) -> Options {
    Options { fixed_buffers: true, rx_ring: ring, ..Options::default() }
}

/// An ordinary port and its queues.
type End = (Ixgbe, Vec<RxQueue>, Vec<TxQueue>);

/// Ports for fixed buffers, each with a cable to an ordinary port, by which frames come and go.
struct Rig {
    /// Held to the end: a device that nobody has forgets what was mapped.
    _pcis: Vec<Pci>,
    /// Two of each cable: the ordinary port's, and the one for fixed buffers.
    handles: Vec<Handle>,
    ends: Vec<End>,
    ports: Vec<Ixgbe>,
    pool: Pool,
}

impl Rig {
    fn open(cables: usize, ring: usize) -> Rig {
        let (pcis, handles) = devices(&vec!["pair"; 2 * cables]);
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, 8192).unwrap();
        let opened = while_stepping(&handles, || {
            let both = |two: &[Pci]| {
                let end = Options { rx_ring: 1024, tx_ring: 1024, ..Options::default() };
                let end = Ixgbe::open(two[0].clone(), &dma, end).unwrap().split();
                (end, Ixgbe::open(two[1].clone(), &dma, fixed(ring)).unwrap())
            };
            pcis.chunks(2).map(both).unzip()
        });
        let (mut ends, ports): (Vec<End>, Vec<Ixgbe>) = opened.unwrap();
        for (_, rx, _) in &mut ends {
            assert_eq!(rx[0].recv(&mut pool, &mut Batch::default()), 0, "nothing was sent yet");
        }
        Rig { _pcis: pcis, handles, ends, ports, pool }
    }

    /// Joins the first port with others, in the order in which these are.
    fn join<const N: usize>(&mut self) -> FixedRing<N> {
        let (from, to) = self.ports.split_first_mut().unwrap();
        let mut to = to.iter_mut();
        let to = std::array::from_fn(|_| to.next().unwrap() as &mut dyn port::Port);
        let ring = while_stepping(&self.handles, || join(from, to)).unwrap().unwrap();
        self.step_models();
        ring
    }

    /// Lets the models see what was enabled, which they look for now and then.
    fn step_models(&self) {
        (0..3000).for_each(|_| self.handles.iter().for_each(|handle| _ = handle.step_now()));
    }

    /// From the first port to the second, and back.
    fn both_ways(&mut self) -> [FixedRing<1>; 2] {
        let Rig { ports, handles, .. } = self;
        let [a, b] = &mut ports[..] else { panic!("two ports") };
        let rings = while_stepping(handles, || [join(a, [b]).unwrap(), join(b, [a]).unwrap()]).unwrap();
        self.step_models();
        rings
    }

    /// Sends frames to the port of a cable.
    fn send(&mut self, cable: usize, frames: &[Vec<u8>]) {
        let mut batch = Batch::with_limit(Batch::MAX);
        for frame in frames {
            let mut packet = self.pool.alloc().unwrap();
            packet.copy_from(frame).unwrap();
            packet.set_tx_offload(TxOffload::default());
            assert!(batch.push(packet).is_none());
        }
        self.ends[cable].2[0].send(&mut self.pool, &mut batch);
        assert!(batch.is_empty(), "the ring has room");
    }

    /// What came from the port of a cable.
    fn recv(&mut self, cable: usize) -> Vec<Vec<u8>> {
        let (mut frames, mut batch) = (vec![], Batch::default());
        let mut limit = Limit::rounds(10_000, "a receive queue to have nothing left");
        while self.ends[cable].1[0].recv(&mut self.pool, &mut batch) > 0 {
            limit.check();
            frames.extend(batch.drain().map(|packet| contents(&packet)));
        }
        frames
    }

    /// Closes all; what the models say in the end.
    fn finish(self, rings: impl Sized) -> Vec<DeviceReport> {
        let Rig { _pcis: held, handles, ends, ports, mut pool } = self;
        while_stepping(&handles, || drop((rings, ends, ports))).unwrap();
        assert_eq!(pool.available(), pool.capacity(), "every buffer is back");
        drop(pool);
        let reports: Vec<_> = handles.iter().map(Handle::report).collect();
        for report in &reports {
            assert_eq!(report.mapped, (0, 0), "nothing is mapped");
            sound(report);
        }
        drop(held);
        reports
    }
}

/// A frame that its number tells from others; of 60 to 1,514 bytes.
fn numbered(number: usize) -> Vec<u8> {
    let mut frame = payload(60 + number * 97 % 1455);
    frame[20..28].copy_from_slice(&(number as u64).to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> usize {
    u64::from_be_bytes(frame[20..28].try_into().unwrap()) as usize
}

/// Changes a frame's first and last bytes.
fn change(frame: &mut [u8]) {
    let last = frame.len() - 1;
    frame[0] ^= 0x5A;
    frame[last] = frame[last].wrapping_add(3);
}

fn changed(mut frame: Vec<u8>) -> Vec<u8> {
    change(&mut frame);
    frame
}

fn all(_: &mut Frame, len: usize) -> [usize; 1] {
    [len]
}

#[test]
fn frames_cross_both_ways_in_order_and_changed() {
    for (ring, limit) in [(64, 32), (64, 1), (512, 256), (512, 7), (4096, 32)] {
        let mut rig = Rig::open(2, ring);
        assert!(rig.ports.iter().all(|port| port.capabilities().has(Feature::FixedBuffers)));
        let mut rings = rig.both_ways();
        let (mut sent, mut came) = (0, [vec![], vec![]]);
        for round in 0..60 {
            let frames: Vec<_> = (sent..sent + round).map(numbered).collect();
            sent += round;
            (0..2).for_each(|cable| rig.send(cable, &frames));
            let mut rounds = Limit::rounds(10_000, "all frames to be forwarded");
            let mut idle = 0;
            while idle < 4 {
                rounds.check();
                run_until_idle(&rig.handles);
                let moved = rings.iter_mut().map(|ring| {
                    ring.forward(limit, |frame, len| {
                        change(&mut frame[..len]);
                        [len]
                    })
                });
                idle = if moved.sum::<usize>() == 0 { idle + 1 } else { 0 };
            }
            (0..2).for_each(|cable| came[cable].extend(rig.recv(cable)));
        }
        let expected: Vec<_> = (0..sent).map(|n| changed(numbered(n))).collect();
        assert!(came[0] == expected && came[1] == expected, "ring {ring}, limit {limit}");
        let bytes: usize = expected.iter().map(Vec::len).sum();
        for ring in &mut rings {
            assert_eq!(ring.dropped(), 0);
            let (rx, [tx]) = ring.queues();
            let (rx, tx) = (rx.stats(), tx.stats());
            assert_eq!((rx.packets, rx.bytes, rx.bad_descriptor), (sent as u64, bytes as u64, 0));
            assert_eq!((tx.packets, tx.bytes, tx.unsendable), (sent as u64, bytes as u64, 0));
        }
        rig.finish(rings);
    }
}

#[test]
fn a_frame_goes_to_the_outputs_that_are_named_and_as_long_as_is_said() {
    let mut rig = Rig::open(4, 64);
    let mut ring = rig.join::<3>();
    let (mut sent, mut came) = (0, vec![vec![]; 4]);
    // By its number a frame goes to some outputs, to each with another length.
    let lengths = |number: usize, len: usize| {
        std::array::from_fn(|n| if number >> n & 1 == 1 { len.min(200 + n) - n } else { 0 })
    };
    for round in 0..100 {
        let frames: Vec<_> = (sent..sent + round % 60).map(numbered).collect();
        sent += frames.len();
        rig.send(0, &frames);
        let mut idle = 0;
        while idle < 4 {
            run_until_idle(&rig.handles);
            let moved = ring.forward(32, |frame, len| lengths(number(frame), len));
            idle = if moved == 0 { idle + 1 } else { 0 };
        }
        (1..4).for_each(|cable| came[cable].extend(rig.recv(cable)));
    }
    for n in 0..3 {
        let cut = |number| {
            let frame = numbered(number);
            let len = lengths(number, frame.len())[n];
            let mut short = frame[..len].to_vec();
            short.resize(if len == 0 { 0 } else { len.max(60) }, 0); // as the device pads it
            short
        };
        let expected: Vec<_> = (0..sent).map(cut).filter(|frame| !frame.is_empty()).collect();
        assert!(came[1 + n] == expected, "output {n}");
        let sent = ring.queues().1[n].stats();
        assert_eq!(sent.packets, expected.len() as u64);
    }
    assert_eq!(ring.dropped(), (sent as u64).div_ceil(8), "frames whose number says to nowhere");
    rig.finish(ring);
}

#[test]
fn a_frame_longer_than_a_buffer_is_not_sent_and_counted() {
    let mut rig = Rig::open(2, 64);
    let mut ring = rig.join::<1>();
    rig.send(0, &[numbered(0), numbered(1), numbered(2)]);
    run_until_idle(&rig.handles);
    assert_eq!(
        ring.forward(32, |frame, len| [if number(frame) == 1 { memory::DATA_ROOM + 1 } else { len }]),
        3
    );
    run_until_idle(&rig.handles);
    assert_eq!(rig.recv(1), [numbered(0), numbered(2)]);
    let stats = ring.queues().1[0].stats();
    assert_eq!((stats.packets, stats.unsendable), (2, 1));
    assert!(
        rig.ports[1].counters().iter().any(|c| c.loss == Some(port::Reason::TxUnsendable) && c.value == 1)
    );
    rig.finish(ring);
}

#[test]
fn an_output_that_sends_nothing_holds_up_the_rest_and_loses_what_is_counted() {
    let mut rig = Rig::open(3, 64);
    let mut ring = rig.join::<2>();
    let all = |_: &mut Frame, len| [len, len];
    let sent: Vec<_> = (0..200).map(numbered).collect();
    let slow = rig.handles.remove(3);
    let mut forwarded = 0;
    for frames in sent.chunks(20) {
        rig.send(0, frames);
        run_until_idle(&rig.handles);
        forwarded += ring.forward(256, all);
    }
    assert_eq!(forwarded, 63, "one slot of the ring stays empty");
    assert_eq!((ring.forward(256, all), ring.queues().1[0].clean(&mut rig.pool)), (0, 63));
    assert!(rig.recv(2) == sent[..63], "the other output has sent what there was");
    // What waits in the packet buffer comes when the output goes on, in order.
    rig.handles.push(slow);
    let (mut came, mut others, mut idle) = (vec![], vec![], 0);
    while idle < 4 {
        run_until_idle(&rig.handles);
        idle = if ring.forward(256, all) == 0 { idle + 1 } else { 0 };
        came.extend(rig.recv(1));
        others.extend(rig.recv(2));
    }
    let lost = rig.handles[1].report().drops.values().sum::<u64>() as usize;
    assert_eq!(came.len() + lost, 200);
    assert!(came == sent[..came.len()], "the first are there, the last were lost");
    assert!(others == came[63..]);
    rig.handles.swap(3, 5); // as they were
    rig.handles.swap(4, 5);
    rig.finish(ring);
}

#[test]
fn ports_go_before_their_rings_and_stop_and_start() {
    let mut rig = Rig::open(2, 64);
    let mut ring = rig.join::<1>();
    let cross = |rig: &mut Rig, ring: &mut FixedRing<1>, number| {
        rig.send(0, &[numbered(number)]);
        run_until_idle(&rig.handles);
        let moved = ring.forward(32, all);
        run_until_idle(&rig.handles);
        assert_eq!(rig.recv(1).len(), moved);
        moved
    };
    assert_eq!(cross(&mut rig, &mut ring, 0), 1);
    while_stepping(&rig.handles.clone(), || rig.ports[0].stop()).unwrap().unwrap();
    assert_eq!(cross(&mut rig, &mut ring, 1), 0, "stopped");
    while_stepping(&rig.handles.clone(), || rig.ports[0].start()).unwrap().unwrap();
    assert_eq!(cross(&mut rig, &mut ring, 2), 1, "started");
    while_stepping(&rig.handles.clone(), || rig.ports.clear()).unwrap();
    assert_eq!(cross(&mut rig, &mut ring, 3), 1, "the queues have the devices");
    // What was handed over is sent before the queues go.
    rig.send(0, &[numbered(4), numbered(5)]);
    run_until_idle(&rig.handles);
    assert_eq!(ring.forward(32, all), 2);
    while_stepping(&rig.handles.clone(), || drop(ring)).unwrap();
    run_until_idle(&rig.handles);
    assert_eq!(rig.recv(1), [numbered(4), numbered(5)]);
    rig.finish(());
}

#[test]
fn a_queue_is_joined_once_and_other_ports_are_refused() {
    let mut rig = Rig::open(2, 64);
    assert!(rig.ports[0].rx_queue(0).is_none() && rig.ports[0].tx_queue(0).is_none());
    let handles = rig.handles.clone();
    let ring = rig.join::<1>();
    let Rig { ports, ends, .. } = &mut rig;
    let [a, b] = &mut ports[..] else { panic!("two ports") };
    let other = &mut ends[0].0;
    while_stepping(&handles, || {
        let text = |joined: port::Result<FixedRing<1>>| joined.err().unwrap().to_string();
        assert!(text(join(a, [b])).contains("another ring has its queue"));
        assert!(text(join(b, [other])).contains("opened without fixed buffers"));
        assert!(text(join(other, [a])).contains("opened without fixed buffers"));
    })
    .unwrap();
    rig.finish(ring);
    let (pcis, handles) = devices(&["pair"; 2]);
    while_stepping(&handles, || {
        let open = |pci: &Pci| Ixgbe::open(pci.clone(), &Dma::new(Default::default()), fixed(64)).unwrap();
        let (mut a, mut b) = (open(&pcis[0]), open(&pcis[1]));
        let error = join(&mut a, [&mut b]).err().unwrap().to_string();
        assert!(error.contains("open all with one Dma"), "{error}");
    })
    .unwrap();
}

#[test]
fn options_that_do_not_go_with_fixed_buffers_are_refused() {
    let (pcis, handles) = devices(&["sink"]);
    let wrong = [
        Options { rx_queues: 2, ..fixed(64) },
        Options { tx_queues: 2, ..fixed(64) },
        Options { max_frame: 2041, ..fixed(64) },
        Options { interrupts: true, ..fixed(64) },
        Options { vlan_strip: true, ..fixed(64) },
    ];
    let names =
        ["the number of queues", "the number of queues", "the largest frame", "interrupts", "VLAN strip"];
    for (options, name) in wrong.into_iter().zip(names) {
        let opened = || Ixgbe::open(pcis[0].clone(), &Dma::new(Default::default()), options);
        let error = while_stepping(&handles, || opened().err().unwrap().to_string()).unwrap();
        assert!(error.starts_with(name), "{error}");
    }
    let right = Options { max_frame: 2040, rx_checksum: Offload::On, ..fixed(64) };
    while_stepping(&handles, || {
        drop(Ixgbe::open(pcis[0].clone(), &Dma::new(Default::default()), right).unwrap())
    })
    .unwrap();
}

#[test]
fn the_memory_goes_with_the_ring_unless_a_queue_does_not_stop() {
    let stuck =
        |control| Faults { stuck: vec![(control, RXDCTL::ENABLE, RXDCTL::ENABLE)], ..Faults::default() };
    let [nothing, rx, tx] = [Faults::default(), stuck(RXDCTL::at(0)), stuck(TXDCTL::at(0))];
    for (of_rx, of_tx, stays) in
        [(nothing.clone(), nothing.clone(), false), (rx, nothing.clone(), true), (nothing, tx, true)]
    {
        let (pcis, handles) = devices(&["sink"; 3]);
        let (broken, faults): (Vec<_>, Vec<_>) =
            pcis[..2].iter().map(|pci| Broken::new(pci.clone(), Faults::default())).unzip();
        let dma = Dma::new(Default::default());
        while_stepping(&handles, || {
            // It sees all of the memory that there is.
            let _witness = Ixgbe::open(pcis[2].clone(), &dma, Options::default()).unwrap();
            let open = |pci: &Pci| Ixgbe::open(pci.clone(), &dma, fixed(4096)).unwrap();
            let (mut a, mut b) = (open(&broken[0]), open(&broken[1]));
            let before = handles[2].report().mapped;
            let ring = join(&mut a, [&mut b]).unwrap();
            assert!(handles[2].report().mapped > before);
            *faults[0].lock().unwrap() = of_rx;
            *faults[1].lock().unwrap() = of_tx;
            let begin = Instant::now();
            drop((ring, a, b));
            assert!(begin.elapsed() < Duration::from_secs(10), "the wait has a limit");
            assert_eq!(handles[2].report().mapped > before, stays);
        })
        .unwrap();
    }
}

#[test]
fn a_device_that_writes_garbage_harms_nobody() {
    for fault in
        ["garbage=0.01", "length=0.05", "late=0.2", "stuck=0.001", "late=0.1,length=0.1,garbage=0.1,seed=9"]
    {
        let wire = "gen:size=64-1518,count=20000+sink:check+fault:corrupt=0.01,truncate=0.01,crc=0.01";
        let plugs = [0, 1].map(|n| Plug { spec: wire.parse().unwrap(), mac: ixgbe::mac(n) });
        let cables = plug(&plugs, &Default::default()).unwrap();
        let (pcis, handles): (Vec<Pci>, Vec<Handle>) = (0..)
            .zip(cables)
            .map(|(n, cable)| {
                let mut options = ixgbe::Options::with_mac(ixgbe::mac(n));
                options.fault = Some(fault.parse().unwrap());
                InProcess::new(ixgbe::open(&options, cable).unwrap())
            })
            .unzip();
        let dma = Dma::new(Default::default());
        let open = |pci: &Pci| Ixgbe::open(pci.clone(), &dma, fixed(512)).unwrap();
        let (mut ports, mut rings) = while_stepping(&handles, || {
            let (mut a, mut b) = (open(&pcis[0]), open(&pcis[1]));
            let rings = [join(&mut a, [&mut b]).unwrap(), join(&mut b, [&mut a]).unwrap()];
            ([a, b], rings)
        })
        .unwrap();
        for _ in 0..5_000 {
            handles.iter().for_each(|handle| _ = handle.step_now());
            for ring in &mut rings {
                ring.forward(32, |frame, len| {
                    assert!((1..=memory::DATA_ROOM).contains(&len));
                    change(&mut frame[..len]);
                    [len]
                });
            }
        }
        let report = handles[0].report();
        let name = fault.split('=').next().unwrap();
        assert!(report.faults[name] > 0, "{fault}: {:?}", report.faults);
        let moved = rings[0].queues().0.stats();
        assert!(moved.packets > 0, "{fault}: {moved:?}");
        let lost = ports[0].stats().lost(port::Reason::RxBadDescriptor);
        assert_eq!(lost, moved.bad_descriptor);
        while_stepping(&handles, || drop((rings, ports))).unwrap();
        assert_eq!(handles[0].report().mapped, (0, 0), "{fault}");
    }
}
