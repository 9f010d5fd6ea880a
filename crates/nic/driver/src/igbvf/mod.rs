//! Virtual functions of Intel's 82576: its datasheet, revision 2.87, section 8.26, and the messages of
//! [`regs::igbvf::message`]; and those of the I350, which the drivers of Linux and DPDK drive in the same
//! way. QEMU has the 82576's behind its `igb`.
//!
//! Rings and descriptors are the 82576's, by registers of the function's own, and what belongs to the
//! port is asked for through the mailbox (`crate::intel::vf`). Whether checksums of received frames are
//! looked at is the port's, and so is whether a tag is taken out: Linux's igb has it done once a VLAN is
//! chosen, and the packet tells the tag. Not here: the second pair of queues, over which no host spreads
//! flows.

mod function;
mod info;

use bus::Pci;
use memory::Dma;
use port::Options;

use crate::Result;
use crate::intel::{self, layout};
pub use crate::vf_fault::VfFault;
pub use function::{Function, I350, I82576, Model};

/// A virtual function of a chip.
pub type Chip<M> = intel::vf::Chip<Function<M>>;
/// The port of a virtual function of a chip.
pub type PortOf<M> = intel::Port<Chip<M>>;
/// That of an 82576's.
pub type Igbvf = PortOf<I82576>;
/// Its receive queue.
pub type RxQueue = intel::RxQueue<layout::Rx82576>;
/// Its transmit queue.
pub type TxQueue = intel::TxQueue<layout::TxAdvanced>;

/// The driver's name.
pub const NAME: &str = "igbvf";
/// Queues of each kind.
pub const MOST_QUEUES: usize = 1;
/// What it drives.
pub const DRIVES: &str = "virtual functions of Intel 82576, I350";

/// Whether the driver knows a device by its PCI ids.
pub fn knows(vendor: u16, device: u16) -> bool {
    let known = [regs::igbvf::DEVICE, regs::igbvf::DEVICE_I350];
    known.into_iter().any(|id| regs::igbvf::knows(vendor, device, id))
}

/// Resets a virtual function of either chip and brings it up.
///
/// # Errors
/// Those of [`intel::Port::open`].
pub fn open(pci: Pci, dma: &Dma, options: Options) -> Result<Box<dyn port::Port>> {
    let ids = pci.ids()?;
    match ids.device {
        regs::igbvf::DEVICE_I350 => Ok(Box::new(PortOf::<I350>::open(pci, dma, options)?)),
        _ => Ok(Box::new(Igbvf::open(pci, dma, options)?)),
    }
}
