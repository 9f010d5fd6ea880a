//! Virtual functions of the 82576, and of the I350, as their own driver sees them (82576 datasheet rev.
//! 2.87, section 8.26): the registers of BAR 0. What they tell their physical function through the mailbox is in
//! [`message`]; descriptors and fields are those of [`crate::igb`] and [`crate::ixgbe`], the bits of
//! the mailbox and of vectors those of [`crate::ixgbevf`]. The drivers of Linux and DPDK have the same
//! registers and messages for both. In an I350's descriptors the tag of a frame from another function
//! has its bytes in the other order, and it has one queue of each kind.

pub mod message;

use crate::ixgbe::VENDOR_INTEL;

/// Bytes of BAR 0.
pub const BAR0_LEN: u32 = 16 << 10;

/// Queues of each kind that a virtual function of an 82576 has.
pub const QUEUES: usize = 2;

/// The PCI device id of an 82576's.
pub const DEVICE: u16 = 0x10CA;
/// The PCI device id of an I350's.
pub const DEVICE_I350: u16 = 0x1520;

/// Whether a device is a virtual function with this PCI device id.
pub fn knows(vendor: u16, device: u16, id: u16) -> bool {
    vendor == VENDOR_INTEL && device == id
}

mod window {
    use crate::table::registers;

    registers! {
        VTCTRL @ 0x00000, WO, "8.26", "Control, whose bit 26 resets the function" {}
        VTSTATUS @ 0x00008, RO, "8.26", "Status, as that of the physical function" {}
        VMBMEM[16; 4] @ 0x00800, RW, "8.26", "Mailbox memory" {}
        V2PMAILBOX @ 0x00C40, RW, "8.26", "Mailbox" {}
        VFGPRC @ 0x00F10, RO, "8.26", "Good packets received" {}
        VFGPTC @ 0x00F14, RO, "8.26", "Good packets sent" {}
        VFGORC @ 0x00F18, RO, "8.26", "Good bytes received" {}
        VFGOTC @ 0x00F34, RO, "8.26", "Good bytes sent" {}
        VFMPRC @ 0x00F3C, RO, "8.26", "Multicast packets received" {}
        VFGPRLBC @ 0x00F40, RO, "8.26", "Good packets received from other functions" {}
        VFGPTLBC @ 0x00F44, RO, "8.26", "Good packets sent to other functions" {}
        VFGORLBC @ 0x00F48, RO, "8.26", "Good bytes received from other functions" {}
        VFGOTLBC @ 0x00F50, RO, "8.26", "Good bytes sent to other functions" {}
        VTEICS @ 0x01520, WO, "8.26", "Interrupt cause set" {}
        VTEIMS @ 0x01524, RW, "8.26", "Interrupt mask set; reads the mask" {}
        VTEIMC @ 0x01528, WO, "8.26", "Interrupt mask clear" {}
        VTEIAC @ 0x0152C, RW, "8.26", "Interrupt auto clear" {}
        VTEIAM @ 0x01530, RW, "8.26", "Interrupt auto mask" {}
        VTEICR @ 0x01580, RC, "8.26", "Interrupt cause" {}
        VTEITR[3; 4] @ 0x01680, RW, "8.26", "Interrupt throttling" {}
        VTIVAR @ 0x01700, RW, "8.26", "Vectors of the queues' interrupts" {}
        VTIVAR_MISC @ 0x01740, RW, "8.26", "Vector of the mailbox's interrupt" {}
        RDBAL[2; 0x100] @ 0x02800, RW, "8.26", "Receive ring: base, low" {}
        RDBAH[2; 0x100] @ 0x02804, RW, "8.26", "Receive ring: base, high" {}
        RDLEN[2; 0x100] @ 0x02808, RW, "8.26", "Receive ring: length" {}
        SRRCTL[2; 0x100] @ 0x0280C, RW, "8.26", "Split and replication receive control" {}
        RDH[2; 0x100] @ 0x02810, RW, "8.26", "Receive ring: head" {}
        RDT[2; 0x100] @ 0x02818, RW, "8.26", "Receive ring: tail" {}
        RXDCTL[2; 0x100] @ 0x02828, RW, "8.26", "Receive descriptor control" {}
        RQDPC[2; 0x100] @ 0x02830, RC, "8.26", "Packets dropped because the queue had no descriptor" {}
        TDBAL[2; 0x100] @ 0x03800, RW, "8.26", "Transmit ring: base, low" {}
        TDBAH[2; 0x100] @ 0x03804, RW, "8.26", "Transmit ring: base, high" {}
        TDLEN[2; 0x100] @ 0x03808, RW, "8.26", "Transmit ring: length" {}
        TDH[2; 0x100] @ 0x03810, RW, "8.26", "Transmit ring: head" {}
        DCA_TXCTRL[2; 0x100] @ 0x03814, RW, "8.26", "Transmit DCA control" {
            WRITE_BACK_RELAXED = 1 << 11;
        }
        TDT[2; 0x100] @ 0x03818, RW, "8.26", "Transmit ring: tail" {}
        TXDCTL[2; 0x100] @ 0x03828, RW, "8.26", "Transmit descriptor control" {}
        TDWBAL[2; 0x100] @ 0x03838, RW, "8.26", "Head write-back address, low" {}
        TDWBAH[2; 0x100] @ 0x0383C, RW, "8.26", "Head write-back address, high" {}
    }
}

pub use window::*;

/// All registers of BAR 0, in the order in which this file states them.
pub fn table() -> impl Iterator<Item = &'static crate::Register> {
    window::TABLE.iter()
}
