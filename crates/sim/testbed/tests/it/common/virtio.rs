//! Our virtio driver on our virtio model, stepped by hand: what the tests
//! `virtio_*` share, as its parent does for `driver_*`.

use bus::Pci;
use driver::virtio::{RxQueue, TxQueue, Virtio};
use memory::{Batch, Dma, Packet, Pool, TxOffload};
use model::virtio::{Notify, Options as ModelOptions};
use port::{Options, Port as _, RxQueue as _, TxQueue as _};
use regs::virtio::feature;
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::wire::{Plug, plug};
use testbed::{Device, DeviceReport, fault, ixgbe, virtio};

/// Kinds of ring, by the features that make them.
pub const RINGS: [(&str, u64); 6] = [
    ("split", 0),
    ("split, event index", feature::EVENT_IDX),
    ("split, in order", feature::IN_ORDER),
    ("packed", feature::RING_PACKED),
    ("packed, event index", feature::RING_PACKED | feature::EVENT_IDX),
    ("packed, in order", feature::RING_PACKED | feature::IN_ORDER),
];

/// What a model offers, with these of the features that concern rings.
pub fn offer(ring: u64, without: u64) -> u64 {
    let rings = feature::EVENT_IDX | feature::IN_ORDER | feature::RING_PACKED | feature::NOTIFICATION_DATA;
    (ModelOptions::ALL & !rings | ring) & !without
}

/// A device that offers these features.
pub fn model(features: u64) -> ModelOptions {
    ModelOptions { features, mtu: 9000, ..ModelOptions::default() }
}

/// Likewise one that must be notified.
pub fn sleepy(features: u64) -> ModelOptions {
    ModelOptions { notify: Notify::Wanted, ..model(features) }
}

/// One opened port.
pub struct Side {
    pub device: Virtio,
    pub rx: Vec<RxQueue>,
    pub tx: Vec<TxQueue>,
}

/// Ports, their models, and a pool for all.
pub struct Bench {
    /// Held to the end: a device that nobody has forgets what was mapped.
    pub pcis: Vec<Pci>,
    pub sides: Vec<Side>,
    pub handles: Vec<Handle>,
    pub dma: Dma,
    pub pool: Pool,
}

/// A device for each wire, numbered from zero.
pub fn devices(wires: &[&str], model: &ModelOptions, fault: Option<fault::Spec>) -> Vec<Device> {
    let plug_of = |(n, wire): (u8, &&str)| Plug { spec: wire.parse().unwrap(), mac: ixgbe::mac(n) };
    let plugs: Vec<Plug> = (0..).zip(wires).map(plug_of).collect();
    let cables = plug(&plugs, &Default::default()).unwrap();
    let device = |(n, cable)| {
        let model = ModelOptions { mac: ixgbe::mac(n), ..model.clone() };
        virtio::open(&virtio::Options { model, fault, ..virtio::Options::default() }, cable)
    };
    (0..).zip(cables).map(device).collect()
}

/// Options with rings of 256 entries.
pub fn small_rings() -> Options {
    Options { rx_ring: 256, tx_ring: 256, ..Options::default() }
}

impl Bench {
    /// Opens a port on each wire, its receive rings filled.
    pub fn open(wires: &[&str], model: &ModelOptions, options: &Options) -> Bench {
        Bench::with_faults(wires, model, options, None, 4096)
    }

    /// Two ports joined by a cable.
    pub fn pair(model: &ModelOptions, options: &Options) -> Bench {
        Bench::open(&["pair", "pair"], model, options)
    }

    /// Likewise, with faults of the devices and a pool of `buffers`.
    pub fn with_faults(
        wires: &[&str],
        model: &ModelOptions,
        options: &Options,
        fault: Option<fault::Spec>,
        buffers: usize,
    ) -> Bench {
        let devices = devices(wires, model, fault);
        let (pcis, handles): (Vec<_>, Vec<_>) = devices.into_iter().map(InProcess::new).unzip();
        let dma = Dma::new(Default::default());
        let pool = Pool::new(&dma, buffers).unwrap();
        let mut bench = Bench { pcis, sides: Vec::new(), handles, dma, pool };
        for at in 0..wires.len() {
            let side = bench.reopen(at, options);
            bench.sides.push(side);
        }
        bench
    }

