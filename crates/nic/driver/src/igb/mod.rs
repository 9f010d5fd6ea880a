//! Intel 82576 with copper: the physical function. QEMU has it as `igb`.
//!
//! Written along the 82576 Gigabit Ethernet Controller Datasheet, revision 2.87;
//! section numbers refer to it. The queues, with offloads, RSS and counters, are
//! [`crate::intel`]'s; here is what differs from the 82599: bringing the chip up,
//! its PHY, its filters, its interrupts. Not here: fibre and backplane ports,
//! virtual functions, I350 and I210.

mod device;
mod facts;
mod filter;
mod init;
mod interrupt;
mod phy;
mod stats;
#[cfg(test)]
mod tests;

pub use crate::intel::{Completion, Options, Rss, RxQueue, Signal, TxQueue};
pub use device::Igb;

/// Whether the driver knows an Intel device by its PCI id.
pub fn knows(device: u16) -> bool {
    regs::igb::device(device).is_some()
}
