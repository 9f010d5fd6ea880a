//! What Intel's NICs have in common, once: ports, queues of advanced descriptors,
//! their offloads, receive-side scaling, interrupts, counters. A queue is generic
//! over its descriptors' layout, a port over its chip: where registers stand, limits,
//! and the steps that each chip takes in its own way (`chip::Chip`, `chip::ChipInfo`).
//!
//! Section numbers are those of the 82599 10 GbE Controller Datasheet, revision
//! 3.4, unless another is named. Not here: bringing a chip up, its filters and its
//! link, which stand with each driver ([`crate::ixgbe`], [`crate::igb`]).

pub(crate) mod address;
#[cfg(all(test, not(feature = "seeded-bugs")))]
mod another_layout;
mod chip;
mod filter;
mod interrupt;
pub(crate) mod layout;
mod offload;
mod port;
pub(crate) mod rss;
mod rx;
mod scatter;
pub(crate) mod stats;
mod tx;
mod writeback;

pub(crate) use chip::{Chip, ChipInfo, Device, Init, Queues};
pub(crate) use filter::FilterRegisters;
pub(crate) use interrupt::Signal;
pub use port::Port;
pub use rx::RxQueue;
pub use tx::TxQueue;
