//! vhost-user: a virtio device whose two halves are processes joined by a unix
//! socket. The front end has the driver and the memory, the back end moves the
//! packets (DPDK's vhost, OVS-DPDK, VPP, or a model of ours).
//!
//! Here is the front end's half of the protocol (QEMU 10.0, "Vhost-user
//! Protocol"), and the socket that both halves listen on. [`Frontend`] is a
//! [`Backend`](crate::Backend) for DMA alone: memory mapped for it is what the
//! back end is told of. Not here: rings and features (the driver's), migration,
//! in-flight tracking, the back end's own requests, postcopy.
//!
//! Crate `vhost` has a front end, too. It waits for a silent back end for ever
//! (a time-out of the socket is retried) and its ring base has 16 bits, which
//! leaves out a packed ring's used position; so ours is its own, and that crate
//! the opposite side in the tests.

mod frontend;
mod listener;
mod memory;
pub mod message;

#[doc(hidden)]
pub use frontend::feed;
pub use frontend::{Frontend, TIME_LIMIT};
pub use listener::Listener;
pub use memory::MAX_REGIONS;

/// Where a ring lies, and where both sides begin in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VhostRing {
    /// Number of descriptors.
    pub size: u16,
    /// IOVA of the descriptors.
    pub descriptors: u64,
    /// IOVA of the driver's area: the available ring, or event suppression.
    pub driver: u64,
    /// IOVA of the device's area: the used ring, or event suppression.
    pub device: u64,
    /// [`SPLIT_START`], [`PACKED_START`], or what [`Frontend::stop_ring`] said.
    pub base: u32,
}

/// Base of a split ring that begins: the available index.
pub const SPLIT_START: u32 = 0;
/// Base of a packed ring that begins: both positions 0, both wrap counters 1
/// ("Ring states", bits 15 and 31).
pub const PACKED_START: u32 = 0x8000_8000;
