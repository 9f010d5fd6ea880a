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
use crate::tap::{self, TapPort};

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

/// Which interfaces a user may open in a way that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// All that there are.
    All,
    /// Those that were made for this user: `ip tuntap add … user`.
    Own,
}

impl Medium {
    /// All media, in the order of help texts.
    pub const ALL: [Medium; 3] = [Medium::AfXdp, Medium::AfPacket, Medium::Tap];

    /// What stands before the colon in a port's name.
    pub const fn prefix(self) -> &'static str {
        match self {
            Medium::AfXdp => "af_xdp",
            Medium::AfPacket => "af_packet",
            Medium::Tap => "tap",
        }
    }

    /// Tries what opening any interface this way begins with; nothing is left of it. Which
    /// interfaces this user may open then.
    ///
    /// # Errors
    /// What the kernel says to this user.
    pub fn try_out(self) -> io::Result<Allowed> {
        let socket = |family| socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None);
        match self {
            Medium::AfPacket => socket(AddressFamily::PACKET)?,
            Medium::AfXdp => socket(AddressFamily::XDP)?,
            Medium::Tap => rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?,
        };
        let allowed = self.allowed(rustix::thread::capabilities(None)?.effective);
        allowed.ok_or_else(|| Errno::PERM.into())
    }

    /// Which interfaces a process with these capabilities may open, beside what it takes to
    /// make a socket (`capabilities(7)`): none, when `None`.
    fn allowed(self, has: CapabilitySet) -> Option<Allowed> {
        let is_admin = has.contains(CapabilitySet::NET_ADMIN);
        // A program that takes packets off an interface is loaded (`bpf(2)`).
        let loads = has.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
        match self {
            Medium::AfPacket => Some(Allowed::All),
            Medium::AfXdp => (is_admin && loads).then_some(Allowed::All),
            Medium::Tap => Some(if is_admin { Allowed::All } else { Allowed::Own }),
        }
    }

    /// Whether what is to be opened this way is there; nothing is opened. A TAP interface that
    /// is not there is made.
    ///
    /// # Errors
    /// As [`open`](Medium::open) says it.
    pub fn look_for(self, interface: &str) -> Result<()> {
        let name = interface.split(',').next().unwrap_or(interface);
        match self {
            Medium::Tap => Ok(()),
            Medium::AfXdp | Medium::AfPacket => {
                Interface::open(&format!("{}:{interface}", self.prefix()), name).map(drop)
            }
        }
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

    /// The interface's name without what has it give segments longer than frames; `None` when it
    /// gives frames alone.
    pub fn with_segments(self, interface: &str) -> Option<&str> {
        let (name, suffix) = interface.split_once(',')?;
        (self == Medium::Tap && tap::is_long(suffix) == Ok(true)).then_some(name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tap_that_is_told_so_gives_long_segments() {
        for (medium, interface, name) in [
            (Medium::Tap, "t0,gso", Some("t0")),
            (Medium::Tap, "t0", None),
            (Medium::Tap, "t0,", None),
            (Medium::Tap, "gso", None),
            (Medium::AfPacket, "t0,gso", None),
        ] {
            assert_eq!(medium.with_segments(interface), name, "{interface}");
        }
        for wrong in ["t0,GSO", "t0,foo", "t0,gso,foo", "t0,gso2"] {
            assert_eq!(Medium::Tap.with_segments(wrong), None);
            let error = TapPort::open(wrong, &Options::default()).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(error.contains("nothing that a TAP interface can do"), "{wrong}: {error}");
        }
    }

    #[test]
    fn each_way_needs_its_capabilities() {
        let (none, admin) = (CapabilitySet::empty(), CapabilitySet::NET_ADMIN);
        for (has, xdp, tap) in [
            (none, None, Allowed::Own),
            (admin, None, Allowed::All),
            (CapabilitySet::BPF, None, Allowed::Own),
            (admin | CapabilitySet::BPF, Some(Allowed::All), Allowed::All),
            (admin | CapabilitySet::SYS_ADMIN, Some(Allowed::All), Allowed::All),
        ] {
            let allowed = Medium::ALL.map(|medium| medium.allowed(has));
            assert_eq!(allowed, [xdp, Some(Allowed::All), Some(tap)], "{has:?}");
        }
    }
}