    /// Opens port `at` anew, its receive rings filled.
    pub fn reopen(&mut self, at: usize, options: &Options) -> Side {
        let open = || Virtio::open(self.pcis[at].clone(), &self.dma, options.clone());
        let (device, mut rx, tx) = while_stepping(&self.handles, open).unwrap().unwrap().split();
        recv(&mut rx, &mut self.pool).into_iter().for_each(drop);
        Side { device, rx, tx }
    }

    /// Steps the models until nothing moves.
    pub fn run_until_idle(&self) {
        super::run_until_idle(&self.handles);
    }

    /// Does what waits for the device, with the models stepped meanwhile.
    pub fn meanwhile<T>(&mut self, work: impl FnOnce(&mut Bench) -> T) -> T {
        let handles = self.handles.clone();
        while_stepping(&handles, || work(self)).unwrap()
    }

    /// A packet with these bytes, in as many segments as it takes.
    pub fn packet(&mut self, bytes: &[u8], offload: TxOffload) -> Packet {
        packet(&mut self.pool, bytes, offload)
    }

    /// Sends one packet from a port's queue; whether the ring had room.
    pub fn try_send(&mut self, from: usize, queue: usize, bytes: &[u8], offload: TxOffload) -> bool {
        let mut batch = Batch::default();
        assert!(batch.push(self.packet(bytes, offload)).is_none());
        let sent = self.sides[from].tx[queue].send(&mut self.pool, &mut batch);
        self.pool.free_batch(&mut batch);
        sent == 1
    }

    /// Likewise; the ring has room.
    pub fn send(&mut self, from: usize, bytes: &[u8]) {
        assert!(self.try_send(from, 0, bytes, TxOffload::default()), "the ring has room");
    }

    /// Everything that port `at` has received.
    pub fn recv(&mut self, at: usize) -> Vec<Packet> {
        recv(&mut self.sides[at].rx, &mut self.pool)
    }

    /// What port 1 receives of a packet that port 0 sends.
    pub fn cross(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<Packet> {
        assert!(self.try_send(0, 0, bytes, offload), "the ring has room");
        self.run_until_idle();
        self.recv(1)
    }

    /// Likewise, the bytes of all.
    pub fn cross_plain(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.cross(bytes, TxOffload::default()).iter().map(super::contents).collect()
    }

    /// A port's counter.
    pub fn counter(&self, at: usize, name: &str) -> u64 {
        counter(&self.sides[at].device, name)
    }

    /// Closes all ports: no buffer is missing, nothing is mapped.
    pub fn close(self) -> Vec<DeviceReport> {
        let Bench { pcis: _held, sides, handles, mut pool, .. } = self;
        while_stepping(&handles, || drop(sides)).unwrap();
        assert_eq!(pool.available(), pool.capacity(), "every buffer is back");
        let reports: Vec<_> = handles.iter().map(Handle::report).collect();
        reports.iter().for_each(|report| assert_eq!(report.mapped, (0, 0), "nothing is mapped"));
        reports
    }

    /// Likewise; and nothing was ever wrong.
    pub fn finish(self) -> Vec<DeviceReport> {
        self.sides.iter().for_each(|side| side.device.health().unwrap());
        let reports = self.close();
        reports.iter().for_each(super::sound);
        reports
    }
}

/// Everything that queues have received.
pub fn recv(queues: &mut [RxQueue], pool: &mut Pool) -> Vec<Packet> {
    let mut packets = Vec::new();
    for queue in queues {
        let (mut batch, mut limit) = (Batch::default(), super::all_received());
        while queue.recv(pool, &mut batch) > 0 {
            limit.check();
            packets.extend(batch.drain());
        }
    }
    packets
}

/// A packet with these bytes, in as many segments as it takes.
pub fn packet(pool: &mut Pool, bytes: &[u8], offload: TxOffload) -> Packet {
    let mut segments = bytes.chunks(memory::DATA_ROOM).map(|piece| {
        let mut packet = pool.alloc().unwrap();
        packet.copy_from(piece).unwrap();
        packet
    });
    let mut packet = segments.next().unwrap();
    segments.for_each(|segment| packet.append(segment));
    packet.set_tx_offload(offload);
    packet
}

/// A port's counter.
pub fn counter(device: &Virtio, name: &str) -> u64 {
    let counters = device.counters();
    counters.iter().find(|counter| counter.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

/// A frame of no protocol; each `n` has another.
pub fn frame(n: usize, len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|at| (at * 31 + at / 256 + n) as u8).collect();
    frame[..6].fill(0xFF);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame
}
