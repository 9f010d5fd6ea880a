//! Clients that take away the memory which they share with a model: refused where it is
//! possible, and else the end of that client. The other devices of the process go on.

#[allow(dead_code, reason = "one hook of several")]
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::alone::alone;
use crate::common::between::{Between, in_front_of};
use crate::common::limit::until;
use bus::vhost_user::{Frontend, SPLIT_START, VhostRing};
use bus::{Backend, DmaRange, Mapping, Pci, Trust};
use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool};
use port::{Options, RxQueue as _};
use regs::virtio::feature::VERSION_1;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::MemfdFlags;
use testbed::models::{Model, Setup};
use testbed::serve::{Bound, Endpoint, EndpointReport, Options as ServeOptions, Serving};
use testbed::wire::{Plug, plug};
use testbed::{vfio_user, vhost_user};

const TOLD: &str = "took away pages";

/// Devices of a model in one process, with sockets 0, 1, … in the folder.
fn serve(
    model: &str,
    count: u8,
    trust: Trust,
    folder: &Path,
    bind: fn(Vec<Endpoint>) -> bus::Result<Bound>,
) -> Serving {
    let plugs: Vec<Plug> =
        (0..count).map(|n| Plug { spec: "gen+sink".parse().unwrap(), mac: testbed::ixgbe::mac(n) }).collect();
    let cables = plug(&plugs, &Arc::default()).unwrap();
    let endpoint = |(n, cable): (u8, _)| Endpoint {
        socket: folder.join(n.to_string()),
        device: Model::named(model)
            .unwrap()
            .open(&Setup { mac: testbed::ixgbe::mac(n), trust, ..Setup::default() }, cable)
            .unwrap(),
    };
    bind((0..count).zip(cables).map(endpoint).collect()).unwrap().serve(ServeOptions::default()).unwrap()
}

fn report(serving: &Serving, index: usize) -> EndpointReport {
    serving.report().endpoints.remove(index)
}

fn unsealable(len: usize) -> OwnedFd {
    let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, len as u64).unwrap();
    file
}

/// Offers other files than the driver's own.
#[derive(Debug, Default)]
struct Offers(Mutex<Vec<File>>);

impl Between for Offers {
    fn map_dma(&self, inner: &Pci, range: &DmaRange<'_>) -> bus::Result<()> {
        let file = File::from(unsealable(range.len()));
        // SAFETY: as the driver's own range, which it is but for the file.
        let other =
            unsafe { DmaRange::new(range.addr(), range.len(), range.iova(), Some((file.as_fd(), 0))) };
        inner.map_dma(&other)?;
        self.0.lock().unwrap().push(file);
        Ok(())
    }
}

fn connect(folder: &Path, n: u8) -> Pci {
    Pci::connect_until(&folder.join(n.to_string()), Trust::Peer, &Arc::default()).unwrap()
}

/// A driver whose device has its descriptors.
struct Side {
    rx: Vec<driver::ixgbe::RxQueue>,
    pool: Pool,
    _device: Box<dyn std::any::Any>,
}

impl Side {
    fn open(pci: Pci) -> port::Result<Side> {
        let dma = Dma::new(Default::default());
        let pool = Pool::new(&dma, 2048).unwrap();
        let (device, rx, tx) = Ixgbe::open(pci, &dma, Options::default())?.split();
        let mut side = Side { rx, pool, _device: Box::new((device, tx)) };
        side.receive();
        Ok(side)
    }

    fn receive(&mut self) -> usize {
        let mut batch = Batch::default();
        let count = self.rx[0].recv(&mut self.pool, &mut batch);
        self.pool.free_batch(&mut batch);
        count
    }

    /// Packets come, now as before.
    fn goes_on(&mut self) {
        let mut received = 0;
        until("packets of another device", || {
            received += self.receive();
            received > 1_000
        });
    }
}

#[test]
fn memory_that_could_go_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let serving = serve("82599", 1, Trust::default(), folder.path(), vfio_user::bind);
    let refused = Side::open(in_front_of(connect(folder.path(), 0), Arc::new(Offers::default())));
    assert!(refused.err().unwrap().to_string().contains("refused DMA_MAP"), "a number for the client");
    let fault = report(&serving, 0).last_fault.unwrap();
    for words in ["cannot be sealed", "memory-backend-memfd", "--allow-unsealed"] {
        assert!(fault.contains(words), "{fault}");
    }
    until("the client to be gone", || !report(&serving, 0).attached);
    Side::open(connect(folder.path(), 0)).unwrap().goes_on();
}

