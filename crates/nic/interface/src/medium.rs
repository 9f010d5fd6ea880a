//! From a port's name to an interface of Linux's: what stands before the colon.

use std::io;

use memory::Dma;
use port::{Options, Port, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::CapabilitySet;

use crate::af_packet::AfPacketPort;
use crate::af_xdp::AfXdpPort;
use crate::link::Interface;
use crate::tap::TapPort;

/// Queues that sockets of an interface are made for: as many as the largest router
/// has threads.
pub(crate) const MOST_QUEUES: usize = 64;
/// Queue pairs that an interface may be asked for; how many it has, it says itself.
const MOST_PAIRS: usize = 1024;

/// How many queue pairs are asked for.
pub(crate) fn queue_pairs(options: &Options) -> Result<usize> {
    Ok(options.queue_pairs(MOST_PAIRS, "an interface is opened with 1 to 1,024")?)
}

/// A way to a network interface of Linux's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// `af_xdp:NAME[,generic][,copy]`, see [`crate::af_xdp`].
    AfXdp,
    /// `af_packet:NAME`, see [`crate::af_packet`].
    AfPacket,
    /// `tap:NAME`, see [`crate::tap`].
    Tap,
}

impl Medium {
    /// All of them.
    pub const ALL: [Medium; 3] = [Medium::AfXdp, Medium::AfPacket, Medium::Tap];

    /// What stands before the colon in a port's name.
    pub const fn prefix(self) -> &'static str {
        match self {
            Medium::AfXdp => "af_xdp",
            Medium::AfPacket => "af_packet",
            Medium::Tap => "tap",
        }
    }

    /// Tries what opening any interface this way begins with; nothing is left of it.
    ///
    /// # Errors
    /// What the kernel says to this user.
    pub fn try_out(self) -> io::Result<()> {
        let socket = |family| socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None);
        match self {
            Medium::AfPacket => socket(AddressFamily::PACKET)?,
            Medium::AfXdp => socket(AddressFamily::XDP)?,
            Medium::Tap => rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?,
        };
        // Packet sockets need no more than that of which they are made.
        let may = rustix::thread::capabilities(None)?.effective.contains(CapabilitySet::NET_ADMIN);
        if self == Medium::AfPacket || may { Ok(()) } else { Err(Errno::PERM.into()) }
    }

    /// The most queues that an interface can be opened with.
    pub fn most_queues(self, interface: &str) -> usize {
        let name = interface.split(',').next().unwrap_or(interface);
        let state = || Interface::open(interface, name).ok().map(|(_, state)| state);
        match self {
            Medium::AfPacket => MOST_QUEUES,
            Medium::AfXdp => state().map_or(1, |state| state.rx_queues.max(state.tx_queues)),
            // One that is not there is made.
            Medium::Tap => state().map_or(MOST_QUEUES, |state| state.rx_queues),
        }
    }

    /// Opens an interface this way.
    ///
    /// # Errors
    /// As the kind's port says.
    pub fn open(self, interface: &str, dma: &Dma, options: &Options) -> Result<Box<dyn Port>> {
        Ok(match self {
            Medium::Tap => Box::new(TapPort::open(interface, options)?),
            Medium::AfPacket => Box::new(AfPacketPort::open(interface, options)?),
            Medium::AfXdp => Box::new(AfXdpPort::open(interface, dma, options)?),
        })
    }
}
