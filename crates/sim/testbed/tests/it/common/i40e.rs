//! Our XL710 driver on our XL710 models, stepped by hand: what its tests share.
//!
//! [`Bench::open`] opens one driver on each wire, [`Bench::finish`] closes them and checks what
//! must hold after every test: each buffer is back, nothing is mapped, the accounts balance and
//! the linter found nothing.

use std::cell::Cell;

use bus::Pci;
use driver::i40e::{I40e, RxQueue, TxQueue};
use memory::{Batch, Dma, Packet, Pool, TxOffload};
use port::{Options, Port as _, RxQueue as _, TxQueue as _};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::wire::{Plug, plug};
use testbed::{DeviceReport, i40e, ixgbe};

use super::{contents, run_until_idle, sound};

/// One opened port.
pub struct Side {
    pub device: I40e,
    pub rx: Vec<RxQueue>,
    pub tx: Vec<TxQueue>,
}

/// Two ports on one cable, or one on a wire of its own.
pub struct Bench {
    /// Held to the end: a device that nobody has forgets what was mapped.
    pub pcis: Vec<Pci>,
    pub sides: Vec<Side>,
    pub handles: Vec<Handle>,
    dma: Dma,
    pub pool: Pool,
}

thread_local! {
    /// The PCI device id of the models that are made.
    static CHIP: Cell<u16> = const { Cell::new(i40e::DEVICE_QSFP) };
}

/// Ends what [`on`] began, whatever became of the test.
struct Restored(u16);

impl Drop for Restored {
    fn drop(&mut self) {
        CHIP.set(self.0);
    }
}

/// Runs a test that is about the whole family with models that have another device id.
pub fn on(device_id: u16, test: fn()) {
    let _restored = Restored(CHIP.replace(device_id));
    test();
}

/// What the model with a number is.
pub fn model(n: u8) -> i40e::Options {
    i40e::Options { device_id: CHIP.get(), ..i40e::Options::with_mac(ixgbe::mac(n)) }
}

/// A device for each wire, numbered from zero; generators aim at their own.
pub fn devices(wires: &[&str]) -> (Vec<Pci>, Vec<Handle>) {
    let plugs: Vec<Plug> =
        (0..).zip(wires).map(|(n, wire)| Plug { spec: wire.parse().unwrap(), mac: ixgbe::mac(n) }).collect();
    let cables = plug(&plugs, &Default::default()).unwrap();
    let device = |(n, cable)| InProcess::new(i40e::open(&model(n), cable).unwrap());
    (0..).zip(cables).map(device).unzip()
}

impl Bench {
    pub fn open(wires: &[&str], options: &Options) -> Bench {
        Bench::over(devices(wires), options)
    }

    /// Opens a port on each of some devices.
    pub fn over((pcis, handles): (Vec<Pci>, Vec<Handle>), options: &Options) -> Bench {
        let dma = Dma::new(Default::default());
        let pool = Pool::new(&dma, 4096).unwrap();
        let mut bench = Bench { pcis, sides: Vec::new(), handles, dma, pool };
        for at in 0..bench.pcis.len() {
            let side = bench.reopen(at, options);
            bench.sides.push(side);
        }
        bench
    }

    pub fn pair(options: &Options) -> Bench {
        Bench::open(&["pair", "pair"], options)
    }

    pub fn reopen(&mut self, at: usize, options: &Options) -> Side {
        let open = || I40e::open(self.pcis[at].clone(), &self.dma, options.clone());
        let (device, rx, tx) = while_stepping(&self.handles, open).unwrap().unwrap().split();
        let mut side = Side { device, rx, tx };
        for queue in &mut side.rx {
            assert_eq!(queue.recv(&mut self.pool, &mut Batch::default()), 0, "nothing was sent yet");
        }
        side
    }

    pub fn packet(&mut self, bytes: &[u8], offload: TxOffload) -> Packet {
        super::virtio::packet(&mut self.pool, bytes, offload)
    }

    pub fn send(&mut self, from: usize, bytes: &[u8], offload: TxOffload) {
        let mut batch = Batch::default();
        assert!(batch.push(self.packet(bytes, offload)).is_none());
        assert_eq!(self.sides[from].tx[0].send(&mut self.pool, &mut batch), 1, "the ring has room");
    }

    pub fn recv(&mut self, at: usize) -> Vec<Packet> {
        let mut packets = Vec::new();
        for queue in &mut self.sides[at].rx {
            let (mut batch, mut limit) = (Batch::default(), super::all_received());
            while queue.recv(&mut self.pool, &mut batch) > 0 {
                limit.check();
                packets.extend(batch.drain());
            }
        }
        packets
    }

    pub fn cross(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<Packet> {
        self.send(0, bytes, offload);
        run_until_idle(&self.handles);
        self.recv(1)
    }

    pub fn cross_one(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<u8> {
        let packets = self.cross(bytes, offload);
        assert_eq!(packets.len(), 1, "one frame, one packet");
        contents(&packets[0])
    }

    pub fn counter(&mut self, at: usize, name: &str) -> u64 {
        self.sides[at].device.stats().counter(name)
    }

    pub fn finish(self) -> Vec<DeviceReport> {
        let Bench { pcis: _held, sides, handles, mut pool, .. } = self;
        while_stepping(&handles, || drop(sides)).unwrap();
        assert_eq!(pool.available(), pool.capacity(), "every buffer is back");
        let reports: Vec<_> = handles.iter().map(Handle::report).collect();
        for report in &reports {
            sound(report);
        }
        drop(pool);
        reports
    }
}
