//! An 82599 with virtual functions, hosted by our driver, and a second port at the other end of the
//! wire: the models are stepped by a thread, the host is polled by another.

use std::sync::Arc;

use bus::Pci;
use driver::ixgbe::host::{Host, Policy};
use driver::ixgbe::{self as pf, Ixgbe};
use driver::ixgbevf::{self, Ixgbevf};
use memory::{Dma, Pool, TxOffload};
use port::{Options, Port as _};
use testbed::inprocess::{Handle, InProcess, spawn};
use testbed::wire::{Plug, plug};
use testbed::{Idle, Stepper, ixgbe};

use super::frames::{FROM, TO};
use super::vf::{self, Member, Polling, Side, expect, options, receive, send, to};

pub type PeerSide = Side<Ixgbe, pf::RxQueue, pf::TxQueue>;
pub type VfSide = Side<Ixgbevf, ixgbevf::RxQueue, ixgbevf::TxQueue>;

pub struct Card {
    pub peer: Option<PeerSide>,
    pub polling: Option<Polling<Host>>,
    pub vfs: Vec<Pci>,
    pub handles: Vec<Handle>,
    stepper: Option<Stepper>,
    pub pcis: Vec<Pci>,
    pub dma: Dma,
    pub pool: Pool,
}

/// The models of a card with virtual functions and of its peer: the devices, and their handles.
pub fn models(vfs: usize) -> (Vec<Pci>, Vec<Handle>) {
    let plugs = [0, 1].map(|n| Plug { spec: "pair".parse().unwrap(), mac: ixgbe::mac(n) });
    let mut cables = plug(&plugs, &Default::default()).unwrap().into_iter();
    let [first, second] = [0, 1].map(|n| ixgbe::Options::with_mac(ixgbe::mac(n)));
    let (card, vfs) = ixgbe::open_with_vfs(&first, cables.next().unwrap(), vfs).unwrap();
    let peer = ixgbe::open(&second, cables.next().unwrap()).unwrap();
    [card, peer].into_iter().chain(vfs).map(InProcess::new).unzip()
}

impl Card {
    pub fn open(policies: &[Policy]) -> Card {
        Card::with(policies, Options::default())
    }

    pub fn with(policies: &[Policy], asked: Options) -> Card {
        let (mut pcis, handles) = models(policies.len());
        let vfs = pcis.split_off(2);
        let stepper = spawn(&handles, None, Idle::Yield).unwrap();
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, 8192).unwrap();
        let host = Host::open(pcis[0].clone(), &dma, asked, policies).unwrap();
        let polling = Some(Polling::of(host));
        let everything = Options { promiscuous: true, ..options() };
        let (device, mut rx, tx) = Ixgbe::open(pcis[1].clone(), &dma, everything).unwrap().split();
        receive(&mut rx, &mut pool);
        let peer = Some(Side { device, rx, tx });
        Card { peer, polling, vfs, handles, stepper: Some(stepper), pcis, dma, pool }
    }

    pub fn open_vf(&mut self, n: usize, options: &Options) -> VfSide {
        let opened = Ixgbevf::open(self.vfs[n].clone(), &self.dma, options.clone()).unwrap();
        let (device, mut rx, tx) = opened.split();
        receive(&mut rx, &mut self.pool);
        Side { device, rx, tx }
    }

    pub fn host<T>(&self, work: impl FnOnce(&mut Host) -> T) -> T {
        self.polling.as_ref().unwrap().with(work)
    }

    pub fn peer(&mut self) -> (&mut PeerSide, &mut Pool) {
        (self.peer.as_mut().unwrap(), &mut self.pool)
    }

    /// Sends a frame from the wire.
    pub fn give(&mut self, frame: &[u8]) {
        let (side, pool) = self.peer();
        send(&mut side.tx[0], pool, frame, TxOffload::default());
    }

    /// Frames go from a virtual function to the wire still, and nothing was before them.
    pub fn works_on(&mut self, vf: &mut VfSide) {
        let frame = to(ixgbe::mac(1), vf.device.mac(), b"works on");
        send(&mut vf.tx[0], &mut self.pool, &frame, TxOffload::default());
        let (side, pool) = self.peer();
        assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    }

    /// Closes all, virtual functions first; nothing is mapped, every buffer is back, and the linter is
    /// content but for `expected`.
    pub fn finish(mut self, vfs: Vec<VfSide>, expected: &[&str]) {
        drop(vfs);
        self.vfs.clear();
        (self.polling, self.peer) = (None, None);
        self.stepper.take().unwrap().stop();
        assert_eq!(self.pool.available(), self.pool.capacity(), "every buffer is back");
        for handle in &self.handles {
            let report = handle.report();
            let unexpected = report.findings.iter().find(|found| !expected.contains(&found.rule.as_str()));
            assert!(unexpected.is_none(), "{report:#?}");
            assert_eq!(report.mapped, (0, 0), "nothing is mapped");
        }
        drop(self.pcis);
    }
}

/// Two virtual functions of one card, which send to each other, stepped by hand.
pub type Pair = vf::Pair<Ixgbevf, ixgbevf::RxQueue, ixgbevf::TxQueue, Polling<Host>>;

/// A pair on the devices of [`models`].
pub fn pair(devices: (Vec<Pci>, Vec<Handle>), options: &Options) -> Pair {
    pair_at(devices, options, None)
}

/// A pair that may send so many Mbit/s each.
pub fn pair_at((pcis, handles): (Vec<Pci>, Vec<Handle>), options: &Options, rate_mbps: Option<u32>) -> Pair {
    Pair::of(handles, |dma, pool| {
        // Frames are from one to the other.
        let policy = |mac| Policy { mac: Some(mac), trust: true, spoof_check: false, vlan: None, rate_mbps };
        let long = Options { max_frame: options.max_frame, ..Options::default() };
        let host = Host::open(pcis[0].clone(), dma, long, &[FROM, TO].map(policy)).unwrap();
        let host = Arc::new(Polling::of(host));
        let mut member = |pci: &Pci| {
            let (device, mut rx, tx) = Ixgbevf::open(pci.clone(), dma, options.clone()).unwrap().split();
            receive(&mut rx, pool);
            Member { device, rx, tx, host: host.clone() }
        };
        pcis[2..].iter().map(&mut member).collect()
    })
}
