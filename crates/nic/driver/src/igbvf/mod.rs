//! Virtual functions of Intel's 82576: its datasheet, revision 2.87, section 8.26, and the messages of
//! [`regs::igbvf::message`]. QEMU has them behind its `igb`.
//!
//! Rings and descriptors are the 82576's, by registers of the function's own, and what belongs to the
//! port is asked for through the mailbox (`crate::intel::vf`). Whether checksums of received frames are
//! looked at is the port's, and so is whether a tag is taken out: Linux's igb has it done once a VLAN is
//! chosen, and the packet tells the tag. Not here: the second pair of queues, over which no host spreads
//! flows, and the I350's virtual functions.

mod function;
mod info;

use crate::intel::{self, layout};
pub use crate::vf_fault::Fault;
pub use function::Function;

/// A virtual function.
pub type Chip = intel::vf::Chip<Function>;
/// A virtual function's port.
pub type Igbvf = intel::Port<Chip>;
/// Its receive queue.
pub type RxQueue = intel::RxQueue<layout::Rx82576>;
/// Its transmit queue.
pub type TxQueue = intel::TxQueue<layout::TxAdvanced>;

/// The driver's name.
pub const NAME: &str = "igbvf";
/// Queues of each kind.
pub const MOST_QUEUES: usize = 1;
/// What it drives.
pub const DRIVES: &str = "virtual functions of Intel 82576";

/// Whether the driver knows a device by its PCI ids.
pub fn knows(vendor: u16, device: u16) -> bool {
    regs::igbvf::knows(vendor, device)
}
