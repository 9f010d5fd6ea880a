//! Virtual functions of the 82599 and its successors as their own driver sees them (82599
//! datasheet rev. 3.4, section 8.3): the registers of BAR 0. What they tell their physical
//! function through the mailbox is in [`message`]; descriptors, and the fields of registers that
//! the physical function has as well, are in [`crate::ixgbe`].

pub mod message;

use crate::ixgbe::VENDOR_INTEL;

/// Bytes of BAR 0.
pub const BAR0_LEN: u32 = 16 << 10;

/// The most queues of each kind of a virtual function: with fewer than 32 of them, and four traffic
/// classes or a hash over four queues.
pub const QUEUES: usize = 8;
/// MSI-X vectors: two for queues, and one for the mailbox.
pub const VECTORS: usize = 3;

/// PCI device ids: of the 82599, the X540, the X550 and the X552 (X550EM_x).
pub const DEVICES: [u16; 4] = [0x10ED, 0x1515, 0x1565, 0x15A8];

/// Whether a device is such a virtual function.
pub fn knows(vendor: u16, device: u16) -> bool {
    vendor == VENDOR_INTEL && DEVICES.contains(&device)
}

mod window {
    use crate::table::registers;

    registers! {
        #![ids]
        VFCTRL @ 0x00000, WO, "8.3.5.1", "Control" {
            RST = 1 << 26;
        }
        VFSTATUS @ 0x00008, RO, "8.3.5.1", "Status" {}
        VFLINKS @ 0x00010, RO, "8.3.5.1", "Link status, as LINKS of the physical function" {}
        VFFRTIMER @ 0x00048, RO, "8.3.5.1", "Free running timer" {}
        VTEICR @ 0x00100, W1C, "8.3.5.2", "Interrupt cause; clears when read" {}
        VTEICS @ 0x00104, WO, "8.3.5.2", "Interrupt cause set" {}
        VTEIMS @ 0x00108, RW, "8.3.5.2", "Interrupt mask set; reads the mask" {}
        VTEIMC @ 0x0010C, WO, "8.3.5.2", "Interrupt mask clear" {}
        VTEIAC @ 0x00110, RW, "8.3.5.2", "Interrupt auto clear" {}
        VTEIAM @ 0x00114, RW, "8.3.5.2", "Interrupt auto mask" {}
        VTIVAR[4; 4] @ 0x00120, RW, "8.3.5.2", "Vectors of the queues' interrupts" {
            VALID = 1 << 7;
        }
        VTIVAR_MISC @ 0x00140, RW, "8.3.5.2", "Vector of the mailbox's interrupt" {
            VALID = 1 << 7;
            VECTOR_MASK = 3;
        }
        VTRSCINT[8; 4] @ 0x00180, RW, "8.3.5.2", "Receive coalescing" {}
        VFMBMEM[16; 4] @ 0x00200, RW, "8.3.5.1", "Mailbox memory" {}
        VFMAILBOX @ 0x002FC, RW, "8.3.5.1", "Mailbox" {
            REQ = 1 << 0;
            ACK = 1 << 1;
            VFU = 1 << 2;
            PFU = 1 << 3;
            PFSTS = 1 << 4;
            PFACK = 1 << 5;
            RSTI = 1 << 6;
            RSTD = 1 << 7;
        }
        VFPSRTYPE @ 0x00300, RW, "8.3.5.4", "Packet split receive type" {
            RQPL_SHIFT = 29;
        }
        VTEITR[3; 4] @ 0x00820, RW, "8.3.5.2", "Interrupt throttling" {}
        VFRDBAL[8; 0x40] @ 0x01000, RW, "8.3.5.4", "Receive ring: base, low" {}
        VFRDBAH[8; 0x40] @ 0x01004, RW, "8.3.5.4", "Receive ring: base, high" {}
        VFRDLEN[8; 0x40] @ 0x01008, RW, "8.3.5.4", "Receive ring: length" {}
        VFDCA_RXCTRL[8; 0x40] @ 0x0100C, RW, "8.3.5.6", "Receive DCA control" {}
        VFRDH[8; 0x40] @ 0x01010, RW, "8.3.5.4", "Receive ring: head" {}
        VFSRRCTL[8; 0x40] @ 0x01014, RW, "8.3.5.4", "Split receive control" {}
        VFRDT[8; 0x40] @ 0x01018, RW, "8.3.5.4", "Receive ring: tail" {}
        VFGPRC @ 0x0101C, RO, "8.3.5.7", "Good packets received" {}
        VFGORC_LSB @ 0x01020, RO, "8.3.5.7", "Good bytes received, low" {}
        VFGORC_MSB @ 0x01024, RO, "8.3.5.7", "Good bytes received, high: four bits" {}
        VFRXDCTL[8; 0x40] @ 0x01028, RW, "8.3.5.4", "Receive queue control" {}
        VFRSCCTL[8; 0x40] @ 0x0102C, RW, "8.3.5.4", "Receive coalescing control" {}
        VFMPRC @ 0x01034, RO, "8.3.5.7", "Multicast packets received" {}
        VFTDBAL[8; 0x40] @ 0x02000, RW, "8.3.5.5", "Transmit ring: base, low" {}
        VFTDBAH[8; 0x40] @ 0x02004, RW, "8.3.5.5", "Transmit ring: base, high" {}
        VFTDLEN[8; 0x40] @ 0x02008, RW, "8.3.5.5", "Transmit ring: length" {}
        VFDCA_TXCTRL[8; 0x40] @ 0x0200C, RW, "8.3.5.6", "Transmit DCA control" {}
        VFTDH[8; 0x40] @ 0x02010, RW, "8.3.5.5", "Transmit ring: head" {}
        VFTDT[8; 0x40] @ 0x02018, RW, "8.3.5.5", "Transmit ring: tail" {}
        VFGPTC @ 0x0201C, RO, "8.3.5.7", "Good packets sent" {}
        VFGOTC_LSB @ 0x02020, RO, "8.3.5.7", "Good bytes sent, low" {}
        VFGOTC_MSB @ 0x02024, RO, "8.3.5.7", "Good bytes sent, high: four bits" {}
        VFTXDCTL[8; 0x40] @ 0x02028, RW, "8.3.5.5", "Transmit queue control" {}
        VFTDWBAL[8; 0x40] @ 0x02038, RW, "8.3.5.5", "Head write-back address, low" {}
        VFTDWBAH[8; 0x40] @ 0x0203C, RW, "8.3.5.5", "Head write-back address, high" {}
        VFMRQC @ 0x03000, RW, "8.3", "Multiple receive queues command (X550)" {}
        VFRSSRK[10; 4] @ 0x03100, RW, "8.3", "Key of the hash (X550)" {}
        VFRXMEMWRAP @ 0x03190, RO, "8.3", "Receive packet buffer wraps" {}
        VFRETA[16; 4] @ 0x03200, RW, "8.3", "Table of the hash's queues (X550)" {}
    }
}

pub use window::*;

crate::table::register_map!(BAR0_LEN: window);
