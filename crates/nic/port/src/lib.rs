//! What an application sees of any NIC: queues that give and take batches.
//!
//! A [`Port`] hands out its receive and transmit queues once each; a queue
//! belongs to the one thread that holds it (`Send`, used through `&mut`). One
//! virtual call moves a whole batch, so the trait costs nothing per packet.
//! Buffers come from the [`Pool`] that the calling thread owns and passes in:
//! nothing is allocated behind the application's back, and no queue holds a
//! lock.
//!
//! The traits stand below the drivers, which implement them: `driver` for NICs,
//! `interface` for what Linux has, `ports` to open either by name. [`Options`] are
//! what can be asked of a port when it is opened ([`setting`] names them for users),
//! [`Capabilities`] what it can do, [`PortStats`] what it counted; every counted loss
//! names its [`Reason`].
#![forbid(unsafe_code)]

mod capability;
mod encap;
mod error;
mod filters;
mod flow;
pub mod loss;
mod options;
mod rss;
pub mod setting;
pub mod software;
mod stats;

pub use capability::{Capabilities, Feature, Features, Limits, Offers, Support};
pub use encap::{EncapHeaders, EncapLayer, EncapLimits, EncapNetwork, EncapOffload, EncapPatch};
pub use error::{Error, OptionError, Result};
pub use filters::Filters;
pub use flow::{Flow, FlowTarget, Transport};
pub use loss::Reason;
pub use memory::{Batch, Packet, Pool};
pub use options::{Completion, Offload, Options, Rss, VirtioInterface, VirtioOptions};
pub use rss::FlowTable;
pub use stats::{Counter, PortStats, RxStats, TxStats};

use std::any::Any;
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
    /// polling is the only way. Poll the ring once more after arming: a packet
    /// that came before does not signal again.
    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ends what [`arm`](Self::arm) began: the loop polls again.
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
    /// What keeps it down, where the device knows.
    pub down_reason: Option<LinkDownReason>,
}

/// What keeps a link down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkDownReason {
    /// Nothing is plugged in: no module, or no cable where there is no cage.
    NoMedium,
    /// What is in the cage is nothing that the card's firmware takes.
    UnqualifiedModule,
}

impl fmt::Display for LinkDownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkDownReason::NoMedium => "nothing is plugged in",
            LinkDownReason::UnqualifiedModule => "the module is not qualified",
        })
    }
}

impl Link {
    /// No frame can pass.
    pub const DOWN: Link = Link { up: false, speed_mbps: 0, down_reason: None };

    /// Frames can pass at this speed, in Mbit/s; zero where it is not known.
    pub fn up(speed_mbps: u32) -> Link {
        Link { up: true, speed_mbps, down_reason: None }
    }

    /// What can be done about one that is down.
    pub fn advice(self) -> &'static str {
        match self.down_reason {
            None => "check cable and peer",
            Some(LinkDownReason::NoMedium) => "nothing is plugged in: plug a module in, or a cable",
            Some(LinkDownReason::UnqualifiedModule) => {
                "the card's firmware does not take the module: use one that the card's vendor lists"
            }
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.up, self.speed_mbps) {
            (false, _) => match self.down_reason {
                None => f.write_str("down"),
                Some(down_reason) => write!(f, "down, {down_reason}"),
            },
            (true, 0) => f.write_str("up"),
            (true, mbps) if mbps % 1000 == 0 => write!(f, "up, {} Gbit/s", mbps / 1000),
            (true, mbps) => write!(f, "up, {mbps} Mbit/s"),
        }
    }
}

/// A network interface of any kind. What only one driver's ports can do, that driver asks
/// of the port as its own type (`Any`).
pub trait Port: Send + Any {
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
    /// Which receive queue a flow comes to; `None` where the device does not say.
    fn flows(&self) -> Option<FlowTable> {
        None
    }
    /// Whether packets of a flow keep to one queue, by a table or by a hash of their own. Otherwise
    /// they come to the queue by which the last one was sent to their sender, once one was.
    fn keeps_flows(&self) -> bool {
        true
    }
    /// Has entries of the table by which flows are spread ([`FlowTable::entry`]), each given
    /// with its queue, name other queues while packets come. Of packets that come about now it
    /// is not known which queue they come to.
    ///
    /// # Errors
    /// Of a port without [`Feature::RssTable`]; and when there is no such entry or queue, or the
    /// device refuses. Nothing is changed if any of the entries is wrong.
    fn set_flow_queues(&mut self, _changes: &[(usize, usize)]) -> Result<()> {
        let operation = "changing which queue a flow comes to";
        Err(Error::Unsupported { port: self.name().to_owned(), operation })
    }
    /// Its filter tables, if it has some.
    fn filters(&mut self) -> Option<&mut dyn Filters> {
        None
    }
    /// Its table of tunnels' headers, once, if it has one.
    fn encap_offload(&mut self) -> Option<Box<dyn EncapOffload>> {
        None
    }
    /// An error once the device is lost (unplugged, its server gone), and as long as somebody has
    /// taken it down ([`Error::Down`]): it may come back from that.
    fn health(&self) -> Result<()> {
        Ok(())
    }
    /// Receives from here on, where that waited for it ([`Options::deferred_start`]). Nothing changes
    /// for a port that receives. After a [`stop`](Port::stop) Intel's physical functions and virtio
    /// devices go on; other ports are opened again.
    ///
    /// # Errors
    /// When the device refuses: it does not receive.
    fn start(&mut self) -> Result<()> {
        Ok(())
    }
    /// Stops receiving: what comes from the wire goes nowhere from then on. What
    /// was received stays in the rings, and sending goes on. Dropping the port
    /// and its queues ends all DMA.
    fn stop(&mut self) -> Result<()>;
}
