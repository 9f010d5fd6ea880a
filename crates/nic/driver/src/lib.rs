//! Drivers: what stands between a ring of descriptors and an application.
//!
//! A driver opens a [`bus::Pci`] device and brings it up in the order its datasheet
//! asks for. It implements [`port::Port`] and the queues' traits itself: each queue
//! is one object used by one thread, the port ([`ixgbe::Ixgbe`]) keeps what is
//! shared: link, filters, statistics, shutdown. Every wait has a limit, and an error
//! names the register and the last value read.

mod error;
pub mod igb;
pub mod igbvf;
mod prefetch;
mod vf_fault;
pub mod vf_host;
pub mod virtio;

#[cfg(not(feature = "seeded-bugs"))]
pub mod i40e;
#[cfg(not(feature = "seeded-bugs"))]
pub mod iavf;
#[cfg(not(feature = "seeded-bugs"))]
pub mod intel;
#[cfg(not(feature = "seeded-bugs"))]
pub mod ixgbe;
#[cfg(not(feature = "seeded-bugs"))]
pub mod ixgbevf;
#[cfg(not(feature = "seeded-bugs"))]
mod ring;
#[cfg(not(feature = "seeded-bugs"))]
mod wait;
mod words;

// For `cargo xtask mutants` only: these modules with mistakes to choose from.
#[cfg(feature = "seeded-bugs")]
include!(concat!(env!("OUT_DIR"), "/drivers.rs"));

pub use error::{Error, Result};
