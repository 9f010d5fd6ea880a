//! Two virtual functions of one XL710, hosted by our driver, which send to each other: the models are
//! stepped by hand, the host is polled by a thread.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bus::Pci;
use driver::i40e::I40e;
use driver::i40e::host::{Host, Policy};
use driver::iavf::{self, Iavf};
use port::Options;
use testbed::i40e;
use testbed::inprocess::{Handle, InProcess};
use testbed::wire::Cable;

use super::frames::{FROM, TO};
use super::i40e::model;
use super::vf::{self, Member, PfSide, Polling, options, receive};

/// A host with the port that it needs, which goes after it.
pub struct Hosted {
    pub polling: Polling<Host>,
    _port: Mutex<PfSide>,
}

pub type Pair = vf::Pair<Iavf, iavf::RxQueue, iavf::TxQueue, Hosted>;

/// The models of a card and of its virtual functions: the devices, and their handles.
pub fn models(vfs: usize) -> (Vec<Pci>, Vec<Handle>) {
    models_on("sink", vfs)
}

/// Likewise with another wire in the card's port.
pub fn models_on(wire: &str, vfs: usize) -> (Vec<Pci>, Vec<Handle>) {
    let cable = Cable::open(&wire.parse().unwrap()).unwrap();
    let (card, vfs) = i40e::open_with_vfs(&model(0), cable, vfs).unwrap();
    [card].into_iter().chain(vfs).map(InProcess::new).unzip()
}

/// A pair on the devices of [`models`].
pub fn pair(devices: (Vec<Pci>, Vec<Handle>), asked: &Options) -> Pair {
    pair_at(devices, asked, None)
}

/// A pair that may send so many Mbit/s each.
pub fn pair_at((pcis, handles): (Vec<Pci>, Vec<Handle>), asked: &Options, rate_mbps: Option<u32>) -> Pair {
    Pair::of(handles, |dma, pool| {
        // Frames are from one to the other.
        let policy = |mac| Policy { mac: Some(mac), trust: true, spoof_check: false, vlan: None, rate_mbps };
        let long = Options { max_frame: asked.max_frame, ..options() };
        let (device, rx, tx) = I40e::open(pcis[0].clone(), dma, long).unwrap().split();
        let host = Host::with_drain(&device, &[FROM, TO].map(policy), Duration::ZERO).unwrap();
        let port = PfSide { device, rx, tx };
        let host = Arc::new(Hosted { polling: Polling::of(host), _port: Mutex::new(port) });
        let mut member = |pci: &Pci| {
            let (device, mut rx, tx) = Iavf::open(pci.clone(), dma, asked.clone()).unwrap().split();
            receive(&mut rx, pool);
            Member { device, rx, tx, host: host.clone() }
        };
        pcis[1..].iter().map(&mut member).collect()
    })
}
