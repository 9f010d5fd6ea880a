//! An AF_XDP socket and its four rings. It goes to one queue of one interface,
//! and its memory and rings cannot be changed any more once it has.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpRingOffset, XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::thread::CapabilitySet;

use super::ring::{Offsets, XdpRing};
use super::umem::{self, Umem};
use crate::capabilities::{AF_XDP, granting, lacking};
use crate::mapping::Mapping;
use port::Error;

/// Bytes of an address, and of an address with a length (`struct xdp_desc`).
const ADDRESS: usize = 8;
const DESCRIPTOR: usize = 16;

/// How long the kernel may take to let go of a queue whose socket was closed.
const LEAVING: Duration = Duration::from_secs(1);
const REGISTERING: &str = "registering packet memory";
const BINDING: &str = "binding an AF_XDP socket";

/// How packets come into our memory and leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copy {
    /// The device itself reads and writes it.
    Zero,
    /// The kernel copies.
    Copied,
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Copy::Zero { "zerocopy" } else { "copy" })
    }
}

/// The receiving half's rings: received packets, and buffers for more.
#[derive(Debug)]
pub(super) struct RxRings {
    pub(super) rx: XdpRing,
    pub(super) fill: XdpRing,
}

/// The sending half's rings: packets to send, and those that were sent.
#[derive(Debug)]
pub(super) struct TxRings {
    pub(super) tx: XdpRing,
    pub(super) completion: XdpRing,
}

/// A step that failed.
#[derive(Debug)]
pub(super) struct StepError {
    step: &'static str,
    source: Errno,
}

/// An AF_XDP socket, closed when it is dropped.
#[derive(Debug)]
pub(super) struct XdpSocket(OwnedFd);

impl XdpSocket {
    /// A socket whose packets lie in `memory`, and its rings.
    pub(super) fn open(
        memory: &Umem,
        rx_ring: usize,
        tx_ring: usize,
    ) -> Result<(XdpSocket, RxRings, TxRings), StepError> {
        let fault = |step| move |source| StepError { step, source };
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(fault("opening an AF_XDP socket"))?;
        // The kernel reaches only buffers whose addresses the rings give it, and
        // those are packets that the queues hold meanwhile. It keeps the pages
        // even when they are unmapped here, so it never meets another's memory.
        let register = XdpUmemReg {
            addr: memory.start as u64,
            len: memory.len as u64,
            chunk_size: umem::CHUNK as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&socket, register).map_err(fault(REGISTERING))?;
        let (rx_size, tx_size) = (rx_ring as u32, tx_ring as u32);
        sockopt::set_xdp_umem_fill_ring_size(&socket, rx_size)
            .and_then(|()| sockopt::set_xdp_umem_completion_ring_size(&socket, tx_size))
            .and_then(|()| sockopt::set_xdp_rx_ring_size(&socket, rx_size))
            .and_then(|()| sockopt::set_xdp_tx_ring_size(&socket, tx_size))
            .map_err(fault("making rings"))?;
        let (rx, tx) = rings(&socket, rx_ring, tx_ring).map_err(fault("mapping rings"))?;
        Ok((XdpSocket(socket), rx, tx))
    }

    /// Goes to a queue of an interface, without a copy where that may be and can
    /// be; which it is.
    pub(super) fn bind(&self, interface: u32, queue: u32, may_be_zero: bool) -> Result<Copy, StepError> {
        let end = Instant::now() + LEAVING;
        let bind = |flags| {
            let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP | flags;
            let address = SocketAddrXdp::new(flags, interface, queue);
            loop {
                match bind(&self.0, &address) {
                    Err(Errno::BUSY) if Instant::now() < end => sleep(Duration::from_millis(5)),
                    done => return done,
                }
            }
        };
        // Neither way asked for: the kernel tries both itself; but some drivers
        // refuse what they could have left to it.
        if !may_be_zero || bind(SocketAddrXdpFlags::empty()).is_err() {
            bind(SocketAddrXdpFlags::XDP_COPY).map_err(|source| StepError { step: BINDING, source })?;
        }
        let zero = sockopt::xdp_options(&self.0)
            .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY));
        Ok(if zero { Copy::Zero } else { Copy::Copied })
    }

    /// What the kernel counted since the socket was opened.
    pub(super) fn statistics(&self) -> Option<XdpStatistics> {
        sockopt::xdp_statistics(&self.0).ok()
    }
}

