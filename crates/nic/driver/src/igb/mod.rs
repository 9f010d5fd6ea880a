//! Intel 82576 with copper: the physical function. QEMU has it as `igb`.
//!
//! Written along the 82576 Gigabit Ethernet Controller Datasheet, revision 2.87;
//! section numbers refer to it. The queues, with offloads, RSS and counters, are
//! [`crate::intel`]'s; here is what differs from the 82599: bringing the chip up,
//! its PHY, its filters, its interrupts. Not here: fibre and backplane ports,
//! hosting virtual functions, I350 and I210.

mod device;
mod filter;
mod info;
mod init;
mod interrupt;
mod phy;
mod stats;
#[cfg(test)]
pub(crate) mod tests;

use crate::intel::{self, layout};
pub use device::Chip;
pub(crate) use device::link_of;

/// A port of the chip.
pub type Igb = intel::Port<Chip>;
/// Its receive queues.
pub type RxQueue = intel::RxQueue<layout::Rx82576>;
/// Its transmit queues.
pub type TxQueue = intel::TxQueue<layout::TxAdvanced>;

/// The driver's name.
pub const NAME: &str = "igb";
/// Queues of each kind.
pub const MOST_QUEUES: usize = 16;
/// What it drives.
pub const DRIVES: &str = "Intel 82576";

/// Whether the driver knows a device by its PCI ids.
pub fn knows(vendor: u16, device: u16) -> bool {
    vendor == regs::ixgbe::VENDOR_INTEL && regs::igb::device(device).is_some()
}
