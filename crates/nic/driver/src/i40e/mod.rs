//! Intel XL710, X710, XXV710 and X722: 40, 25 and 10 Gbit/s, brought up by commands to the chip's
//! firmware.
//!
//! Written along the datasheet, Intel's document 332464, cited by chapters, and the drivers
//! of Linux, FreeBSD and DPDK where they agree. The queues, with offloads and scatter, are
//! [`crate::intel`]'s; here is what differs: the admin queue, contexts of queues in host
//! memory, filters by commands, counters that do not clear. Virtual functions are served by
//! [`host`]; what an X722 has in another way is in `generation`. Not here: VMDq, tunnels, RDMA.

pub(crate) mod admin;
mod context;
mod device;
mod fault;
mod filter;
mod firmware;
mod flow;
pub(crate) mod generation;
mod hash;
pub mod host;
mod info;
mod init;
mod interrupt;
mod layout;
mod link;
mod nvm;
mod stats;
mod timestamps;

use crate::intel;
pub use device::Chip;
pub use fault::I40eFault;
pub use firmware::Firmware;
pub use layout::{RxXl710, RxXl710Long, TxXl710};

/// A port of the family.
pub type I40e = intel::Port<Chip>;
/// Its receive queues.
pub type RxQueue = intel::RxQueue<layout::RxXl710>;
/// Its transmit queues.
pub type TxQueue = intel::TxQueue<layout::TxXl710>;

/// The driver's name.
pub const NAME: &str = "i40e";
/// Queues of each kind: as many as one traffic class spreads flows over.
pub const MOST_QUEUES: usize = 64;
/// What it drives.
pub const DRIVES: &str = "Intel XL710, X710, XXV710, X722";

/// Whether the driver knows a device by its PCI ids.
pub fn knows(vendor: u16, device: u16) -> bool {
    vendor == regs::i40e::VENDOR_INTEL && regs::i40e::device(device).is_some()
}
