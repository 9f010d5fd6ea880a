//! Virtual functions of the XL710 and its successors as their own driver sees them (Intel's
//! document 332464, chapter 10): the registers of BAR 0. Messages to the physical function
//! are in [`crate::virtchnl`]; contexts, descriptors and the admin queue's commands in
//! [`crate::i40e`].

use crate::i40e::VENDOR_INTEL;

/// Bytes of BAR 0.
pub const BAR0_LEN: u32 = 64 << 10;

/// The most queues of each kind of a virtual function.
pub const QUEUES: usize = 16;

/// PCI device ids: the XL710's, the one that any chip of Intel's may have, the X722's.
pub const DEVICES: [u16; 3] = [0x154C, 0x1889, 0x37CD];

/// Whether a device is such a virtual function.
pub fn knows(vendor: u16, device: u16) -> bool {
    vendor == VENDOR_INTEL && DEVICES.contains(&device)
}

mod window {
    use crate::table::registers;

    registers! {
        #![ids]
        VF_ATQBAL1 @ 0x7C00, RW, "10", "Mailbox send queue: base, low" {}
        VF_ATQBAH1 @ 0x7800, RW, "10", "Mailbox send queue: base, high" {}
        VF_ATQLEN1 @ 0x6800, RW reserved 0x0FFF_FC00, "10", "Mailbox send queue: length" {
            LEN_MASK = 0x3FF;
            CRIT = 1 << 30;
            ENABLE = 1 << 31;
        }
        VF_ATQH1 @ 0x6400, RW reserved 0xFFFF_FC00, "10", "Mailbox send queue: head" {}
        VF_ATQT1 @ 0x8400, RW, "10", "Mailbox send queue: tail" {}
        VF_ARQBAL1 @ 0x6C00, RW, "10", "Mailbox receive queue: base, low" {}
        VF_ARQBAH1 @ 0x6000, RW, "10", "Mailbox receive queue: base, high" {}
        VF_ARQLEN1 @ 0x8000, RW reserved 0x0FFF_FC00, "10", "Mailbox receive queue: length" {
            LEN_MASK = 0x3FF;
            CRIT = 1 << 30;
            ENABLE = 1 << 31;
        }
        VF_ARQH1 @ 0x7400, RW reserved 0xFFFF_FC00, "10", "Mailbox receive queue: head" {}
        VF_ARQT1 @ 0x7000, RW, "10", "Mailbox receive queue: tail" {}
        VFGEN_RSTAT @ 0x8800, RO, "10", "What the physical function tells of a reset" {
            VFR_STATE_MASK = 3;
        }
        VFINT_ICR01 @ 0x4800, RC, "10", "Interrupt causes of vector 0" {
            INTEVENT = 1 << 0;
            ADMINQ = 1 << 30;
            SWINT = 1 << 31;
        }
        VFINT_ICR0_ENA1 @ 0x5000, RW reserved 0x3DFF_FFFF, "10", "Which causes raise vector 0" {
            ADMINQ = 1 << 30;
        }
        VFINT_STAT_CTL01 @ 0x5400, RW reserved 0xFFFF_FFF3, "10", "Which time the other causes of vector 0 have" {}
        VFINT_DYN_CTL01 @ 0x5C00, RW reserved 0x38FE_0000, "10", "Vector 0: enable and clear" {
            INTENA = 1 << 0;
            CLEARPBA = 1 << 1;
            ITR_INDX_NONE = 3 << 3;
        }
        VFINT_DYN_CTLN1[16; 4] @ 0x3800, RW reserved 0x38FE_0000, "10", "Vectors from 1 on: enable and clear" {
            INTENA = 1 << 0;
            CLEARPBA = 1 << 1;
            SWINT_TRIG = 1 << 2;
            ITR_INDX_SHIFT = 3;
            ITR_INDX_NONE = 3 << 3;
        }
        VFINT_ITR01[3; 4] @ 0x4C00, RW reserved 0xFFFF_F000, "10", "Time between interrupts of vector 0, in 2 us" {}
        VFINT_ITRN1[48; 4] @ 0x2800, RW, "10", "Time between interrupts, in 2 us: 16 vectors for each of three times" {}
        QTX_TAIL1[16; 4] @ 0x0000, RW, "10", "Transmit queue: tail" {}
        QRX_TAIL1[16; 4] @ 0x2000, RW, "10", "Receive queue: tail" {}
        VFQF_HENA[2; 4] @ 0xC400, RW, "10", "Which packet classes are hashed" {}
        VFQF_HKEY[13; 4] @ 0xCC00, RW, "10", "Key of the hash" {}
        VFQF_HLUT[16; 4] @ 0xD000, RW reserved 0xF0F0_F0F0, "10", "Table of the hash's queues, four in each" {}
    }
}

pub use window::*;

crate::table::register_map!(BAR0_LEN: window);
