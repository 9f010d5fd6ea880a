//! Our driver on our models, stepped by hand: what the tests `driver_*` share.
//!
//! [`Bench::open`] opens one driver on each wire, [`Bench::finish`] closes them
//! and checks what must hold after every test: each buffer is back in its pool,
//! nothing is mapped any more, the accounting balances, and the linter found nothing.

pub mod alone;
pub mod between;
pub mod broken;
#[path = "../../../../../nic/bus/tests/common/files.rs"]
pub mod files;
pub mod frames;
pub mod i40e;
pub mod i40e_vf;
pub mod ixgbe_vf;
pub mod limit;
pub mod mailbox;
pub mod probe;
pub mod promises;
pub mod recorder;
pub mod stub_82576;
pub mod stub_82576_vf;
pub mod synchronous;
pub mod vf;
pub mod virtio;
pub mod witness;

use bus::Pci;
use driver::ixgbe::{Ixgbe, RxQueue, TxQueue};
use limit::Limit;
use memory::{Batch, Dma, Packet, Pool, TxOffload};
use port::{Options, RxQueue as _, TxQueue as _};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::wire::{Plug, plug};
use testbed::{DeviceReport, ixgbe};

/// One opened port.
pub struct Side {
    pub device: Ixgbe,
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

/// A device for each wire, numbered from zero; generators aim at their own.
pub fn devices(wires: &[&str]) -> (Vec<Pci>, Vec<Handle>) {
    devices_of(wires, ixgbe::DEVICE_SFP)
}

/// Likewise, by the PCI device id that they have.
pub fn devices_of(wires: &[&str], id: u16) -> (Vec<Pci>, Vec<Handle>) {
    let plugs: Vec<Plug> = (0..)
        .zip(wires)
        .map(|(index, wire)| Plug { spec: wire.parse().unwrap(), mac: ixgbe::mac(index) })
        .collect();
    let cables = plug(&plugs, &Default::default()).unwrap();
    let device = |(index, cable)| {
        let mut options = ixgbe::Options::with_mac(ixgbe::mac(index));
        options.set_device_id(id);
        InProcess::new(ixgbe::open(&options, cable).unwrap())
    };
    (0..).zip(cables).map(device).unzip()
}

impl Bench {
    /// Opens a port on each wire, its receive rings filled.
    pub fn open(wires: &[&str], options: &Options) -> Bench {
        Bench::with_pool(wires, options, 4096)
    }

    /// Likewise, with a pool of `buffers`.
    pub fn with_pool(wires: &[&str], options: &Options, buffers: usize) -> Bench {
        Bench::over(devices(wires), options, buffers)
    }

    /// Likewise, on devices that there are.
    pub fn over((pcis, handles): (Vec<Pci>, Vec<Handle>), options: &Options, buffers: usize) -> Bench {
        let dma = Dma::new(Default::default());
        let pool = Pool::new(&dma, buffers).unwrap();
        let open = |pci| {
            let (device, rx, tx) = Ixgbe::open(pci, &dma, options.clone()).unwrap().split();
            Side { device, rx, tx }
        };
        let sides = while_stepping(&handles, || pcis.iter().cloned().map(open).collect()).unwrap();
        let mut bench = Bench { pcis, sides, handles, dma, pool };
        bench.fill();
        bench
    }

    /// Two ports joined by a cable.
    pub fn pair(options: &Options) -> Bench {
        Bench::open(&["pair", "pair"], options)
    }

    /// Gives every receive ring its buffers.
    pub fn fill(&mut self) {
        let mut batch = Batch::default();
        for queue in self.sides.iter_mut().flat_map(|side| &mut side.rx) {
            assert_eq!(queue.recv(&mut self.pool, &mut batch), 0, "nothing was sent yet");
        }
    }

    /// Steps the models until nothing moves.
    pub fn run_until_idle(&self) {
        run_until_idle(&self.handles);
    }

    /// Does what waits for the device, with the models stepped meanwhile.
    pub fn meanwhile<T>(&mut self, work: impl FnOnce(&mut Bench) -> T) -> T {
        let handles = self.handles.clone();
        while_stepping(&handles, || work(self)).unwrap()
    }

