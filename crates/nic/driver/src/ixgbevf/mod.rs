//! Virtual functions of the 82599 and its successors: 82599 datasheet rev. 3.4, sections 7.10 and
//! 8.3, and the messages of [`regs::ixgbevf::message`].
//!
//! Rings, descriptors and interrupts are the 82599's, by registers of the function's own, and what
//! belongs to the port is asked for through the mailbox (`crate::intel::vf`). The hash's key
//! and table are the port's, and all virtual functions have them alike. Frames with a tag come only
//! of VLANs that were asked for. Not here: traffic classes, IPsec, and the X550's own key and table.

mod agreement;
mod function;
mod info;

use crate::intel::{self, layout};
pub use crate::vf_fault::VfFault;
pub use function::Function;

/// A virtual function.
pub type Chip = intel::vf::Chip<Function>;

/// A virtual function's port.
pub type Ixgbevf = intel::Port<Chip>;
/// Its receive queues.
pub type RxQueue = intel::RxQueue<layout::Rx82599>;
/// Its transmit queues.
pub type TxQueue = intel::TxQueue<layout::TxAdvanced>;

/// The driver's name.
pub const NAME: &str = "ixgbevf";
/// Queues of each kind: as many as flows are spread over.
pub const MOST_QUEUES: usize = 4;
/// What it drives.
pub const DRIVES: &str = "virtual functions of Intel 82599, X520, X540, X550 and X552";

/// Whether the driver knows a device by its PCI ids.
pub fn knows(vendor: u16, device: u16) -> bool {
    regs::ixgbevf::knows(vendor, device)
}
