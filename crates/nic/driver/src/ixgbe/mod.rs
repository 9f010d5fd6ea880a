//! Intel 82599, X520, X540 and X550: the physical function.
//!
//! Written along the 82599 10 GbE Controller Datasheet, revision 3.4; section
//! numbers refer to it. Read [`init`](self) first, then `rx.rs` and `tx.rs` of
//! [`crate::intel`]: that is a complete driver. The other files add what one can
//! leave out: filters, RSS, offloads, scattered receive, interrupts, statistics.

mod device;
mod facts;
mod filter;
mod init;
mod interrupt;
mod stats;

pub use crate::intel::{Completion, Options, Rss, RxQueue, Signal, TxQueue};
pub use device::Ixgbe;

/// Whether the driver knows an Intel device by its PCI id.
pub fn knows(device: u16) -> bool {
    regs::ixgbe::device(device).is_some()
}
