//! Intel 82599, X520, X540 and X550: the physical function.
//!
//! Written along the 82599 10 GbE Controller Datasheet, revision 3.4; section
//! numbers refer to it. Read [`init`](self) first, then `rx.rs` and `tx.rs` of
//! [`crate::intel`]: that is a complete driver. The other files add what one can
//! leave out: filters, RSS, offloads, fixed buffers, scattered receive, interrupts, statistics, timestamps.

mod device;
mod filter;
mod fixed;
pub mod host;
mod info;
mod init;
mod interrupt;
mod stats;
mod timestamps;

use crate::intel::{self, layout};
pub use device::Chip;
pub(crate) use device::link_of;
pub use fixed::join;
pub use intel::fixed::{FixedRing, Frame};

/// A port of the family.
pub type Ixgbe = intel::Port<Chip>;
/// Its receive queues.
pub type RxQueue = intel::RxQueue<layout::Rx82599>;
/// Its transmit queues.
pub type TxQueue = intel::TxQueue<layout::TxAdvanced>;

/// The driver's name.
pub const NAME: &str = "ixgbe";
/// Queues of each kind.
pub const MOST_QUEUES: usize = 128;
/// What it drives.
pub const DRIVES: &str = "Intel 82599, X520, X540, X550";

/// Whether the driver knows a device by its PCI ids.
pub fn knows(vendor: u16, device: u16) -> bool {
    vendor == regs::ixgbe::VENDOR_INTEL && regs::ixgbe::device(device).is_some()
}
