//! vhost-user (QEMU 10.0, "Vhost-user Protocol"): the device is another process
//! at a socket, what DPDK calls virtio-user. The rings are the same; set-up is
//! messages, doorbells and interrupts are eventfds.
//!
//! The back end moves packets and knows nothing of addresses or links: MAC
//! address and status are this side's own, and there is no control queue.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bus::vhost_user::{Frontend, PACKED_START, SPLIT_START, VhostRing};
use bus::{Backend, Pci};
use port::OptionError;
use regs::virtio::device::status;
use regs::virtio::feature::{self, net};
use regs::virtio::net::config;
use rustix::event::{EventfdFlags, eventfd};

use super::{Areas, Doorbell, Transport};
use crate::{Error, Result};

/// What rings and packets have to do with; the rest needs a control queue, an
/// IOMMU or a PCI function between.
const RINGS: u64 = feature::NOTIFY_ON_EMPTY
    | feature::ANY_LAYOUT
    | feature::INDIRECT_DESC
    | feature::EVENT_IDX
    | feature::VERSION_1
    | feature::RING_PACKED
    | feature::IN_ORDER
    | feature::ORDER_PLATFORM
    | net::CSUM
    | net::GUEST_CSUM
    | net::GUEST_TSO4
    | net::GUEST_TSO6
    | net::GUEST_ECN
    | net::GUEST_UFO
    | net::HOST_TSO4
    | net::HOST_TSO6
    | net::HOST_ECN
    | net::HOST_UFO
    | net::GUEST_USO4
    | net::GUEST_USO6
    | net::HOST_USO
    | net::MRG_RXBUF
    | net::MQ;
/// What this side adds.
const OWN: u64 = net::MAC | net::STATUS;
/// Most entries of a ring (2.7); a back end has no limit of its own.
const MAX_SIZE: u16 = 32768;

/// A device behind a vhost-user socket.
#[derive(Debug)]
pub struct VhostUser {
    frontend: Arc<Frontend>,
    pci: Pci,
    mac: [u8; 6],
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    packed: bool,
    /// Rings handed over.
    started: Vec<u8>,
    /// Pairs in use.
    pairs: u16,
}

impl VhostUser {
    /// Connects to the back end that listens at `path`. `mac` is the port's
    /// address; without one it is random and locally administered.
    pub fn connect(path: &Path, mac: Option<[u8; 6]>) -> Result<VhostUser> {
        Ok(VhostUser::over(Frontend::connect(path)?, mac))
    }

    /// Listens at `path` until a back end connects, no longer than `limit`.
    pub fn listen(path: &Path, limit: Option<Duration>, mac: Option<[u8; 6]>) -> Result<VhostUser> {
        Ok(VhostUser::over(Frontend::listen(path, limit, None)?, mac))
    }

    /// Drives the device of a session that was begun.
    pub fn over(frontend: Frontend, mac: Option<[u8; 6]>) -> VhostUser {
        let frontend = Arc::new(frontend);
        let pci = Pci::new(frontend.clone());
        let mac = mac.unwrap_or_else(random_mac);
        VhostUser { frontend, pci, mac, state: Mutex::new(State { pairs: 1, ..State::default() }) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Each change is one statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enables the rings of the pairs in use, and disables the others.
    fn enable(&self) -> Result<()> {
        let state = self.state();
        for &ring in &state.started {
            self.frontend.enable_ring(ring, u16::from(ring) / 2 < state.pairs)?;
        }
        Ok(())
    }

    /// The configuration as a device would have it (5.1.4).
    fn config(&self) -> [u8; config::BYTES as usize] {
        let mut bytes = [0; config::BYTES as usize];
        let mut put = |at: u32, data: &[u8]| bytes[at as usize..][..data.len()].copy_from_slice(data);
        let link = if self.frontend.health().is_ok() { config::LINK_UP } else { 0 };
        put(config::MAC, &self.mac);
        put(config::STATUS, &link.to_le_bytes());
        put(config::MAX_VIRTQUEUE_PAIRS, &self.frontend.queue_pairs().to_le_bytes());
        bytes
    }
}

/// An address that nobody else has, in all likelihood.
fn random_mac() -> [u8; 6] {
    let bytes = RandomState::new().build_hasher().finish().to_le_bytes();
    [0x02, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]]
}

impl Transport for VhostUser {
    fn pci(&self) -> &Pci {
        &self.pci
    }

    /// It sees the addresses that it was told of, and no others.
    fn needs_translation(&self) -> bool {
        false
    }

    fn features(&self) -> Result<u64> {
        Ok(self.frontend.features() & RINGS | OWN)
    }

    fn accept(&self, features: u64) -> Result<()> {
        self.state().packed = features & feature::RING_PACKED != 0;
        Ok(self.frontend.set_features(features & !OWN)?)
    }

    fn status(&self) -> u8 {
        self.frontend.status().unwrap_or(u8::MAX)
    }

    fn set_status(&self, status: u8) -> Result<()> {
        if status & status::DRIVER_OK != 0 {
            self.enable()?;
        }
        Ok(self.frontend.set_status(status)?)
    }

    fn reset(&self) -> Result<()> {
        // A back end that is gone accesses nothing.
        if self.frontend.health().is_ok() {
            self.frontend.reset_device()?;
            self.frontend.set_status(0)?;
        }
        self.state().started.clear();
        Ok(())
    }

    fn queue_size(&self, queue: u16) -> u16 {
        if queue < 2 * self.frontend.queue_pairs() { MAX_SIZE } else { 0 }
    }

    fn start_queue(&self, queue: u16, areas: &Areas) -> Result<Doorbell> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let kick = eventfd(0, flags).map_err(|errno| Error::EventFd { source: errno.into() })?;
        let limit = "a vhost-user session has 256 rings";
        let refused = |_| OptionError { option: "the queue", value: queue.into(), limit };
        let index = u8::try_from(queue).map_err(refused)?;
        let base = if self.state().packed { PACKED_START } else { SPLIT_START };
        let ring = VhostRing {
            size: areas.size,
            descriptors: areas.descriptors,
            driver: areas.driver,
            device: areas.device,
            base,
        };
        self.frontend.start_ring(index, &ring, kick.as_fd(), areas.vector)?;
        self.state().started.push(index);
        Ok(Doorbell::event(kick))
    }

    fn read_config(&self, offset: u32, data: &mut [u8]) {
        let config = self.config();
        let from = config.get(offset as usize..).unwrap_or_default();
        data.fill(0);
        data.iter_mut().zip(from).for_each(|(byte, from)| *byte = *from);
    }

    fn max_queue_pairs(&self) -> Option<u16> {
        Some(self.frontend.queue_pairs())
    }

    fn set_queue_pairs(&self, pairs: u16) -> Option<Result<()>> {
        self.state().pairs = pairs;
        Some(self.enable())
    }
}
