//! The drivers that meet hostile devices: how each is opened, and the device that is served
//! for it.

use std::any::Any;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::stub_82576::{Served82576, ServingStub};
use crate::common::stub_82576_vf;
use crate::common::vf::{PfSide, Polling};
use crate::common::virtio::{devices, model, offer};
use bus::Pci;
use bus::vfio_user::client::Client;
use bus::vhost_user::Frontend;
use driver::i40e::{self as pf, I40e};
use driver::iavf::Iavf;
use driver::igb::Igb;
use driver::igbvf::Igbvf;
use driver::ixgbe::Ixgbe;
use driver::ixgbe::host::Host;
use driver::ixgbevf::Ixgbevf;
use driver::vf_host::Policy;
use driver::virtio::Virtio;
use driver::virtio::transport::VhostUser;
use memory::{Backing, Dma};
use port::{Options, Port};
use regs::virtio::feature;
use testbed::serve::{Bound, Endpoint, Options as ServeOptions, Serving};
use testbed::twin::shared::Rings;
use testbed::twin::{self, Protocol};
use testbed::wire::Cable;
use testbed::{Idle, i40e, ixgbe, vfio_user, vhost_user};

use super::{LONG_TIMEOUT, RING};

/// The device's half of a run, which is served until dropped.
pub enum Device {
    Model(Model),
    Stub(Served82576, Option<ServingStub>),
}

