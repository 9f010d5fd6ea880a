//! What Intel's NICs have in common, once: queues of advanced descriptors, their
//! offloads, receive-side scaling, interrupts, counters. The chips differ in where
//! their registers stand, in limits, and in a few bits: `chip::Facts`.
//!
//! Section numbers are those of the 82599 10 GbE Controller Datasheet, revision
//! 3.4, unless another is named. Not here: bringing a chip up, its filters and its
//! link, which stand with each driver ([`crate::ixgbe`], [`crate::igb`]).

pub(crate) mod address;
pub(crate) mod chip;
mod interrupt;
pub(crate) mod layout;
mod offload;
mod options;
mod quiet;
pub(crate) mod rss;
mod rx;
mod scatter;
pub(crate) mod stats;
mod tx;
mod writeback;

pub(crate) use chip::{Chip, Device, Facts};
pub use interrupt::Signal;
pub use options::{Completion, Options};
pub use rss::Rss;
pub use rx::RxQueue;
pub use tx::TxQueue;
