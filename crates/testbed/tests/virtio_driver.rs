//! Our virtio driver on our virtio model: every kind of ring, in this process
//! and over vfio-user.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use bus::Pci;
use driver::virtio::{Options, RxQueue, TxQueue, Virtio};
use memory::{Batch, Dma, Pool};
use model::virtio::{Notify, Options as ModelOptions};
use regs::virtio::feature::{self, net};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::serve::{Endpoint, Options as ServeOptions, Serving};
use testbed::wire::{Plug, plug};
use testbed::{Device, DeviceReport, ixgbe, virtio};

const BUFFERS: usize = 4096;

struct Side {
    device: Virtio,
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
}

/// Two ports on one cable.
struct Bench {
    pcis: Vec<Pci>,
    sides: Vec<Side>,
    handles: Vec<Handle>,
    dma: Dma,
    pool: Pool,
}

fn devices(features: u64, notify: Notify) -> Vec<Device> {
    let plug_of = |n| Plug { spec: "pair".parse().unwrap(), mac: ixgbe::mac(n) };
    let cables = plug(&[plug_of(0), plug_of(1)], &Default::default()).unwrap();
    let device = |(n, cable)| {
        let mut options = virtio::Options::with_mac(ixgbe::mac(n));
        options.model = ModelOptions { features, notify, mtu: 9000, ..options.model };
        virtio::open(&options, cable).unwrap()
    };
    (0..).zip(cables).map(device).collect()
}

impl Bench {
    fn open(features: u64, notify: Notify, options: &Options) -> Bench {
        let (pcis, handles): (Vec<_>, Vec<_>) =
            devices(features, notify).into_iter().map(InProcess::new).unzip();
        let dma = Dma::new(Default::default());
        let pool = Pool::new(&dma, BUFFERS).unwrap();
        let open = |pci| {
            let (device, rx, tx) = Virtio::open(pci, &dma, options.clone()).unwrap();
            Side { device, rx, tx }
        };
        let sides = while_stepping(&handles, || pcis.iter().cloned().map(open).collect()).unwrap();
        let mut bench = Bench { pcis, sides, handles, dma, pool };
        for at in 0..2 {
            assert_eq!(bench.recv(at), [] as [Vec<u8>; 0], "nothing was sent yet");
        }
        bench
    }

    fn send(&mut self, from: usize, queue: usize, frame: &[u8]) {
        let mut batch = Batch::default();
        let mut pieces = frame.chunks(memory::DATA_ROOM).map(|piece| {
            let mut packet = self.pool.alloc().unwrap();
            packet.copy_from(piece).unwrap();
            packet
        });
        let mut packet = pieces.next().unwrap();
        pieces.for_each(|piece| packet.append(piece));
        assert!(batch.push(packet).is_none());
        assert_eq!(self.sides[from].tx[queue].send(&mut self.pool, &mut batch), 1, "the ring has room");
    }

    fn settle(&self) {
        let mut idle = 0;
        while idle < 8 {
            let moved: usize = self.handles.iter().map(Handle::step_now).sum();
            idle = if moved > 0 { 0 } else { idle + 1 };
        }
    }

    fn recv(&mut self, at: usize) -> Vec<Vec<u8>> {
        recv(&mut self.sides[at].rx, &mut self.pool)
    }

    /// Closes the ports; everything is back, and nothing was done wrong.
    fn finish(self) -> Vec<DeviceReport> {
        let Bench { pcis, sides, handles, dma, mut pool } = self;
        for Side { device, rx, mut tx } in sides {
            tx.iter_mut().for_each(|queue| _ = queue.clean(&mut pool));
            device.health().unwrap();
            while_stepping(&handles, || drop((device, rx, tx))).unwrap();
        }
        let reports: Vec<DeviceReport> = handles.iter().map(Handle::report).collect();
        for report in &reports {
            assert_eq!(report.findings, [], "the linter");
            let lost: u64 = report.drops.values().sum();
            let (rx, tx) = (report.counters["rx_offered"], report.counters["tx_offered"]);
            assert_eq!(rx, report.counters["rx_packets"] + lost, "{report:?}");
            assert_eq!(tx, report.counters["tx_packets"], "{report:?}");
        }
        drop((pcis, dma));
        reports
    }
}

fn recv(queues: &mut [RxQueue], pool: &mut Pool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for queue in queues {
        let mut batch = Batch::default();
        while queue.recv(pool, &mut batch) > 0 {
            frames.extend(batch.drain().map(|packet| bytes(&packet)));
        }
    }
    frames
}

/// A packet's bytes, of all its segments.
fn bytes(packet: &memory::Packet) -> Vec<u8> {
    packet.segments().flat_map(|segment| segment.to_vec()).collect()
}

fn frame(n: usize, len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|at| (at * 31 + at / 256 + n) as u8).collect();
    frame[..6].fill(0xFF);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame
}