/// A served model: the driver's device is the first.
pub struct Model {
    /// The driver of the physical function, where the device is a virtual one. It goes first.
    _host: Option<Box<dyn Any>>,
    pub serving: Serving,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Model {
    /// Serves devices with `bind`, the first of which is the driver's.
    fn serve(bind: fn(Vec<Endpoint>) -> bus::Result<Bound>, devices: Vec<testbed::Device>) -> Model {
        let folder = tempfile::tempdir().unwrap();
        let sockets = (0..).map(|n| folder.path().join(format!("{n}")));
        let endpoints = sockets.zip(devices).map(|(socket, device)| Endpoint { socket, device });
        let bound = bind(endpoints.collect()).unwrap();
        let serving = bound.serve(ServeOptions { core: None, idle: Idle::Sleep }).unwrap();
        Model { _host: None, serving, socket: folder.path().join("0"), _folder: folder }
    }

    /// A virtual function and behind it the card, which `host` drives.
    fn with_host<H: Any>(card: testbed::Device, vf: testbed::Device, host: fn(Pci, &Dma) -> H) -> Device {
        let mut model = Model::serve(vfio_user::bind, vec![vf, card]);
        let stream = UnixStream::connect(model.socket.with_file_name("1")).unwrap();
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        model._host = Some(Box::new(host(pci(stream, LONG_TIMEOUT).unwrap(), &dma)));
        Device::Model(model)
    }
}

impl Device {
    /// A connection to its server.
    pub fn connect(&mut self) -> UnixStream {
        match self {
            Device::Model(model) => UnixStream::connect(&model.socket).unwrap(),
            Device::Stub(stub, serving) => {
                let (near, far) = UnixStream::pair().unwrap();
                *serving = Some(stub.serve(far));
                near
            }
        }
    }
}

/// A driver and how it meets its device.
pub struct TestedDriver {
    pub name: &'static str,
    pub protocol: &'static Protocol,
    pub rings: Rings,
    pub device: fn() -> Device,
    pub open: fn(UnixStream, Duration, &Dma) -> Option<Box<dyn Port>>,
}

fn options() -> Options {
    Options { rx_ring: RING, tx_ring: RING, link_wait_ms: 0, interrupts: true, ..Options::default() }
}

fn pci(stream: UnixStream, timeout: Duration) -> Option<Pci> {
    let client = Client::over(stream, "vfio-user:twin".to_owned(), timeout).ok()?;
    Some(Pci::new(Arc::new(client)))
}

/// A source and a sink; frames are for all, so that virtual functions have them, too.
const SOURCE: &str = "gen:size=100,rate=1M,dst=ff:ff:ff:ff:ff:ff+sink";

fn cable() -> Cable {
    Cable::open(&SOURCE.parse().unwrap()).unwrap()
}

fn virtio(ring: u64, over_vhost: bool) -> Device {
    let devices = devices(&[SOURCE], &model(offer(ring, 0)), None);
    Device::Model(Model::serve(if over_vhost { vhost_user::bind } else { vfio_user::bind }, devices))
}

/// An 82599's virtual function, whose host is ours.
fn ixgbe_vf() -> Device {
    let (card, mut vfs) = ixgbe::open_with_vfs(&ixgbe::Options::with_mac(ixgbe::mac(0)), cable(), 1).unwrap();
    Model::with_host(card, vfs.remove(0), |pci, dma| {
        Polling::of(Host::open(pci, dma, Options::default(), &[Policy::default()]).unwrap())
    })
}

/// An XL710, or another chip of its family.
fn i40e(device_id: u16) -> Device {
    let options = i40e::Options { device_id, ..i40e::Options::with_mac(ixgbe::mac(0)) };
    Device::Model(Model::serve(vfio_user::bind, vec![i40e::open(&options, cable()).unwrap()]))
}

/// An XL710's virtual function, likewise.
fn i40e_vf() -> Device {
    let (card, mut vfs) = i40e::open_with_vfs(&i40e::Options::with_mac(ixgbe::mac(0)), cable(), 1).unwrap();
    Model::with_host(card, vfs.remove(0), |pci, dma| {
        let (device, rx, tx) = I40e::open(pci, dma, Options::default()).unwrap().split();
        let host = pf::host::Host::with_drain(&device, &[Policy::default()], Duration::ZERO).unwrap();
        (Polling::of(host), PfSide { device, rx, tx })
    })
}

fn open_virtio(stream: UnixStream, timeout: Duration, dma: &Dma) -> Option<Box<dyn Port>> {
    Some(Box::new(Virtio::open(pci(stream, timeout)?, dma, options()).ok()?))
}

fn open_vhost(stream: UnixStream, timeout: Duration, dma: &Dma) -> Option<Box<dyn Port>> {
    let frontend = Frontend::over(stream, "vhost-user:twin".to_owned(), timeout).ok()?;
    let transport = VhostUser::over(frontend, Some([2, 0, 0, 0, 0, 9]));
    Some(Box::new(Virtio::open_on(Arc::new(transport), dma, options()).ok()?))
}

/// All drivers of devices that a process may serve.
pub const DRIVERS: &[TestedDriver] = &[
    TestedDriver {
        name: "82599",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Registers(&[
            [regs::ixgbe::RDBAL::at(0), regs::ixgbe::RDBAH::at(0), regs::ixgbe::RDLEN::at(0)],
            [regs::ixgbe::TDBAL::at(0), regs::ixgbe::TDBAH::at(0), regs::ixgbe::TDLEN::at(0)],
        ]),
        device: || {
            let card = ixgbe::open(&ixgbe::Options::with_mac(ixgbe::mac(0)), cable()).unwrap();
            Device::Model(Model::serve(vfio_user::bind, vec![card]))
        },
        open: |stream, timeout, dma| Some(Box::new(Ixgbe::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    TestedDriver {
        name: "82576",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Registers(&[
            [regs::igb::RDBAL::at(0), regs::igb::RDBAH::at(0), regs::igb::RDLEN::at(0)],
            [regs::igb::TDBAL::at(0), regs::igb::TDBAH::at(0), regs::igb::TDLEN::at(0)],
        ]),
        device: || Device::Stub(Served82576::new(), None),
        open: |stream, timeout, dma| Some(Box::new(Igb::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    TestedDriver {
        name: "XL710",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Xl710,
        device: || i40e(i40e::DEVICE_QSFP),
        open: |stream, timeout, dma| Some(Box::new(I40e::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    TestedDriver {
        name: "X722",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Xl710,
        device: || i40e(i40e::DEVICE_X722),
        open: |stream, timeout, dma| Some(Box::new(I40e::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    TestedDriver {
        name: "82599 VF",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Registers(&[
            [regs::ixgbevf::VFRDBAL::at(0), regs::ixgbevf::VFRDBAH::at(0), regs::ixgbevf::VFRDLEN::at(0)],
            [regs::ixgbevf::VFTDBAL::at(0), regs::ixgbevf::VFTDBAH::at(0), regs::ixgbevf::VFTDLEN::at(0)],
        ]),
        device: ixgbe_vf,
        open: |stream, timeout, dma| {
            Some(Box::new(Ixgbevf::open(pci(stream, timeout)?, dma, options()).ok()?))
        },
    },
    TestedDriver {
        name: "82576 VF",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Registers(&[
            [regs::igbvf::RDBAL::at(0), regs::igbvf::RDBAH::at(0), regs::igbvf::RDLEN::at(0)],
            [regs::igbvf::TDBAL::at(0), regs::igbvf::TDBAH::at(0), regs::igbvf::TDLEN::at(0)],
        ]),
        device: || Device::Stub(Served82576::vf(regs::igbvf::DEVICE, stub_82576_vf::honest), None),
        open: |stream, timeout, dma| Some(Box::new(Igbvf::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    TestedDriver {
        name: "XL710 VF",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Xl710Vf,
        device: i40e_vf,
        open: |stream, timeout, dma| Some(Box::new(Iavf::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    TestedDriver {
        name: "virtio, split",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Virtio,
        device: || virtio(0, false),
        open: open_virtio,
    },
    TestedDriver {
        name: "virtio, packed",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Virtio,
        device: || virtio(feature::RING_PACKED, false),
        open: open_virtio,
    },
    TestedDriver {
        name: "vhost-user, split",
        protocol: &twin::vhost_user::PROTOCOL,
        rings: Rings::VhostUser,
        device: || virtio(0, true),
        open: open_vhost,
    },
    TestedDriver {
        name: "vhost-user, packed",
        protocol: &twin::vhost_user::PROTOCOL,
        rings: Rings::VhostUser,
        device: || virtio(feature::RING_PACKED, true),
        open: open_vhost,
    },
];
