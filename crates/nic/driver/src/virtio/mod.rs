//! The network device of virtio (OASIS virtio 1.3, sections 2, 4.1 and 5.1):
//! legacy, transitional and modern devices on PCI, and back ends of vhost-user.
//!
//! [`Virtio::open`] brings a device up and hands out queues over split or packed
//! rings, whichever the device has. The header that stands in front of each
//! packet lives in the packet's headroom. Which features are taken, and why, is
//! one table in `features`. A device is not trusted: what it returns is checked
//! against what it was given, and its first violation stops the queue and is told by
//! [`port::Port::health`].
//!
//! Modules import in one direction: rings (`ring`, `split`, `packed`) and `transport`, then
//! `shared`, the queues (`rx`, `tx`, `queue`), `device`, and above it `modes` and `init`.
//!
//! Not here: receive offloads that merge segments, migration, and the counters
//! that virtio 1.3 lets a device keep.

mod checksum;
mod config;
mod control;
mod device;
mod fault;
mod features;
mod header;
mod headers;
mod init;
mod interrupt;
mod merge;
mod modes;
mod packed;
mod queue;
mod ring;
mod rx;
mod shared;
mod slots;
mod split;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
pub mod transport;
mod tx;

pub use device::Virtio;
pub use fault::VirtioFault;
pub use queue::{RxQueue, TxQueue};

/// The driver's name.
pub const NAME: &str = "virtio";
/// Queue pairs that it opens a device with at most.
pub const MOST_QUEUES: usize = device::MAX_PAIRS;
/// What it drives.
pub const DRIVES: &str = "virtio network devices (1af4:1000, 1af4:1041)";

/// Whether a PCI device is one that this driver knows.
pub fn knows(vendor: u16, device: u16) -> bool {
    vendor == regs::virtio::device::VENDOR && regs::virtio::device::is_net(device)
}
