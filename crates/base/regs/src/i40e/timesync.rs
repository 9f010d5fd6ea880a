//! The clock of a port, and the times of packets of PTP (IEEE 1588) that it receives (datasheet chapter 10).
//!
//! What the drivers of Linux and DPDK agree on: the clock has 64 bits of nanoseconds, and what is
//! added to it with each tick has 32 bits of a nanosecond's fraction. The half that is read or written
//! first is the lower one. The time of a packet is kept in one of four places until its upper half is
//! read; the packet's descriptor tells which, [`super::descriptor::rx_high::TSYNINDX_MASK`].

use crate::table::registers;

registers! {
    #![ids]
    PRTTSYN_CTL0 @ 0x1E4200, RW reserved 0x7FFF_C0F0, "10", "Timestamps: which function has their clock" {
        PF_ID_SHIFT = 8;
        PF_ID_MASK = 0xF << 8;
        TSYNENA = 1 << 31;
    }
    PRTTSYN_CTL1 @ 0x085020, RW reserved 0x7000_0000, "10", "Timestamps: of which received packets" {
        V2MESSTYPE0_SHIFT = 16;
        V2MESSTYPE0_MASK = 0xF << 16;
        V2MESSTYPE1_SHIFT = 20;
        V2MESSTYPE1_MASK = 0xF << 20;
        TSYNTYPE_SHIFT = 24;
        TSYNTYPE_MASK = 3 << 24;
        UDP_ENA_SHIFT = 26;
        UDP_ENA_MASK = 3 << 26;
        TSYNENA = 1 << 31;
    }
    PRTTSYN_INC_L @ 0x1E4040, RW, "10", "Timestamps: what a tick adds to the clock, fraction of a nanosecond" {}
    PRTTSYN_INC_H @ 0x1E4060, RW reserved 0xFFFF_FFC0, "10", "Timestamps: what a tick adds to the clock, nanoseconds" {}
    PRTTSYN_TIME_L @ 0x1E4100, RW, "10", "Timestamps: the clock, lower half" {}
    PRTTSYN_TIME_H @ 0x1E4120, RW, "10", "Timestamps: the clock, upper half" {}
    PRTTSYN_STAT_0 @ 0x1E4220, RO, "10", "Timestamps: events of the clock and of sent packets" {}
    PRTTSYN_STAT_1 @ 0x085140, RO, "10", "Timestamps: which places have the time of a received packet" {
        RXT_MASK = 0xF;
    }
    PRTTSYN_RXTIME_L[4; 32] @ 0x0850C0, RO, "10", "Timestamps: when a packet was received, lower half" {}
    PRTTSYN_RXTIME_H[4; 32] @ 0x085040, RO, "10", "Timestamps: when a packet was received, upper half" {}
    PRTTSYN_TXTIME_L @ 0x1E41C0, RO, "10", "Timestamps: when a packet was sent, lower half" {}
    PRTTSYN_TXTIME_H @ 0x1E41E0, RO, "10", "Timestamps: when a packet was sent, upper half" {}
    PRTTSYN_AUX_0[2; 32] @ 0x1E42A0, RW reserved 0xFFFC_F0F0, "10", "Timestamps: what their pins do" {}
    PRTTSYN_AUX_1[2; 32] @ 0x1E42E0, RW reserved 0xFFFF_FFFC, "10", "Timestamps: when their pins do it" {}
    PRTTSYN_CLKO[2; 32] @ 0x1E4240, RW, "10", "Timestamps: half a period of a pin's clock" {}
    PRTTSYN_TGT_L[2; 32] @ 0x1E4140, RW, "10", "Timestamps: when a pin's clock begins, lower half" {}
    PRTTSYN_TGT_H[2; 32] @ 0x1E4180, RW, "10", "Timestamps: when a pin's clock begins, upper half" {}
}

/// Of which packets there are times, [`PRTTSYN_CTL1::TSYNTYPE_MASK`].
pub mod tsyntype {
    /// Version 1, which is over UDP alone.
    pub const V1: u32 = 1;
    /// Version 2 with one of two types of messages.
    pub const V2: u32 = 2;
    /// Version 2, event messages: those whose type is below 8.
    pub const V2_EVENT: u32 = 3;
    /// Instead of a type of messages: all of them.
    pub const ANY_MESSAGE: u32 = 0xF;
}

/// Of packets over UDP to this port there are times, too, [`PRTTSYN_CTL1::UDP_ENA_MASK`].
pub mod udp_ena {
    /// Event messages, whose times count.
    pub const PORT_319: u32 = 1;
    /// All messages but these.
    pub const PORT_320: u32 = 2;
}

/// Times of received packets that are kept at once.
pub const RX_TIMES: usize = PRTTSYN_RXTIME_L::COUNT;

/// What a tick adds to the clock with a link of 40 Gbit/s, or none: 1.6 nanoseconds.
pub const INCREMENT_40G: u64 = 0x1_9999_9999;

/// By which factor a tick is longer with a link of so many Mbit/s; `None` where there are no timestamps.
pub const fn tick_factor(mbps: u32) -> Option<u64> {
    match mbps {
        100 => None,
        1_000 => Some(20),
        5_000 | 10_000 => Some(2),
        _ => Some(1),
    }
}