const RINGS: [(&str, u64); 6] = [
    ("split", 0),
    ("split, event index", feature::EVENT_IDX),
    ("split, in order", feature::IN_ORDER),
    ("packed", feature::RING_PACKED),
    ("packed, event index", feature::RING_PACKED | feature::EVENT_IDX),
    ("packed, in order", feature::RING_PACKED | feature::IN_ORDER),
];

/// What a model offers, with these of the features that concern rings.
fn offer(ring: u64, without: u64) -> u64 {
    let rings = feature::EVENT_IDX | feature::IN_ORDER | feature::RING_PACKED | feature::NOTIFICATION_DATA;
    (ModelOptions::ALL & !rings | ring) & !without
}

#[test]
fn frames_cross_every_kind_of_ring() {
    for (name, ring) in RINGS {
        for without in [0, net::MRG_RXBUF, feature::INDIRECT_DESC] {
            for notify in [Notify::Polled, Notify::Wanted] {
                let mut bench = Bench::open(offer(ring, without), notify, &Options::default());
                // Several times round the rings, both ways.
                for round in 0..60 {
                    let frames: Vec<_> = (0..24).map(|n| frame(n, 60 + (round * 24 + n) % 1400)).collect();
                    for frame in &frames {
                        bench.send(0, 0, frame);
                        bench.send(1, 0, frame);
                    }
                    bench.settle();
                    assert_eq!(bench.recv(1), frames, "{name} {without:#x} {notify:?}");
                    assert_eq!(bench.recv(0), frames, "{name} {without:#x} {notify:?}");
                }
                bench.finish();
            }
        }
    }
}

#[test]
fn long_frames_take_several_buffers() {
    for (name, ring) in RINGS {
        let options = Options { max_frame: 9014, ..Options::default() };
        let mut bench = Bench::open(offer(ring, 0), Notify::Wanted, &options);
        for round in 0..40 {
            let sent = frame(round, 5000 + 100 * round);
            bench.send(0, 0, &sent);
            bench.settle();
            assert_eq!(bench.recv(1), [sent], "{name}");
        }
        let reports = bench.finish();
        assert!(reports[1].counters["rx_buffers"] > reports[1].counters["rx_packets"]);
    }
}

#[test]
fn flows_spread_over_queue_pairs() {
    for (name, ring) in RINGS {
        let options = Options { queue_pairs: 2, ..Options::default() };
        let mut bench = Bench::open(offer(ring, 0), Notify::Polled, &options);
        let mut seen = [0; 2];
        for port in 0..32u16 {
            let mut sent = frame(0, 80);
            sent[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 66, 0, 0, 0, 0, 64, 17]);
            sent[34..36].copy_from_slice(&port.to_be_bytes());
            bench.send(0, usize::from(port % 2), &sent);
            bench.settle();
            for (queue, count) in bench.sides[1].rx.iter_mut().zip(&mut seen) {
                let got = recv(std::slice::from_mut(queue), &mut bench.pool);
                assert!(got.iter().all(|got| *got == sent), "{name}");
                *count += got.len();
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0 && seen[0] + seen[1] == 32, "{name}: {seen:?}");
        bench.finish();
    }
}

#[test]
fn frames_cross_over_vfio_user() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = [folder.path().join("a"), folder.path().join("b")];
    for (name, ring) in RINGS {
        let endpoints = devices(offer(ring, 0), Notify::Wanted).into_iter().zip(&sockets);
        let endpoints =
            endpoints.map(|(device, socket)| Endpoint { socket: socket.clone(), device }).collect();
        let serving = Serving::start(endpoints, ServeOptions::default()).unwrap();
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, BUFFERS).unwrap();
        let mut open = |at: usize| {
            let pci = Pci::connect(&sockets[at]).unwrap();
            let (device, mut rx, tx) = Virtio::open(pci, &dma, Options::default()).unwrap();
            recv(&mut rx, &mut pool);
            Side { device, rx, tx }
        };
        let (mut from, mut to) = (open(0), open(1));
        let begin = Instant::now();
        for n in 0..200 {
            let mut batch = Batch::default();
            let sent = frame(n, 60 + n);
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(&sent).unwrap();
            assert!(batch.push(packet).is_none());
            from.tx[0].send(&mut pool, &mut batch);
            let got = loop {
                let got = recv(&mut to.rx, &mut pool);
                assert!(begin.elapsed() < Duration::from_secs(20), "{name}");
                if !got.is_empty() {
                    break got;
                }
            };
            assert_eq!(got, [sent], "{name}");
            from.tx[0].clean(&mut pool);
        }
        from.device.health().unwrap();
        drop((from, to));
        let report = serving.stop();
        for endpoint in report.endpoints {
            assert_eq!((endpoint.device.findings, endpoint.client_faults), (Vec::new(), 0), "{name}");
        }
    }
}
