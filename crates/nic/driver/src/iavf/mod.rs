//! Virtual functions of Intel's XL710 and of what followed it, by the messages that the driver of
//! their physical function answers: ours ([`crate::i40e::host`]), Linux's, or DPDK's.
//!
//! Written along Intel's Adaptive Virtual Function specification (document 331954) and the
//! drivers of Linux and DPDK where they agree. Queues are [`crate::intel`]'s with the XL710's
//! descriptors, the mailbox is the XL710's admin queue. What the physical function tells is
//! hostile: bounded, and refused by name. Not here: flexible descriptors, channels, RDMA.

mod device;
mod filter;
mod info;
mod init;
mod mailbox;

use crate::i40e::{RxXl710Long, TxXl710};
use crate::intel;
pub use crate::vf_fault::VfFault;
pub use device::Chip;

/// A port that is a virtual function.
pub type Iavf = intel::Port<Chip>;
/// Its receive queues.
pub type RxQueue = intel::RxQueue<RxXl710Long>;
/// Its transmit queues.
pub type TxQueue = intel::TxQueue<TxXl710>;

/// The driver's name.
pub const NAME: &str = "iavf";
/// Queues of each kind.
pub const MOST_QUEUES: usize = regs::iavf::QUEUES;
/// What it drives.
pub const DRIVES: &str = "virtual functions of Intel XL710, X710, XXV710, X722 and later";

/// Whether the driver knows a device by its PCI ids.
pub fn knows(vendor: u16, device: u16) -> bool {
    regs::iavf::knows(vendor, device)
}
