//! Our drivers on hostile devices, over vfio-user and vhost-user: messages, rings, packets
//! and registers that change under them, from seeds. Whatever a device does, a driver does
//! not crash or hang, an application's packets are its own, each buffer comes home, and
//! the server of the model serves the next client.

use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::alone::alone;
use crate::common::limit::{Limit, until};
use crate::common::stub_82576::{Served82576, ServingStub};
use crate::common::stub_82576_vf;
use crate::common::vf::{PfSide, Polling};
use crate::common::virtio::{devices, model, offer};
use crate::common::witness::Witness;
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
use memory::{Backing, Batch, DATA_ROOM, Dma, Packet, Pool};
use port::{Options, Port, RxQueue, TxQueue};
use regs::virtio::feature;
use testbed::fault::Random;
use testbed::serve::{Bound, Endpoint, Options as ServeOptions, Serving};
use testbed::twin::shared::{MutationTarget, Rings, TwinMemory};
use testbed::twin::{self, Mutation, Mutator, Protocol, Say, Told, Twin};
use testbed::wire::Cable;
use testbed::{Idle, i40e, ixgbe, vfio_user, vhost_user};

/// How long a peer waits for an answer.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Likewise where nothing is mutated: the machine may be busy.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);
/// No run takes longer: opening and closing wait for bits that never come, each for
/// less than a second.
const BOUND: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(100);
/// Packets of a pool, and descriptors of a ring.
const PACKETS: usize = 300;
const RING: usize = 64;
/// Mappings of a driver that a device may reach: its rings and queues.
const KEPT: usize = 4;
/// What an application does, over and over, in one run.
const ROUNDS: usize = 60;

/// The device's half of a run, which is served until dropped.
enum Device {
    Model(Model),
    Stub(Served82576, Option<ServingStub>),
}

