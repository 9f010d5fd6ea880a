//! The front end: a session with one back end.
//!
//! Every request has a time limit, and any fault of the peer (silence, garbage,
//! hanging up) ends the session for good: [`Backend::health`] tells the first.
//! Requests are acknowledged where the back end offers that, so that what it
//! refuses has a name.

mod dma;
mod session;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::memory::{MAX_REGIONS, Table};
use super::message::{F_PROTOCOL_FEATURES, Message, NO_FD, Request, protocol};
use super::{Listener, VhostRing};
use crate::peer::{self, Stream};
use crate::vfio_user::transport::dial;
use crate::{Error, LONGEST_SOCKET_PATH, Result, Trust};

/// How long a request may take unless said otherwise.
pub const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Most queue pairs that a device is taken to have (virtio 1.3, 5.1.4: 0x8000 is more than
/// ring numbers of 8 bits can count).
const MAX_PAIRS: u64 = 128;
/// Most bytes of a virtio device's configuration space in one message.
const MAX_CONFIG: usize = 256;

/// The driver's end of a vhost-user session.
#[derive(Debug)]
pub struct Frontend {
    peer: String,
    stream: Stream,
    limit: Duration,
    trust: Trust,
    /// [`sigbus::losses`](crate::sigbus::losses) when nothing of ours was lost for the
    /// last time.
    losses: AtomicU64,
    link: Mutex<Link>,
    fault: OnceLock<Error>,
    /// Written by the back end when a ring fails.
    error: OwnedFd,
    offered: u64,
    protocol: u64,
    pairs: u16,
    max_regions: usize,
}

/// What whoever talks to the peer holds.
#[derive(Debug, Default)]
struct Link {
    memory: Table,
    /// The back end's table is ours.
    told: bool,
    /// Rings that were started and not stopped, and the vectors they wake.
    running: Vec<(u8, Option<u16>)>,
    /// The eventfds of interrupt vectors.
    events: Vec<(u16, OwnedFd)>,
    status: u8,
}

impl Frontend {
    /// Connects to the back end that listens at `path`.
    ///
    /// # Errors
    /// [`Error::Setup`] when nobody listens; what the session's begin says.
    pub fn connect(path: &Path) -> Result<Frontend> {
        let peer = format!("vhost-user:{}", path.display());
        Error::check_socket_path(path, LONGEST_SOCKET_PATH)?;
        let stream = dial(path, TIME_LIMIT, &AtomicBool::new(false)).map_err(|errno| match errno {
            Errno::NOENT | Errno::CONNREFUSED => Error::Setup {
                device: peer.clone(),
                what: format!("nobody listens ({errno})"),
                fix: format!(
                    "start the back end first, e.g. dpdk-testpmd --vdev net_vhost0,iface={path}, \
                         or ixora model virtio-net --vhost-user {path}",
                    path = path.display()
                ),
            },
            _ => Error::os(format!("connecting to {}", path.display()), errno),
        })?;
        Frontend::over(stream, peer, TIME_LIMIT)
    }

    /// Listens at `path` until a back end connects (`client=1` of DPDK's vhost),
    /// for as long as `limit`.
    ///
    /// # Errors
    /// [`Error::Setup`] when none came.
    pub fn listen(path: &Path, limit: Option<Duration>, stop: Option<&AtomicBool>) -> Result<Frontend> {
        let listener = Listener::bind(path)?;
        let peer = format!("vhost-user-server:{}", path.display());
        let Some(stream) = listener.accept(limit, stop)? else {
            return Err(Error::Setup {
                device: peer,
                what: "no back end connected".to_owned(),
                fix: format!(
                    "start one, e.g. dpdk-testpmd --vdev net_vhost0,iface={},client=1",
                    path.display()
                ),
            });
        };
        Frontend::over(stream, peer, TIME_LIMIT)
    }

    /// Speaks to the back end at the other end of `stream`; `name` is its and
    /// `limit` bounds each request.
    ///
    /// # Errors
    /// What the peer does wrong while features are exchanged.
    pub fn over(stream: impl Into<Stream>, name: String, limit: Duration) -> Result<Frontend> {
        crate::eventfd::prepare()?; // for kicks
        peer::expect();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let error = eventfd(0, flags).map_err(|errno| Error::os("making an eventfd", errno))?;
        let mut frontend = Frontend {
            peer: name,
            stream: stream.into(),
            limit,
            trust: Trust::Hostile,
            losses: AtomicU64::new(crate::sigbus::losses()),
            link: Mutex::default(),
            fault: OnceLock::new(),
            error,
            offered: 0,
            protocol: 0,
            pairs: 1,
            max_regions: MAX_REGIONS,
        };
        frontend.negotiate()?;
        Ok(frontend)
    }

    /// As far as memory that it is given can be taken away, see [`Trust`]; a back end is
    /// not trusted unless said so.
    pub fn trusting(mut self, trust: Trust) -> Frontend {
        self.trust = trust;
        self
    }

    /// "Multiple queue support" and "Protocol features": before anything else.
    fn negotiate(&mut self) -> Result<()> {
        self.tell(Request::SetOwner, |body| body, &[])?;
        self.offered = self.number(Request::GetFeatures)?;
        if self.offered & F_PROTOCOL_FEATURES == 0 {
            return Ok(());
        }
        let offered = self.number(Request::GetProtocolFeatures)?;
        let wanted = offered & protocol::WANTED;
        // Not acknowledged: whether that may be asked for is just being said.
        self.tell(Request::SetProtocolFeatures, |body| body.u64(wanted), &[])?;
        self.protocol = wanted;
        if self.has(protocol::MQ) {
            let pairs = self.number(Request::GetQueueNum)?;
            if pairs == 0 {
                return Err(self.broke("it has no queue pair".to_owned()));
            }
            self.pairs = pairs.min(MAX_PAIRS) as u16;
        }
        if self.has(protocol::CONFIGURE_MEM_SLOTS) {
            let slots = self.number(Request::GetMaxMemSlots)?;
            if slots == 0 {
                return Err(self.broke("it has no room for memory".to_owned()));
            }
            self.max_regions = slots.min(4096) as usize;
        }
        Ok(())
    }

    fn has(&self, feature: u64) -> bool {
        self.protocol & feature != 0
    }

    /// The peer as a user wrote it.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The virtio features that the back end offers. Those of the device's
    /// configuration (MAC, MTU, status) are the front end's own business.
    pub fn features(&self) -> u64 {
        self.offered & !F_PROTOCOL_FEATURES
    }

    /// The protocol features in use, see [`protocol`].
    pub fn protocol_features(&self) -> u64 {
        self.protocol
    }

    /// Queue pairs that the back end has; ring 2n receives, 2n + 1 transmits.
    pub fn queue_pairs(&self) -> u16 {
        self.pairs
    }

    /// Says which virtio features are used.
    ///
    /// # Errors
    /// [`Error::Setup`] for one that was not offered; [`Error::Refused`].
    pub fn set_features(&self, features: u64) -> Result<()> {
        let foreign = features & !self.features();
        if foreign != 0 {
            return Err(Error::Setup {
                device: self.peer.clone(),
                what: format!("virtio features {foreign:#x} were not offered"),
                fix: "ask only for features the back end has".to_owned(),
            });
        }
        let features = features | self.offered & F_PROTOCOL_FEATURES;
        self.order(Request::SetFeatures, |body| body.u64(features), &[])
    }

    /// Tells the device status (virtio 1.3, 2.1), where the back end wants to
    /// know.
    pub fn set_status(&self, status: u8) -> Result<()> {
        if self.has(protocol::STATUS) {
            self.order(Request::SetStatus, |body| body.u64(status.into()), &[])?;
        }
        self.lock()?.status = status;
        Ok(())
    }

    /// The device status: what the back end says, else what we said last.
    pub fn status(&self) -> Result<u8> {
        if self.has(protocol::STATUS) {
            return Ok(self.number(Request::GetStatus)? as u8); // the rest is reserved
        }
        Ok(self.lock()?.status)
    }

    /// Whether the configuration space is the back end's
    /// ([`config`](Self::config)).
    pub fn has_config(&self) -> bool {
        self.has(protocol::CONFIG)
    }

    /// Reads the device's configuration space, at most 256 bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without [`has_config`](Self::has_config).
    pub fn config(&self, offset: u32, data: &mut [u8]) -> Result<()> {
        if !self.has_config() || data.len() > MAX_CONFIG {
            return Err(Error::Unsupported {
                device: self.peer.clone(),
                what: "be asked for its configuration space",
                fix: "give the MAC address and the like to the driver",
            });
        }
        let body = |body: Message| body.u32(offset).u32(data.len() as u32).u32(0).bytes(data);
        let reply = self.ask(Request::GetConfig, body, &[])?;
        match reply.get(12..).filter(|bytes| bytes.len() == data.len()) {
            Some(bytes) => data.copy_from_slice(bytes),
            None => return Err(self.refused(Request::GetConfig, Errno::INVAL)),
        }
        Ok(())
    }
}

/// How rings are set up, started and stopped.
impl Frontend {
    /// Sets ring `index` up and starts it: the back end follows `kick`, and wakes
    /// the eventfd that [`Backend::set_interrupt`](crate::Backend::set_interrupt)
    /// gave `vector`. Memory mapped so far is made known first.
    ///
    /// A ring without a vector is polled. A back end that is told of the status
    /// (all of DPDK's) waits for DRIVER_OK.
    ///
    /// # Errors
    /// [`Error::Setup`] for an area outside of mapped memory or a ring that the
    /// back end does not have; [`Error::Refused`].
    pub fn start_ring(
        &self,
        index: u8,
        ring: &VhostRing,
        kick: BorrowedFd<'_>,
        vector: Option<u16>,
    ) -> Result<()> {
        if u16::from(index) >= 2 * self.pairs {
            let what = format!("there is no ring {index}: it has {} queue pairs", self.pairs);
            return Err(self.setup(what, "give the back end more queues, e.g. queues=N"));
        }
        self.tell_memory()?;
        let number = u64::from(index);
        let state = |value: u32| move |body: Message| body.u32(index.into()).u32(value);
        self.order(Request::SetVringNum, state(ring.size.into()), &[])?;
        self.order(Request::SetVringBase, state(ring.base), &[])?;
        let [descriptors, driver, device] =
            [self.address(ring.descriptors)?, self.address(ring.driver)?, self.address(ring.device)?];
        let addresses =
            |body: Message| body.u32(index.into()).u32(0).u64(descriptors).u64(device).u64(driver).u64(0);
        self.order(Request::SetVringAddr, addresses, &[])?;
        self.order(Request::SetVringErr, |body| body.u64(number), &[self.error.as_fd()])?;
        let mut link = self.lock()?;
        let event = link.events.iter().find(|(number, _)| Some(*number) == vector);
        self.set_call(index, event.map(|(_, event)| event.as_fd()))?;
        self.order_locked(Request::SetVringKick, |body| body.u64(number), &[kick])?;
        link.running.push((index, vector));
        Ok(())
    }

    /// Which eventfd wakes us when ring `index` was served; none: it is polled.
    /// For whoever holds the link.
    fn set_call(&self, index: u8, call: Option<BorrowedFd<'_>>) -> Result<()> {
        let number = u64::from(index) | if call.is_none() { NO_FD } else { 0 };
        self.order_locked(Request::SetVringCall, |body| body.u64(number), call.as_slice())
    }

    /// Lets a ring pass data, or no longer. Without protocol features rings are
    /// enabled as soon as they are started.
    pub fn enable_ring(&self, index: u8, on: bool) -> Result<()> {
        if self.offered & F_PROTOCOL_FEATURES == 0 {
            return Ok(());
        }
        self.order(Request::SetVringEnable, |body| body.u32(index.into()).u32(on.into()), &[])
    }

    /// Stops ring `index`: the back end no longer touches it, or memory because
    /// of it. Its base, to start it again where it was. DPDK gives the whole
    /// device up with the first ring that stops: stop all, then start all.
    pub fn stop_ring(&self, index: u8) -> Result<u32> {
        let reply = self.ask(Request::GetVringBase, |body| body.u32(index.into()).u32(0), &[])?;
        let (fields, _) = reply.as_chunks::<4>();
        let (Some(number), Some(base)) = (fields.first(), fields.get(1)) else {
            return Err(self.broke("its answer to GET_VRING_BASE is short".to_owned()));
        };
        if u32::from_le_bytes(*number) != u32::from(index) {
            return Err(self.broke(format!("asked for ring {index}, it answered for another")));
        }
        self.lock()?.running.retain(|&(ring, _)| ring != index);
        Ok(u32::from_le_bytes(*base))
    }

    /// Stops all rings, and resets the device where the back end can do that.
    pub fn reset_device(&self) -> Result<()> {
        let running = self.lock()?.running.clone();
        for (index, _) in running {
            self.stop_ring(index)?;
        }
        if self.has(protocol::RESET_DEVICE) {
            self.order(Request::ResetDevice, |body| body, &[])?;
        }
        Ok(())
    }
}

/// Lets a front end read `bytes` as all its back end ever says: for fuzzing.
#[doc(hidden)]
pub fn feed(bytes: &[u8]) {
    use crate::Backend;
    use std::io::Write;
    let Ok((stream, mut backend)) = std::os::unix::net::UnixStream::pair() else { return };
    let _ = backend.set_nonblocking(true);
    let _ = backend.write(bytes);
    let _ = backend.shutdown(std::net::Shutdown::Write);
    let Ok(frontend) = Frontend::over(stream, "vhost-user:fuzz".to_owned(), Duration::from_secs(1)) else {
        return;
    };
    let _ = frontend.set_features(frontend.features());
    let _ = frontend.set_status(1);
    let _ = frontend.status();
    let _ = frontend.config(0, &mut [0; 24]);
    let ring = VhostRing { size: 1, descriptors: 0, driver: 0, device: 0, base: 0 };
    let _ = frontend.start_ring(0, &ring, frontend.error.as_fd(), None);
    let _ = frontend.enable_ring(0, true);
    let _ = frontend.stop_ring(0);
    let _ = frontend.reset_device();
    let _ = frontend.health();
}
