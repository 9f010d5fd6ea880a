//! Intel 82576 Gigabit Ethernet Controller, datasheet revision 2.87: what a
//! driver of its physical function uses.
//!
//! As for the 82599: `RCTL::AT` or `RDT::at(n)` is an offset in BAR0 in bytes,
//! `RCTL::EN` a field, `RCTL::REGISTER` its entry of the [`table`]. A section
//! given to its second level (`8.10`) names the group. The descriptors are the
//! 82599's ([`crate::ixgbe::descriptor`]) except for [`rx_high`]; virtual
//! functions are in [`crate::igbvf`]. Not here: LinkSec, IPsec, DCA, time stamps, management.

mod device;
mod general;
mod queues;
mod statistics;

pub use crate::ixgbe::VENDOR_INTEL;
pub use device::{DEVICES, Device, device};
pub use general::*;
pub use queues::*;
pub use statistics::*;

use crate::Register;

/// Bytes of the register window, BAR0.
pub const BAR0_LEN: u32 = 128 << 10;

/// Receive write-back, advanced, second word (7.1.5): what the driver looks at beside what
/// the 82599's has, and the errors, which stand elsewhere. Status, length and tag are the same.
pub mod rx_high {
    /// Status: another function of the card sent the frame.
    pub const LB: u64 = 1 << 18;
    /// Errors: transport checksum.
    pub const L4E: u64 = 1 << 29;
    /// Errors: IPv4 header checksum.
    pub const IPE: u64 = 1 << 30;
    /// Errors: frame reception, as the MAC saw it.
    pub const RXE: u64 = 1 << 31;
}

/// Registers of the copper PHY, by MDIC (8.27): clause 22 of IEEE 802.3.
pub mod phy {
    /// The PHY's address on the bus inside the chip.
    pub const ADDRESS: u32 = 1;
    /// Number of the control register (PCTRL).
    pub const PCTRL: u32 = 0;
    /// Control: restart auto-negotiation; clears itself.
    pub const PCTRL_RESTART: u16 = 1 << 9;
    /// Control: power down.
    pub const PCTRL_POWER_DOWN: u16 = 1 << 11;
    /// Control: auto-negotiation is enabled.
    pub const PCTRL_AUTO_NEGOTIATION: u16 = 1 << 12;
}

/// Every register, group by group.
pub fn table() -> impl Iterator<Item = &'static Register> {
    [general::TABLE, queues::TABLE, statistics::TABLE].into_iter().flatten()
}