/// A served model: the driver's device is the first.
struct Model {
    /// The driver of the physical function, where the device is a virtual one. It goes first.
    _host: Option<Box<dyn Any>>,
    serving: Serving,
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

/// A driver and how it meets its device.
struct Victim {
    name: &'static str,
    protocol: &'static Protocol,
    rings: Rings,
    device: fn() -> Device,
    open: fn(UnixStream, Duration, &Dma) -> Option<Box<dyn Port>>,
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

const VICTIMS: &[Victim] = &[
    Victim {
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
    Victim {
        name: "82576",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Registers(&[
            [regs::igb::RDBAL::at(0), regs::igb::RDBAH::at(0), regs::igb::RDLEN::at(0)],
            [regs::igb::TDBAL::at(0), regs::igb::TDBAH::at(0), regs::igb::TDLEN::at(0)],
        ]),
        device: || Device::Stub(Served82576::new(), None),
        open: |stream, timeout, dma| Some(Box::new(Igb::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    Victim {
        name: "XL710",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Xl710,
        device: || i40e(i40e::DEVICE_QSFP),
        open: |stream, timeout, dma| Some(Box::new(I40e::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    Victim {
        name: "X722",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Xl710,
        device: || i40e(i40e::DEVICE_X722),
        open: |stream, timeout, dma| Some(Box::new(I40e::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    Victim {
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
    Victim {
        name: "82576 VF",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Registers(&[
            [regs::igbvf::RDBAL::at(0), regs::igbvf::RDBAH::at(0), regs::igbvf::RDLEN::at(0)],
            [regs::igbvf::TDBAL::at(0), regs::igbvf::TDBAH::at(0), regs::igbvf::TDLEN::at(0)],
        ]),
        device: || Device::Stub(Served82576::vf(regs::igbvf::DEVICE, stub_82576_vf::honest), None),
        open: |stream, timeout, dma| Some(Box::new(Igbvf::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    Victim {
        name: "XL710 VF",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Xl710Vf,
        device: i40e_vf,
        open: |stream, timeout, dma| Some(Box::new(Iavf::open(pci(stream, timeout)?, dma, options()).ok()?)),
    },
    Victim {
        name: "virtio, split",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Virtio,
        device: || virtio(0, false),
        open: open_virtio,
    },
    Victim {
        name: "virtio, packed",
        protocol: &twin::vfio_user::PROTOCOL,
        rings: Rings::Virtio,
        device: || virtio(feature::RING_PACKED, false),
        open: open_virtio,
    },
    Victim {
        name: "vhost-user, split",
        protocol: &twin::vhost_user::PROTOCOL,
        rings: Rings::VhostUser,
        device: || virtio(0, true),
        open: open_vhost,
    },
    Victim {
        name: "vhost-user, packed",
        protocol: &twin::vhost_user::PROTOCOL,
        rings: Rings::VhostUser,
        device: || virtio(feature::RING_PACKED, true),
        open: open_vhost,
    },
];

/// An application that receives and sends, and looks at all it gets.
struct Application {
    port: Box<dyn Port>,
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    held: Vec<Packet>,
    received: usize,
}

impl Application {
    fn new(mut port: Box<dyn Port>) -> Application {
        let (rx, tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
        Application { port, rx, tx, held: Vec::new(), received: 0 }
    }

    fn round(&mut self, pool: &mut Pool, n: usize) {
        let mut batch = Batch::with_limit(16);
        assert_eq!(self.rx.recv(pool, &mut batch), batch.len());
        self.received += batch.len();
        for mut packet in batch.drain() {
            let mut segment = Some(&mut packet);
            while let Some(packet) = segment {
                assert!(packet.len() <= DATA_ROOM);
                packet.fill(n as u8);
                let _ = (packet.packet_type(), packet.hash(), packet.vlan(), packet.l4_checksum());
                segment = packet.next_mut();
            }
            self.held.push(packet);
        }
        let mut seen = HashSet::new();
        for buffer in self.held.iter().flat_map(Packet::segments) {
            assert!(seen.insert(buffer.rx_iova()), "a buffer was given twice");
        }
        let all = seen.len() + pool.available();
        assert!(all <= PACKETS, "{all} of {PACKETS} buffers");
        for _ in 0..4 {
            let Some(mut packet) = pool.alloc() else { break };
            packet.copy_from(&[n as u8; 200][..60 + n % 100]).unwrap();
            self.held.push(packet);
        }
        let mut batch = Batch::with_limit(16);
        let count = batch.room().min(self.held.len());
        self.held.drain(..count).for_each(|packet| assert!(batch.push(packet).is_none()));
        self.tx.send(pool, &mut batch);
        pool.free_batch(&mut batch);
        assert!(self.tx.clean(pool) <= RING);
        if n % 20 == 19 {
            let _ = (self.port.link(), self.port.stats(), self.port.health(), self.port.mac());
            let _ = (self.rx.stats(), self.tx.stats(), self.rx.arm().is_some());
            self.rx.disarm();
        }
    }
}

/// What a run mutates.
struct Mutations {
    mutator: Mutator,
    /// Mutations of shared bytes in a round, and where.
    shared: usize,
    places: Vec<MutationTarget>,
    random: Random,
    /// Something is received in the end.
    is_honest: bool,
}

/// What may be left when a run is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Memory of a device that refused its reset: it may still reach it.
    Memory,
}

/// What came of a run.
#[derive(Default)]
struct Outcome {
    opened: bool,
    received: usize,
    told: Told,
    shared: BTreeMap<MutationTarget, usize>,
}

impl Device {
    /// A connection to its server.
    fn connect(&mut self) -> UnixStream {
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

impl Victim {
    /// One run: opens the port, uses it, and takes it down after the device is gone.
    fn run(&self, device: &mut Device, mut mutations: Mutations) -> Outcome {
        let begin = Instant::now();
        let timeout = if mutations.is_honest { LONG_TIMEOUT } else { TIMEOUT };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (server, cut) = (device.connect(), theirs.try_clone().unwrap());
        let shared = Arc::new(TwinMemory::new(self.rings));
        let twin = Twin::between(
            self.protocol,
            theirs,
            server,
            timeout * 5 / 4,
            Some(shared.clone()),
            mutations.mutator,
        );
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, PACKETS).unwrap();
        let mut outcome = Outcome::default();
        let port = (self.open)(ours, timeout, &dma);
        outcome.opened = port.is_some();
        let mut application = port.map(Application::new);
        if let Some(application) = &mut application {
            application.round(&mut pool, 0);
            shared.find_buffers();
            let mut limit = Limit::time("a packet");
            for n in 1.. {
                limit.check();
                if n >= ROUNDS && (application.received > 0 || !mutations.is_honest) {
                    break;
                }
                match device {
                    Device::Stub(stub, _) => stub.step(),
                    Device::Model(..) => sleep(Duration::from_micros(200)),
                }
                for _ in 0..mutations.shared {
                    if let Some((place, _)) = shared.mutation(&mut mutations.random, &mutations.places) {
                        *outcome.shared.entry(place).or_default() += 1;
                    }
                }
                application.round(&mut pool, n);
            }
            outcome.received = application.received;
        }
        // A device that is gone keeps nothing: all buffers come home.
        cut.shutdown(std::net::Shutdown::Both).unwrap();
        outcome.told = twin.join().unwrap();
        until("the driver to see that its device is gone", || {
            application.as_ref().is_none_or(|application| application.port.health().is_err())
        });
        drop(application);
        assert_eq!(pool.available(), PACKETS, "a buffer is lost");
        if let Device::Model(model) = device {
            until("the server to be free", || !model.serving.report().endpoints[0].attached);
        }
        assert!(begin.elapsed() < BOUND, "took {:?}", begin.elapsed());
        outcome
    }

    fn honest(&self, device: &mut Device) {
        let mutator: Mutator = Box::new(|_| Say::Pass);
        let mutations =
            Mutations { mutator, shared: 0, places: Vec::new(), random: Random::new(0), is_honest: true };
        let outcome = self.run(device, mutations);
        assert!(outcome.opened && outcome.received > 0, "{}: it works when nothing is mutated", self.name);
    }
}

/// Runs each victim so many times; afterwards its device serves on and nothing is left.
fn each(runs: u64, mut run: impl FnMut(&Victim, &mut Device, u64) -> Left) {
    for victim in VICTIMS {
        let begin = Instant::now();
        let mut device = (victim.device)();
        victim.honest(&mut device);
        let mut before = Witness::now();
        for seed in 0..runs {
            println!("{}: seed {seed}", victim.name);
            match run(victim, &mut device, seed) {
                Left::Nothing => before.is_as_before(),
                Left::Memory => before = before.has_kept_at_most(KEPT),
            }
        }
        victim.honest(&mut device);
        before.is_as_before();
        println!("{}: {:?}", victim.name, begin.elapsed());
    }
}

#[test]
fn drivers_bear_mutations_of_messages() {
    alone(module_path!(), "drivers_bear_mutations_of_messages", LIMIT, || {
        let (mut told, mut opened) = (0, 0);
        each(24, |victim, device, seed| {
            let (protocol, mut random) = (victim.protocol, Random::new(seed));
            // The sooner the first mutation, the less comes after it.
            let (one_in, spared) = ([40, 100, 300][seed as usize % 3], random.below(600) as usize);
            let refused = Arc::new(AtomicBool::new(false));
            let refusing = refused.clone();
            let mutator: Mutator = Box::new(move |passing| {
                let Some(message) = protocol.message(passing.head.number) else { return Say::Pass };
                if passing.nth < spared || random.below(one_in) != 0 {
                    return Say::Pass;
                }
                let all = twin::mutations(protocol, message, passing.head.role);
                match all[random.below(all.len() as u64) as usize] {
                    Mutation::Late | Mutation::Silent if random.below(4) != 0 => Say::Pass,
                    mutation => {
                        refusing.fetch_or(message.name == "DEVICE_RESET", Relaxed);
                        println!(
                            "  {}: {:?} of {} is {mutation:?}",
                            passing.nth, passing.head.role, message.name
                        );
                        Say::Mutation(mutation)
                    }
                }
            });
            let mutations = Mutations {
                mutator,
                shared: 0,
                places: Vec::new(),
                random: Random::new(seed),
                is_honest: false,
            };
            let outcome = victim.run(device, mutations);
            told += outcome.told.mutations;
            opened += usize::from(outcome.opened);
            if refused.load(Relaxed) { Left::Memory } else { Left::Nothing }
        });
        assert!(told > 100 && opened > 20, "{told} mutations, {opened} ports");
    });
}

#[test]
fn drivers_bear_mutations_of_shared_bytes() {
    alone(module_path!(), "drivers_bear_mutations_of_shared_bytes", LIMIT, || {
        let mut told = BTreeMap::new();
        each(12, |victim, device, seed| {
            let mutator: Mutator = Box::new(|_| Say::Pass);
            let shared = [1, 4, 20][seed as usize % 3];
            let mutations = Mutations {
                mutator,
                shared,
                places: MutationTarget::ALL.into(),
                random: Random::new(seed),
                is_honest: false,
            };
            for (place, count) in victim.run(device, mutations).shared {
                *told.entry((victim.name, place)).or_insert(0) += count;
            }
            Left::Nothing
        });
        for (victim, place) in
            VICTIMS.iter().flat_map(|victim| MutationTarget::ALL.map(|place| (victim, place)))
        {
            // Registers of those models alone are in pages that both see.
            let is_paged = ["82599", "XL710", "X722", "82599 VF", "XL710 VF"].contains(&victim.name);
            let wanted = if place == MutationTarget::Register && !is_paged { 0 } else { 50 };
            let count = told.get(&(victim.name, place)).copied().unwrap_or(0);
            assert!(count >= wanted, "{}: {count} mutations of {place:?}", victim.name);
        }
    });
}