#[test]
fn a_driver_that_truncates_its_memory_ends_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let serving = serve("82599", 2, Trust::Peer, folder.path(), vfio_user::bind);
    let mut decent = Side::open(connect(folder.path(), 1)).unwrap();
    for round in 1..=3 {
        let offers = Arc::new(Offers::default());
        let pci = connect(folder.path(), 0);
        let _hostile = Side::open(in_front_of(pci.clone(), offers.clone())).unwrap();
        offers.0.lock().unwrap().iter().for_each(|file| file.set_len(0).unwrap());
        until("the end of the hostile client", || report(&serving, 0).client_faults == round);
        assert!(report(&serving, 0).last_fault.unwrap().contains(TOLD));
        until("its driver to see that", || pci.health().is_err());
        decent.goes_on();
    }
    let report = serving.stop();
    assert_eq!(report.endpoints[1].client_faults, 0);
}

#[test]
fn a_front_end_that_truncates_its_memory_ends_itself_alone() {
    const LEN: usize = 1 << 16;
    let folder = tempfile::tempdir().unwrap();
    let serving = serve("virtio-net", 2, Trust::Peer, folder.path(), vhost_user::bind);
    let start = |n: usize| {
        let frontend = Frontend::connect(&folder.path().join(n.to_string())).unwrap().trusting(Trust::Peer);
        let file = File::from(unsealable(LEN));
        let mapping = Mapping::new(&file, 0, LEN).unwrap();
        // SAFETY: the mapping is returned with the session, and nobody touches it.
        let range = unsafe { DmaRange::new(mapping.base(), LEN, 0, Some((file.as_fd(), 0))) };
        frontend.map_dma(&range).unwrap();
        frontend.set_features(VERSION_1).unwrap();
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let ring = VhostRing { size: 4, descriptors: 0, driver: 0x100, device: 0x200, base: SPLIT_START };
        frontend.start_ring(1, &ring, kick.as_fd(), None).unwrap();
        frontend.enable_ring(1, true).unwrap();
        (frontend, file, mapping)
    };
    let (decent, _file, _mapping) = start(1);
    let (hostile, file, _mapping) = start(0);
    file.set_len(0).unwrap();
    until("the end of the hostile front end", || report(&serving, 0).client_faults == 1);
    assert!(report(&serving, 0).last_fault.unwrap().contains(TOLD));
    until("it to see that", || hostile.health().is_err());
    decent.stop_ring(1).unwrap();
    decent.health().unwrap();
    assert!(report(&serving, 1).attached);
}

#[test]
fn a_front_end_whose_memory_could_go_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let serving = serve("virtio-net", 1, Trust::default(), folder.path(), vhost_user::bind);
    let frontend = Frontend::connect(&folder.path().join("0")).unwrap().trusting(Trust::Peer);
    let file = unsealable(0x1000);
    let mapping = Mapping::new(&file, 0, 0x1000).unwrap();
    // SAFETY: nobody touches it.
    let range = unsafe { DmaRange::new(mapping.base(), 0x1000, 0, Some((file.as_fd(), 0))) };
    frontend.map_dma(&range).unwrap();
    let kick = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let ring = VhostRing { size: 4, descriptors: 0, driver: 0x100, device: 0x200, base: SPLIT_START };
    frontend.start_ring(1, &ring, kick.as_fd(), None).unwrap_err();
    until("the fault", || report(&serving, 0).client_faults == 1);
    let fault = report(&serving, 0).last_fault.unwrap();
    assert!(fault.contains("cannot be sealed") && fault.contains("--allow-unsealed"), "{fault}");
}

/// So long may the test of what is left take.
const LIMIT: Duration = Duration::from_mins(2);

/// Open files and mappings of this process.
fn held() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    // Memory of our own may grow; files that a client shared may not stay.
    let of_files = maps.lines().filter(|line| line.contains("memfd:")).count();
    (std::fs::read_dir("/proc/self/fd").unwrap().count(), of_files)
}

#[test]
fn clients_that_come_and_go_leave_nothing() {
    // In a process of its own: other tests open files meanwhile.
    alone(module_path!(), "clients_that_come_and_go_leave_nothing", LIMIT, || {
        let folder = tempfile::tempdir().unwrap();
        let serving = serve("82599", 1, Trust::Peer, folder.path(), vfio_user::bind);
        let mut before = None;
        for round in 0..500 {
            let pci = connect(folder.path(), 0);
            let file = File::from(unsealable(0x3000));
            let mapping = Mapping::new(&file, 0, 0x3000).unwrap();
            let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            for n in 0..4 {
                // SAFETY: nobody touches it here; the device has the file.
                let range =
                    unsafe { DmaRange::new(mapping.base(), 0x3000, n << 20, Some((file.as_fd(), 0))) };
                pci.map_dma(&range).unwrap();
                pci.set_interrupt(n as u16, Some(event.as_fd())).unwrap();
            }
            drop((pci, mapping, file, event));
            until("the client to be gone", || !report(&serving, 0).attached);
            if round == 0 {
                before = Some(held());
            }
        }
        assert_eq!(Some(held()), before);
    });
}
