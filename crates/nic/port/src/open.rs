//! From a PCI device to a port: the driver that knows its ids, with the options
//! that all drivers share; and from a name to an interface of Linux's.

use bus::Pci;
use driver::{Error, ixgbe, virtio};
use memory::Dma;

use crate::af_packet::AfPacketPort;
use crate::af_xdp::AfXdpPort;
use crate::interface::Interface;
use crate::tap::TapPort;
use crate::virtio::VirtioPort;
use crate::{Port, Result};

/// Queues that sockets of an interface are made for: as many as the largest router
/// has threads.
const MOST_QUEUES: usize = 64;

/// How a port is opened, whatever drives it. Where a driver has more to choose,
/// it has options of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Pairs of a receive and a transmit queue.
    pub queues: usize,
    /// Entries of each receive ring, a power of two from 64 to 4096. A virtio
    /// device may have fewer.
    pub rx_ring: usize,
    /// Entries of each transmit ring, likewise.
    pub tx_ring: usize,
    /// Largest frame in bytes, without CRC and VLAN tag.
    pub max_frame: usize,
    /// Receive everything, not only what is addressed to the port.
    pub promiscuous: bool,
    /// Wire each receive queue's interrupt to an eventfd.
    pub interrupts: bool,
    /// Have Intel's NICs report sent packets by their head index in memory.
    pub head_writeback: bool,
    /// Let virtio devices verify and fill in checksums, which costs a look at
    /// each packet's header. Intel's NICs do so in any case.
    pub checksums: bool,
    /// Wait this long for a link when opening; zero does not wait.
    pub link_wait_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            queues: 1,
            rx_ring: 512,
            tx_ring: 512,
            max_frame: 1514,
            promiscuous: true,
            interrupts: false,
            head_writeback: false,
            checksums: false,
            link_wait_ms: 0,
        }
    }
}

impl Options {
    /// For Intel's NICs.
    pub fn intel(&self) -> ixgbe::Options {
        ixgbe::Options {
            rx_queues: self.queues,
            tx_queues: self.queues,
            rx_ring: self.rx_ring,
            tx_ring: self.tx_ring,
            max_frame: self.max_frame,
            promiscuous: self.promiscuous,
            interrupts: self.interrupts,
            completion: match self.head_writeback {
                true => ixgbe::Completion::Head,
                false => ixgbe::Completion::Report,
            },
            link_wait_ms: self.link_wait_ms,
            ..ixgbe::Options::default()
        }
    }

    /// For virtio devices, on PCI or behind vhost-user.
    pub fn virtio(&self) -> virtio::Options {
        virtio::Options {
            queue_pairs: self.queues,
            rx_ring: self.rx_ring,
            tx_ring: self.tx_ring,
            max_frame: self.max_frame,
            promiscuous: self.promiscuous,
            interrupts: self.interrupts,
            rx_checksum: self.checksums,
            tx_checksum: self.checksums,
            ..virtio::Options::default()
        }
    }
}

/// Opens a device with the driver that knows its PCI ids.
///
/// # Errors
/// [`driver::Error::UnknownDevice`] when none does; else what the driver says.
pub fn open(pci: Pci, dma: &Dma, options: &Options) -> Result<Box<dyn Port>> {
    let ids = pci.ids().map_err(Error::from)?;
    if virtio::knows(ids.vendor, ids.device) {
        return Ok(Box::new(VirtioPort::open(pci, dma, options.virtio())?));
    }
    if ids.vendor == regs::ixgbe::VENDOR_INTEL {
        return crate::intel::open(pci, dma, options.intel());
    }
    let known =
        "this build drives Intel 82599, X520, X540, X550 (ixgbe), 82576 (igb) and virtio network devices";
    Err(Error::UnknownDevice { device: pci.name(), vendor: ids.vendor, id: ids.device, known }.into())
}

/// A way to a network interface of Linux's: what stands before the colon in a
/// port's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `tap:NAME`, see [`crate::tap`].
    Tap,
    /// `af_packet:NAME`, see [`crate::af_packet`].
    AfPacket,
    /// `af_xdp:NAME[,generic][,copy]`, see [`crate::af_xdp`].
    AfXdp,
}

impl Kind {
    /// Takes a port's name apart, into the way and the interface; `None` when it is
    /// no interface's.
    pub fn of(name: &str) -> Option<(Kind, &str)> {
        let (way, interface) = name.split_once(':')?;
        let kind = match way {
            "tap" => Kind::Tap,
            "af_packet" => Kind::AfPacket,
            "af_xdp" => Kind::AfXdp,
            _ => return None,
        };
        (!interface.is_empty()).then_some((kind, interface))
    }

    /// The most queues that an interface can be opened with.
    pub fn most_queues(self, interface: &str) -> usize {
        let name = interface.split(',').next().unwrap_or(interface);
        let state = || Interface::open(interface, name).ok().map(|(_, state)| state);
        match self {
            Kind::AfPacket => MOST_QUEUES,
            Kind::AfXdp => state().map_or(1, |state| state.rx_queues.max(state.tx_queues)),
            // One that is not there is made.
            Kind::Tap => state().map_or(MOST_QUEUES, |state| state.rx_queues),
        }
    }

    /// Opens an interface this way.
    ///
    /// # Errors
    /// As the kind's port says.
    pub fn open(self, interface: &str, dma: &Dma, options: &Options) -> Result<Box<dyn Port>> {
        Ok(match self {
            Kind::Tap => Box::new(TapPort::open(interface, options)?),
            Kind::AfPacket => Box::new(AfPacketPort::open(interface, options)?),
            Kind::AfXdp => Box::new(AfXdpPort::open(interface, dma, options)?),
        })
    }
}
