//! What an application sees of any NIC: queues that give and take batches.
//!
//! A [`Port`] hands out its receive and transmit queues once each; a queue
//! belongs to the one thread that holds it (`Send`, used through `&mut`). One
//! virtual call moves a whole batch, so the trait costs nothing per packet.
//! Buffers come from the [`Pool`] that the calling thread owns and passes in:
//! nothing is allocated behind the application's back, and no queue holds a
//! lock. Losses are counted where they happen and reported by name
//! ([`PortStats`]).
//!
//! Unsafe code is where memory or an option is shared with the kernel, and there
//! alone: `shared`, and the modules that say so in front.
#![deny(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
mod books;
mod checksum;
mod frame;
pub mod igb;
pub mod intel;
mod interface;
pub mod ixgbe;
mod open;
pub mod pcap;
mod shared;
mod stats;
pub mod tap;
pub mod tun;
pub mod virtio;

pub use driver::{Counter, RxStats, TxStats};
pub use memory::{Batch, Packet, Pool};
pub use open::{Kind, Options, open};
pub use stats::PortStats;

use std::fmt;
use std::os::fd::BorrowedFd;

/// A receive queue, owned by one thread.
pub trait RxQueue: Send {
    /// Appends received packets to `batch`, at most [`Batch::room`] of them,
    /// and refills the ring from `pool`, also when there is no room at all.
    /// Returns how many were appended; zero means nothing was there. Never blocks.
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize;

    /// What this queue counted since it was opened.
    fn stats(&self) -> RxStats;

    /// Arms the queue's interrupt and returns the file descriptor that becomes
    /// readable with the next packet; `None` where there are no interrupts and
    /// polling is the only way. Poll the ring once more after arming.
    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ends what [`arm`](Self::arm) began.
    fn disarm(&mut self) {}
}

/// A transmit queue, owned by one thread.
pub trait TxQueue: Send {
    /// Takes packets from the front of `batch` and hands them to the device;
    /// what the ring has no room for stays in `batch`, in order. Buffers the
    /// device has finished with go back to `pool` (or to the pool they came
    /// from). Returns how many were taken. Never blocks.
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize;

    /// Returns finished buffers to `pool`; how many are still with the device.
    fn clean(&mut self, pool: &mut Pool) -> usize;

    /// What this queue counted since it was opened.
    fn stats(&self) -> TxStats;
}

/// The state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// Whether frames can pass.
    pub up: bool,
    /// Speed in Mbit/s; zero when the link is down or the port has none.
    pub speed_mbps: u32,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.up, self.speed_mbps) {
            (false, _) => f.write_str("down"),
            (true, 0) => f.write_str("up"),
            (true, mbps) if mbps % 1000 == 0 => write!(f, "up, {} Gbit/s", mbps / 1000),
            (true, mbps) => write!(f, "up, {mbps} Mbit/s"),
        }
    }
}

/// What a port can do, so that an application can ask before it relies on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// The driver or medium: `ixgbe`, `pcap`, …
    pub driver: String,
    /// Receive queues that were opened.
    pub rx_queues: usize,
    /// Transmit queues that were opened.
    pub tx_queues: usize,
    /// Largest frame in bytes, without CRC, that can be received and sent.
    pub max_frame: usize,
    /// The port delivers checksum verdicts with received packets.
    pub rx_checksum: bool,
    /// The port fills in checksums on request.
    pub tx_checksum: bool,
    /// The port strips and inserts VLAN tags.
    pub vlan: bool,
    /// The port spreads flows over queues and delivers the hash.
    pub rss: bool,
    /// The port sends and receives frames in several buffers.
    pub scatter: bool,
    /// The port can wake a sleeping thread.
    pub interrupts: bool,
}

/// Why an operation on a port failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// {port}: {operation} is not supported by this kind of port
    #[error("{port}: {operation} is not supported by this kind of port")]
    Unsupported {
        /// The port's name.
        port: String,
        /// What was asked for.
        operation: &'static str,
    },
    /// The driver's own error.
    #[error(transparent)]
    Driver(#[from] driver::Error),
    /// {path}: {source}
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system or the format said.
        source: std::io::Error,
    },
    /// {port}: {what}: {fix}
    #[error("{port}: {what}: {fix}")]
    Setup {
        /// The port's name.
        port: String,
        /// What is wrong.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// {port}: {doing}: {source}
    #[error("{port}: {doing}: {source}")]
    System {
        /// The port's name.
        port: String,
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// {port}: {what}
    #[error("{port}: {what}")]
    Lost {
        /// The port's name.
        port: String,
        /// What became of it.
        what: &'static str,
    },
}

impl Error {
    /// A step of setting up that failed, and we know why.
    fn setup(port: &str, what: String, fix: impl Into<String>) -> Error {
        Error::Setup { port: port.to_owned(), what, fix: fix.into() }
    }
}

/// The result of an operation on a port.
pub type Result<T> = std::result::Result<T, Error>;

/// A network interface of any kind.
pub trait Port: Send {
    /// The name it was opened by: `0000:03:00.0`, `vfio-user:/path.sock`, ….
    fn name(&self) -> &str;
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// Its own address.
    fn mac(&self) -> [u8; 6];
    /// The link, as the device says now.
    fn link(&self) -> Link;
    /// Every counter of the device and of the driver, by name. Counters that
    /// the device clears on read are summed: a value never goes back.
    fn stats(&mut self) -> PortStats;
    /// The receive queue `index`, once: `None` if taken or never opened.
    fn rx_queue(&mut self, index: usize) -> Option<Box<dyn RxQueue>>;
    /// The transmit queue `index`, once: `None` if taken or never opened.
    fn tx_queue(&mut self, index: usize) -> Option<Box<dyn TxQueue>>;
    /// Receive every frame, whatever its destination.
    fn set_promiscuous(&mut self, on: bool) -> Result<()>;
    /// An error once the device is lost (unplugged, its server gone).
    fn health(&self) -> Result<()> {
        Ok(())
    }
    /// Stops receiving: what comes from the wire goes nowhere from then on. What
    /// was received stays in the rings, and sending goes on. Dropping the port
    /// and its queues ends all DMA.
    fn stop(&mut self) -> Result<()>;
}
