//! Intel 82599, X520, X540 and X550: the physical function.
//!
//! Written along the 82599 10 GbE Controller Datasheet, revision 3.4; section
//! numbers refer to it. Read [`init`](self) first, then `rx.rs` and `tx.rs`:
//! that is a complete driver. The other files add what one can leave out:
//! filters, RSS, offloads, scattered receive, interrupts, statistics.

mod device;
mod filter;
mod init;
mod interrupt;
mod layout;
mod offload;
mod options;
mod quiet;
mod rss;
mod rx;
mod scatter;
mod stats;
mod tx;
mod writeback;

pub use device::Ixgbe;
pub use interrupt::Signal;
pub use options::{Completion, Options};
pub use rss::Rss;
pub use rx::RxQueue;
pub use tx::TxQueue;

/// Whether the driver knows an Intel device by its PCI id.
pub fn knows(device: u16) -> bool {
    regs::ixgbe::device(device).is_some()
}
