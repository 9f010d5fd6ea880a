//! Eventfds that the other side fills and makes blocking: the one who signals or reads
//! them goes on all the same, and so do the other devices of its process.

#[allow(dead_code, reason = "one hook of several")]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::between::{Between, in_front_of};
use crate::common::limit::Limit;
use bus::{Pci, Result};
use driver::ixgbe::Ixgbe;
use driver::virtio::transport::Doorbell;
use memory::{Batch, Dma, Pool};
use port::{Options, RxQueue as _};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_setfl};
use testbed::serve::{Endpoint, Options as ServeOptions, Serving};
use testbed::wire::{Plug, plug};
use testbed::{ixgbe, vfio_user};

/// What the other side of an interrupt does to its descriptor.
#[derive(Debug, Default)]
struct Interrupts {
    /// Wires this instead of the driver's own eventfd.
    instead: Option<OwnedFd>,
    /// The driver's own, as the server has it.
    shared: Mutex<Vec<OwnedFd>>,
}

impl Between for Interrupts {
    fn set_interrupt(&self, inner: &Pci, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        let copy = event.map(|event| event.try_clone_to_owned().unwrap());
        self.shared.lock().unwrap().extend(copy);
        let instead = self.instead.as_ref().map(AsFd::as_fd);
        inner.set_interrupt(vector, event.and(instead.or(event)))
    }
}

/// An eventfd with no room for one more, whose writers wait.
fn full() -> OwnedFd {
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    event
}

fn serve(folder: &std::path::Path, count: u8) -> Serving {
    let plugs: Vec<Plug> =
        (0..count).map(|n| Plug { spec: "gen+sink".parse().unwrap(), mac: ixgbe::mac(n) }).collect();
    let cables = plug(&plugs, &Arc::default()).unwrap();
    let endpoints = (0..count).zip(cables).map(|(n, cable)| Endpoint {
        socket: folder.join(n.to_string()),
        device: ixgbe::open(&ixgbe::Options::with_mac(ixgbe::mac(n)), cable).unwrap(),
    });
    vfio_user::bind(endpoints.collect()).unwrap().serve(ServeOptions::default()).unwrap()
}

/// A driver of one device.
struct Side {
    rx: driver::ixgbe::RxQueue,
    pool: Pool,
    _device: Box<dyn std::any::Any + Send>,
}

fn open(pci: Pci) -> Side {
    let dma = Dma::new(Default::default());
    let pool = Pool::new(&dma, 2048).unwrap();
    let options = Options { interrupts: true, ..Options::default() };
    let (device, mut rx, tx) = Ixgbe::open(pci, &dma, options).unwrap().split();
    Side { rx: rx.remove(0), pool, _device: Box::new((device, rx, tx)) }
}

/// Does what must not wait for the other side.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    wait.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("{what} waits for ever"))
}

#[test]
fn a_client_whose_eventfd_is_full_and_blocking_stops_no_other_device() {
    let folder = tempfile::tempdir().unwrap();
    let serving = serve(folder.path(), 2);
    let connect = |n: u8| Pci::connect(&folder.path().join(n.to_string())).unwrap();
    let hostile = Arc::new(Interrupts { instead: Some(full()), ..Interrupts::default() });
    let mut hostile = open(in_front_of(connect(0), hostile));
    let mut decent = open(connect(1));
    hostile.rx.recv(&mut hostile.pool, &mut Batch::default()); // gives the ring its buffers
    hostile.rx.arm().unwrap();
    let interrupts = |serving: &Serving| serving.report().endpoints[0].device.interrupts;
    let serving = in_time("a report", move || {
        let mut limit = Limit::rounds(2_000, "an interrupt of the hostile client's device");
        while interrupts(&serving) == 0 {
            limit.check();
            std::thread::sleep(Duration::from_millis(5));
        }
        serving
    });
    let (mut received, mut limit) = (0, Limit::time("packets of the other device"));
    while received < 10_000 {
        limit.check();
        let mut batch = Batch::default();
        received += decent.rx.recv(&mut decent.pool, &mut batch);
        decent.pool.free_batch(&mut batch);
    }
    let report = in_time("the end", move || serving.stop());
    assert!(report.endpoints.iter().all(|endpoint| endpoint.client_faults == 0), "{report:#?}");
}

#[test]
fn a_server_that_makes_the_drivers_eventfd_blocking_stops_no_driver() {
    let folder = tempfile::tempdir().unwrap();
    let _serving = serve(folder.path(), 1);
    let server = Arc::new(Interrupts::default());
    let mut side = open(in_front_of(Pci::connect(&folder.path().join("0")).unwrap(), server.clone()));
    for event in server.shared.lock().unwrap().iter() {
        fcntl_setfl(event, OFlags::empty()).unwrap();
        let _ = bus::eventfd::take(event);
    }
    in_time("disarming", move || {
        for _ in 0..3 {
            side.rx.disarm();
        }
    });
}

#[test]
fn a_back_end_that_fills_a_kick_stops_no_driver() {
    in_time("a kick", || {
        let doorbell = Doorbell::event(full());
        (0..3).for_each(|_| doorbell.ring());
    });
}
