//! Virtual functions as the physical function sees them (datasheet chapter 10): their resets,
//! the queues and vectors that they are given, and what their hash spreads flows by.
//!
//! Arrays of two dimensions, such as VPLAN_QTABLE, have rows of 256 registers of which the
//! 128 virtual functions have the first; [`row`] gives the index.

use crate::table::registers;

/// Virtual functions of a card.
pub const VFS: usize = 128;
/// Registers from one row of a two-dimensional array to the next.
const ROW: usize = 256;

/// The index of a virtual function's register `n` in an array of two dimensions.
pub const fn row(n: usize, vf: usize) -> usize {
    n * ROW + vf
}

/// Which register `n` of which virtual function an index of such an array means; `None` for
/// those between two rows.
pub const fn column(index: usize) -> Option<(usize, usize)> {
    if index % ROW < VFS { Some((index / ROW, index % ROW)) } else { None }
}

/// What [`VFGEN_RSTAT1`] and a virtual function's own VFGEN_RSTAT tell.
pub mod reset_state {
    /// The virtual function is being reset.
    pub const IN_PROGRESS: u32 = 0;
    /// The reset is done, the physical function has not taken it up yet.
    pub const COMPLETED: u32 = 1;
    /// The virtual function may work.
    pub const ACTIVE: u32 = 2;
}

registers! {
    #![ids]
    VPGEN_VFRTRIG[128; 4] @ 0x091800, RW reserved 0xFFFF_FFFE, "10", "Resets a virtual function" {
        VFSWR = 1 << 0;
    }
    VPGEN_VFRSTAT[128; 4] @ 0x091C00, RO, "10", "Whether a virtual function's reset is done" {
        VFRD = 1 << 0;
    }
    VFGEN_RSTAT1[128; 4] @ 0x074400, RW reserved 0xFFFF_FFFC, "10", "What a virtual function is told of its reset" {
        VFR_STATE_MASK = 3;
    }
    GLGEN_VFLRSTAT[4; 4] @ 0x092600, W1C, "10", "Virtual functions that were reset by their own driver (FLR), a bit each" {}
    VPLAN_MAPENA[128; 4] @ 0x074000, RW reserved 0xFFFF_FFFE, "10", "Whether a virtual function's queues are mapped" {
        TXRX_ENA = 1 << 0;
    }
    VPLAN_QTABLE[3968; 4] @ 0x070000, RW, "10", "Which queues of the physical function a virtual one has: 16 rows" {
        QINDEX_MASK = 0x7FF;
    }
    VSILAN_QBASE[384; 4] @ 0x20C800, RW reserved 0xFFFF_F000, "10", "The queues of a VSI" {
        VSIBASE_MASK = 0x7FF;
        VSIQTABLE_ENA = 1 << 11;
    }
    VSILAN_QTABLE[3968; 4] @ 0x200000, RW, "10", "The queues of a VSI where they are a list, two in each: 8 rows of 512" {
        QINDEX_0_MASK = 0x7FF;
        QINDEX_1_SHIFT = 16;
    }
    VPINT_LNKLST0[128; 4] @ 0x02A800, RW reserved 0xFFFF_E000, "10", "First queue of a virtual function's vector 0" {
        FIRSTQ_INDX_MASK = 0x7FF;
        FIRSTQ_TYPE_SHIFT = 11;
    }
    VPINT_LNKLSTN[512; 4] @ 0x025000, RW reserved 0xFFFF_E000, "10", "First queue of virtual functions' vectors from 1 on" {
        FIRSTQ_INDX_MASK = 0x7FF;
        FIRSTQ_TYPE_SHIFT = 11;
    }
    VFINT_DYN_CTL0[128; 4] @ 0x02A400, RW reserved 0x38FE_0000, "10", "A virtual function's vector 0: enable and clear" {
        CLEARPBA = 1 << 1;
    }
    VFINT_DYN_CTLN[512; 4] @ 0x024800, RW reserved 0x38FE_0000, "10", "Virtual functions' vectors from 1 on: enable and clear" {
        CLEARPBA = 1 << 1;
    }
    VFINT_ICR0_ENA[128; 4] @ 0x02C000, RW reserved 0x3DFF_FFFF, "10", "Which causes raise a virtual function's vector 0" {
        ADMINQ = 1 << 30;
    }
    VFQF_HENA1[384; 4] @ 0x230800, RW, "10", "Which packet classes are hashed for a virtual function: 2 rows" {}
    VFQF_HKEY1[3200; 4] @ 0x228000, RW, "10", "Key of a virtual function's hash: 13 rows" {}
    VFQF_HLUT1[3968; 4] @ 0x220000, RW, "10", "Table of a virtual function's hash, four queues in each: 16 rows" {}
    VP_MDET_TX[128; 4] @ 0x0E6000, W1C, "10", "Malicious driver detection: a transmit queue of a virtual function" {
        VALID = 1 << 0;
    }
    VP_MDET_RX[128; 4] @ 0x12A000, W1C, "10", "Malicious driver detection: a receive queue of a virtual function" {
        VALID = 1 << 0;
    }
    PF_PCI_CIAA @ 0x09C080, RW reserved 0xFFF8_0000, "10", "Which word of whose configuration space is read" {
        VF_NUM_SHIFT = 12;
    }
    PF_PCI_CIAD @ 0x09C100, RO, "10", "That word" {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_each_others_inverse() {
        for (n, vf) in [(0, 0), (3, 127), (15, 5)] {
            assert_eq!(column(row(n, vf)), Some((n, vf)));
        }
        assert_eq!(column(128), None, "between two rows");
    }
}
