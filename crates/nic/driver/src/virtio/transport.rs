//! The way to a virtio device (virtio 1.3, section 4): what the driver asks of
//! it, whether the device sits on PCI ([`Modern`], [`Legacy`]) or in another
//! process. Nothing here is called for each packet, and only [`Doorbell::ring`]
//! for each batch.

mod legacy;
mod modern;
mod vhost_user;

pub use legacy::Legacy;
pub use modern::Modern;
pub use vhost_user::VhostUser;

use std::os::fd::OwnedFd;

use bus::{Addressing, Bar, Pci};
use regs::virtio::device::status;

use crate::Result;

/// Where a virtqueue's areas lie, as the device sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Areas {
    /// Entries, as agreed with [`Transport::queue_size`].
    pub size: u16,
    /// Descriptor table, or the packed ring.
    pub descriptors: u64,
    /// Driver area: available ring, or the driver's event suppression.
    pub driver: u64,
    /// Device area: used ring, or the device's event suppression.
    pub device: u64,
    /// The interrupt vector for used buffers, if wanted.
    pub vector: Option<u16>,
}

/// A way to a device. All of it is set-up and supervision.
pub trait Transport: Send + Sync {
    /// The device that reaches memory and whose interrupts are wired; its name
    /// is the port's.
    fn pci(&self) -> &Pci;

    /// Whether this is the legacy interface: features of 32 bits, no
    /// FEATURES_OK, ring sizes and layout as the device fixed them.
    fn is_legacy(&self) -> bool {
        false
    }

    /// Whether the device must offer ACCESS_PLATFORM to be driven: it sees
    /// addresses of our choice only if it goes through the IOMMU that
    /// translates them, and would else write into memory at random.
    fn needs_translation(&self) -> bool {
        self.pci().addressing() == Addressing::Virtual
    }

    /// The features the device offers.
    fn features(&self) -> Result<u64>;

    /// Tells the device which of them the driver takes.
    fn accept(&self, features: u64) -> Result<()>;

    /// The device status (2.1). A device that is gone reads as zero or all ones.
    fn status(&self) -> u8;

    /// Sets the device status; bits only ever are added.
    fn set_status(&self, status: u8) -> Result<()>;

    /// Resets the device and waits until it is done: it accesses no queue any
    /// more.
    fn reset(&self) -> Result<()>;

    /// The most entries of a queue, or the number itself where it is fixed
    /// ([`Transport::is_legacy`]); zero when the device has no such queue.
    fn queue_size(&self, queue: u16) -> u16;

    /// Hands a queue to the device, before DRIVER_OK.
    fn start_queue(&self, queue: u16, areas: &Areas) -> Result<Doorbell>;

    /// Takes one queue back while the others go on. `false` when that is not
    /// possible: its memory stays with the device until a reset.
    fn stop_queue(&self, queue: u16) -> bool {
        let _ = queue;
        false
    }

    /// Reads the device's configuration; what is not there reads as zero.
    fn read_config(&self, offset: u32, data: &mut [u8]);

    /// A number that changes with the configuration; constant where there is
    /// none.
    fn generation(&self) -> u32 {
        0
    }

    /// Queue pairs the device has, where that is not in its configuration.
    fn max_queue_pairs(&self) -> Option<u16> {
        None
    }

    /// Uses the first `pairs` pairs, where that needs no control queue; `None`
    /// where it does.
    fn set_queue_pairs(&self, pairs: u16) -> Option<Result<()>> {
        let _ = pairs;
        None
    }

    /// Interrupt vectors that queues can be wired to.
    fn vectors(&self) -> u16 {
        self.pci().interrupt_vectors()
    }

    /// An error once the way to the device is cut.
    fn health(&self) -> Result<()> {
        Ok(self.pci().health()?)
    }
}

/// What the status looks like once the driver is ready.
pub(super) const READY: u8 = status::ACKNOWLEDGE | status::DRIVER | status::DRIVER_OK;

/// Tells the device that a queue has buffers for it (2.9: available buffer
/// notifications).
#[derive(Debug)]
pub struct Doorbell(TransportKind);

#[derive(Debug)]
enum TransportKind {
    /// A 16-bit register takes the queue's number.
    Register { bar: Bar, offset: u32, queue: u16 },
    /// An eventfd that the other process waits for.
    Event(OwnedFd),
}

impl Doorbell {
    /// A register of 16 bits that takes the queue's number (4.1.5.2).
    pub fn register(bar: Bar, offset: u32, queue: u16) -> Doorbell {
        Doorbell(TransportKind::Register { bar, offset, queue })
    }

    /// An eventfd, as vhost and vhost-user have it.
    pub fn event(event: OwnedFd) -> Doorbell {
        Doorbell(TransportKind::Event(event))
    }

    /// Notifies the device. The ring was published before.
    #[inline]
    pub fn ring(&self) {
        match &self.0 {
            TransportKind::Register { bar, offset, queue } => bar.write16(*offset, *queue),
            // Not a write, which the device's process could let wait. An error is that
            // the device is gone, which `health` tells.
            TransportKind::Event(event) => {
                let _ = bus::eventfd::signal(event);
            }
        }
    }
}