    /// A packet with these bytes, in as many segments as it takes.
    pub fn packet(&mut self, bytes: &[u8], offload: TxOffload) -> Packet {
        let mut segments = bytes.chunks(memory::DATA_ROOM).map(|piece| {
            let mut packet = self.pool.alloc().unwrap();
            packet.copy_from(piece).unwrap();
            packet
        });
        let mut packet = segments.next().unwrap();
        segments.for_each(|segment| packet.append(segment));
        packet.set_tx_offload(offload);
        packet
    }

    /// Sends one packet from port `from`, queue 0.
    pub fn send(&mut self, from: usize, bytes: &[u8], offload: TxOffload) {
        let mut batch = Batch::default();
        assert!(batch.push(self.packet(bytes, offload)).is_none());
        assert_eq!(self.sides[from].tx[0].send(&mut self.pool, &mut batch), 1, "the ring has room");
    }

    /// Everything that port `at` has received.
    pub fn recv(&mut self, at: usize) -> Vec<Packet> {
        let mut packets = Vec::new();
        for queue in &mut self.sides[at].rx {
            let (mut batch, mut limit) = (Batch::default(), all_received());
            while queue.recv(&mut self.pool, &mut batch) > 0 {
                limit.check();
                packets.extend(batch.drain());
            }
        }
        packets
    }

    /// What port 1 receives of a frame that port 0 sends.
    pub fn cross(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<Packet> {
        self.send(0, bytes, offload);
        self.run_until_idle();
        self.recv(1)
    }

    /// Likewise, the bytes of the one frame that arrives.
    pub fn cross_one(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<u8> {
        let packets = self.cross(bytes, offload);
        assert_eq!(packets.len(), 1, "one frame, one packet");
        contents(&packets[0])
    }

    /// Closes all ports; what the models say in the end.
    pub fn finish(self) -> Vec<DeviceReport> {
        let Bench { pcis: _held, sides, handles, mut pool, .. } = self;
        while_stepping(&handles, || drop(sides)).unwrap();
        assert_eq!(pool.available(), pool.capacity(), "every buffer is back");
        let reports: Vec<_> = handles.iter().map(Handle::report).collect();
        for report in &reports {
            assert_eq!(report.mapped, (0, 0), "nothing is mapped");
            sound(report);
        }
        reports
    }
}

/// Steps models until nothing moves.
pub fn run_until_idle(handles: &[Handle]) {
    let mut limit = Limit::rounds(100_000, "the models to have nothing left to move");
    let mut idle = 0;
    while idle < 8 {
        limit.check();
        let moved: usize = handles.iter().map(Handle::step_now).sum();
        idle = if moved > 0 { 0 } else { idle + 1 };
    }
}

/// For a loop that receives until there is nothing: no test has as many packets.
pub fn all_received() -> Limit<'static> {
    Limit::rounds(100_000, "a receive queue to have nothing left")
}

/// A packet's bytes, whatever its segments.
pub fn contents(packet: &Packet) -> Vec<u8> {
    packet.segments().flat_map(|segment| segment.iter().copied()).collect()
}

/// The accounting balances and the linter found nothing.
pub fn sound(report: &DeviceReport) {
    assert_eq!(report.findings, [], "the linter is content with our driver");
    let (counters, wire) = (&report.counters, &report.wire);
    assert!(wire.to_host.balances() && wire.from_host.balances(), "{wire:#?}");
    assert_eq!(counters["rx_offered"], wire.to_host.delivered, "{report:#?}");
    let lost: u64 = report.drops.iter().filter(|(name, _)| name.starts_with("rx_")).map(|(_, n)| n).sum();
    assert_eq!(counters["rx_offered"], counters["rx_packets"] + counters["rx_waiting"] + lost, "{report:#?}");
    let lost: u64 = report.drops.iter().filter(|(name, _)| name.starts_with("tx_")).map(|(_, n)| n).sum();
    assert_eq!(counters["tx_offered"], counters["tx_packets"] + lost, "{report:#?}");
    assert_eq!(counters["tx_packets"], wire.from_host.offered);
}
