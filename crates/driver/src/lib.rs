//! Drivers: what stands between a ring of descriptors and an application.
//!
//! A driver opens a [`bus::Pci`] device, brings it up in the order its datasheet
//! asks for, and hands out queues. Each queue is one object used by one thread;
//! the device itself ([`ixgbe::Ixgbe`]) keeps what is shared: link, filters,
//! statistics, shutdown. Every wait has a limit, and an error names the register
//! and the last value read.

mod error;
pub mod igb;
pub mod intel;
pub mod ixgbe;
mod prefetch;
mod ring;
mod stats;
pub mod virtio;
mod wait;

pub use error::{Error, Result};
pub use stats::{Counter, RxStats, TxStats};