#[cfg(test)]
impl XdpSocket {
    /// A descriptor that is no socket, for rings that a test is the kernel of.
    pub(super) fn stand_in(file: OwnedFd) -> XdpSocket {
        XdpSocket(file)
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Maps the rings.
fn rings(socket: &OwnedFd, rx_ring: usize, tx_ring: usize) -> rustix::io::Result<(RxRings, TxRings)> {
    let all = sockopt::xdp_mmap_offsets(socket)?;
    let ring = |offsets: XdpRingOffset, gives, size: usize, width: usize, place| {
        let (producer, consumer) = (offsets.producer as usize, offsets.consumer as usize);
        let (ours, theirs) = if gives { (producer, consumer) } else { (consumer, producer) };
        let flags = offsets.flags.ok_or(Errno::NOSYS)? as usize;
        let offsets = Offsets { ours, theirs, flags, entries: offsets.desc as usize };
        let memory = Mapping::map(socket, offsets.entries + size * width, place)?;
        Ok(XdpRing::new(memory, offsets, size, width))
    };
    let rx = RxRings {
        rx: ring(all.rx, false, rx_ring, DESCRIPTOR, XDP_PGOFF_RX_RING)?,
        fill: ring(all.fr, true, rx_ring, ADDRESS, XDP_UMEM_PGOFF_FILL_RING)?,
    };
    let tx = TxRings {
        tx: ring(all.tx, true, tx_ring, DESCRIPTOR, XDP_PGOFF_TX_RING)?,
        completion: ring(all.cr, false, tx_ring, ADDRESS, XDP_UMEM_PGOFF_COMPLETION_RING)?,
    };
    Ok((rx, tx))
}

impl StepError {
    /// Whether the interface does not use the queue.
    pub(super) fn is_no_queue(&self) -> bool {
        self.step == BINDING && self.source == Errno::INVAL
    }

    /// The error, with its cause and its fix where they are known.
    pub(super) fn explain(self, port: &str, queue: u32) -> Error {
        let binds = self.step == BINDING;
        let (what, fix) = match self.source {
            Errno::PERM => return lacking(port, self.step, CapabilitySet::NET_RAW, AF_XDP),
            Errno::AFNOSUPPORT => {
                ("the kernel has no AF_XDP".to_owned(), "use a kernel with CONFIG_XDP_SOCKETS, or af_packet")
            }
            // The kernel's only reason for it there (net/xdp/xdp_umem.c).
            Errno::NOBUFS if self.step == REGISTERING => {
                let what = "packet memory beyond the limit on locked memory needs CAP_IPC_LOCK".to_owned();
                let fix =
                    format!("{}; or ulimit -l unlimited, or smaller rings with --ring", granting(AF_XDP));
                return Error::setup(port, what, fix);
            }
            Errno::NOBUFS | Errno::NOMEM => {
                ("the kernel has too little memory".to_owned(), "smaller rings with --ring, or fewer queues")
            }
            Errno::BUSY if binds => (
                format!("queue {queue} belongs to another AF_XDP socket"),
                "end the program that uses it, or use another interface",
            ),
            Errno::INVAL if binds => (
                format!("the interface does not use its queue {queue}"),
                "ask for fewer with --queues, or give it more: ethtool -L NAME combined N",
            ),
            Errno::OPNOTSUPP => {
                ("the interface's driver does not take AF_XDP sockets".to_owned(), "use af_packet")
            }
            Errno::INVAL | Errno::NOSYS => (
                format!("the kernel refuses {}", self.step),
                "Linux 5.9 or later is needed; or use af_packet",
            ),
            errno => {
                let source = io::Error::from(errno);
                return Error::System { port: port.to_owned(), doing: self.step, source };
            }
        };
        Error::setup(port, format!("{}: {what} ({})", self.step, self.source), fix)
    }
}
