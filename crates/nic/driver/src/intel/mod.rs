//! What Intel's NICs have in common, once: ports, queues of advanced descriptors,
//! their offloads, interrupts, filters. A queue is generic over its descriptors'
//! layout, a port over its chip: limits, and the steps that each chip takes in its own
//! way (`chip::Chip`, `chip::ChipInfo`). What only the 82599, the 82576 and their like
//! share, rings and counters in registers, stands in `ring_registers`.
//!
//! Modules import in one direction: `layout`, then `chip`, then what the queues are made of
//! (`interrupt`, `latches`, `clock`, `scatter`, `offload`, `writeback`), `rx` and `tx`, and above them `port`
//! and `filter`. `fixed` forwards in place with rings of its own, of which ports know when they open. `vf` is what drivers of virtual functions with a mailbox share.
//!
//! Section numbers are those of the 82599 10 GbE Controller Datasheet, revision
//! 3.4, unless another is named. Not here: bringing a chip up, its filters and its
//! link, which stand with each driver ([`crate::ixgbe`], [`crate::igb`]).

#[cfg(all(test, not(feature = "seeded-bugs")))]
mod another_layout;
mod chip;
pub(crate) mod clock;
mod filter;
pub mod fixed;
pub(crate) mod interrupt;
pub(crate) mod latches;
pub(crate) mod layout;
mod offload;
mod port;
pub(crate) mod ring_registers;
mod rx;
mod scatter;
mod tx;
pub(crate) mod vf;
mod writeback;

pub(crate) use chip::{Chip, ChipInfo, Device, FilterTables, Queues, name_at};
pub(crate) use port::Init;
pub use port::Port;
pub(crate) use ring_registers::{Registers, RingRegisters};
pub use rx::RxQueue;
pub use tx::TxQueue;
