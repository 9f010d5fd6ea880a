//! Intel XL710 and X710 (700 series), datasheet 332464, and X722: what a driver of the physical
//! function uses, and what a device must have so that one can drive it.
//!
//! As for the 82599: `PF_ATQT::AT` or `QTX_TAIL::at(n)` is an offset in BAR 0 in bytes,
//! `GLGEN_RSTAT::DEVSTATE_MASK` a field, `PFGEN_CTRL::ID` a row of the [`TABLE`] to match
//! on. Places and bits are those on which the drivers of Linux, FreeBSD and DPDK agree;
//! a section is cited by its chapter. Commands of the firmware are in [`admin`], queue
//! contexts in [`context`], descriptors in [`descriptor`]. What a virtual function sees of
//! itself is in [`crate::iavf`]. Not here: DCB, FCoE, RDMA (X722), times of sent packets.

pub mod admin;
pub mod context;
pub mod control_packet;
pub mod descriptor;
mod device;
mod director;
mod general;
mod queues;
mod setup;
mod statistics;
mod timesync;
mod virtual_function;

pub use crate::ixgbe::VENDOR_INTEL;
pub use device::{DEVICES, Device, Family, device};
pub use director::*;
pub use general::*;
pub use queues::*;
pub use setup::*;
pub use statistics::*;
pub use timesync::*;
pub use virtual_function::*;

/// Bytes of BAR 0.
pub const BAR0_LEN: u32 = 8 << 20;

/// Words of the checksum in the shadow RAM, and where it stands (chapter 6): all words
/// of the shadow RAM add up to the base, but for the two modules that may be written
/// without it.
pub mod shadow {
    /// What all words add up to.
    pub const CHECKSUM_BASE: u16 = 0xBABA;
    /// The word with the checksum.
    pub const CHECKSUM: usize = 0x3F;
    /// The word that points to the vital product data; that module is not added up.
    pub const VPD_POINTER: usize = 0x2F;
    /// The word that points to the PCIe alternate auto-load module, likewise.
    pub const PCIE_ALT_POINTER: usize = 0x3E;
    /// Words of either module.
    pub const MODULE_WORDS: usize = 512;
    /// The first word: control.
    pub const CONTROL: usize = 0;
    /// The image is valid, in bits 7:6 of the control word.
    pub const VALID: u16 = 1 << 6;
    /// The word with the version of the image: major in bits 15:12, minor in 7:0.
    pub const STARTER_VERSION: usize = 0x18;
    /// Words in a sector; a command reads from one at most.
    pub const SECTOR_WORDS: usize = 2048;
}

crate::table::register_map!(BAR0_LEN: general, queues, director, setup, statistics, timesync, virtual_function);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_finds_what_at_gives() {
        for offset in
            [PF_ATQT::AT, QTX_TAIL::at(0), QRX_TAIL::at(1535), PFQF_HLUT::at(127), GLPRT_GORCH::at(3)]
        {
            let (register, n) = lookup(offset).expect("in the table");
            assert_eq!(register.at(n), offset, "{}", register.name);
        }
        assert_eq!(lookup(PFINT_ITRN::at(512)), Some((PFINT_ITRN::ID, 512)));
        assert!(lookup(BAR0_LEN - 4).is_none() && lookup(u32::MAX).is_none());
    }
}
