//! Queues of the LAN engine and what spreads flows over them (datasheet chapter 10).

use crate::table::registers;

registers! {
    #![ids]
    PFLAN_QALLOC @ 0x1C0400, RO, "10", "Which queues the function has" {
        FIRSTQ_MASK = 0x7FF;
        LASTQ_SHIFT = 16;
        LASTQ_MASK = 0x7FF << 16;
        VALID = 1 << 31;
    }
    GLLAN_TXPRE_QDIS[12; 4] @ 0x0E6500, RW reserved 0x3FFE_F800, "10", "Before a transmit queue is disabled: 128 queues each" {
        QINDX_MASK = 0x7FF;
        SET_QDIS = 1 << 30;
        CLEAR_QDIS = 1 << 31;
    }
    QTX_ENA[1536; 4] @ 0x100000, RW reserved 0xFFFF_FFF8, "10", "Transmit queue: enable" {
        QENA_REQ = 1 << 0;
        QENA_STAT = 1 << 2;
    }
    QTX_CTL[1536; 4] @ 0x104000, RW reserved 0xFFFF_0040, "10", "Transmit queue: whose it is" {
        PFVF_Q_VF = 0;
        PFVF_Q_PF = 2;
        PF_INDX_SHIFT = 2;
        VFVM_INDX_SHIFT = 7;
        VFVM_INDX_MASK = 0x1FF << 7;
    }
    QTX_HEAD[1536; 4] @ 0x0E4000, RW reserved 0xFFFE_E000, "10", "Transmit queue: head" {}
    QTX_TAIL[1536; 4] @ 0x108000, RW, "10", "Transmit queue: tail" {}
    QRX_ENA[1536; 4] @ 0x120000, RW reserved 0xFFFF_FFF8, "10", "Receive queue: enable" {
        QENA_REQ = 1 << 0;
        QENA_STAT = 1 << 2;
    }
    QRX_TAIL[1536; 4] @ 0x128000, RW, "10", "Receive queue: tail" {}

    GLLAN_TSOMSK_F @ 0x0442D8, RW reserved 0xFFFF_F000, "10", "Flags of TCP that the first segment loses" {}
    GLLAN_TSOMSK_M @ 0x0442DC, RW reserved 0xFFFF_F000, "10", "Flags of TCP that segments in the middle lose" {}
    GLLAN_TSOMSK_L @ 0x0442E0, RW reserved 0xFFFF_F000, "10", "Flags of TCP that the last segment loses" {}
    GLLAN_RCTL_0 @ 0x12A500, RW reserved 0xFFFF_FFFE, "10", "Receive control" {
        PXE_MODE = 1 << 0;
    }

    PFQF_CTL_0 @ 0x1C0AC0, RW reserved 0xFC00_0000, "10", "Filters of a function" {
        HASHLUTSIZE_512 = 1 << 16;
        FD_ENA = 1 << 17;
    }
    PFQF_HENA[2; 128] @ 0x245900, RW, "10", "Which packet classes are hashed" {}
    PFQF_HKEY[13; 128] @ 0x244800, RW, "10", "Key of the hash" {}
    PFQF_HLUT[128; 128] @ 0x240000, RW reserved 0xC0C0_C0C0, "10", "Table of the hash's queues, four in each" {}
    GLQF_HKEY[13; 4] @ 0x270140, RW, "10", "Key of the hash of Flow Director, for all functions of the card" {}
    GLQF_FD_PCTYPES[64; 4] @ 0x268000, RW reserved 0xFFFF_FFC0, "10", "Which packet class Flow Director takes each class for (X722)" {
        FD_PCTYPE_MASK = 0x3F;
    }
    GLQF_FDEVICTENA[2; 4] @ 0x270384, RW, "10", "Packet classes whose last packet removes a filter of Flow Director (X722)" {}
    GLQF_HASH_INSET[128; 4] @ 0x267600, RW, "10", "What is hashed of each packet class, 64 bits, by all functions of the card" {}
}

/// Packet classes, bits of [`PFQF_HENA`] and indices of [`GLQF_HASH_INSET`] (chapter 7). The X722
/// tells more of them apart.
pub mod class {
    /// UDP over IPv4 to one host (X722).
    pub const IPV4_UDP_UNICAST: u32 = 29;
    /// UDP over IPv4 to several hosts (X722).
    pub const IPV4_UDP_MULTICAST: u32 = 30;
    /// UDP over IPv4.
    pub const IPV4_UDP: u32 = 31;
    /// The first packet of TCP over IPv4: SYN without ACK (X722).
    pub const IPV4_TCP_SYN: u32 = 32;
    /// TCP over IPv4.
    pub const IPV4_TCP: u32 = 33;
    /// SCTP over IPv4.
    pub const IPV4_SCTP: u32 = 34;
    /// Any other packet of IPv4.
    pub const IPV4_OTHER: u32 = 35;
    /// A fragment of IPv4.
    pub const IPV4_FRAGMENT: u32 = 36;
    /// UDP over IPv6 to one host (X722).
    pub const IPV6_UDP_UNICAST: u32 = 39;
    /// UDP over IPv6 to several hosts (X722).
    pub const IPV6_UDP_MULTICAST: u32 = 40;
    /// UDP over IPv6.
    pub const IPV6_UDP: u32 = 41;
    /// The first packet of TCP over IPv6: SYN without ACK (X722).
    pub const IPV6_TCP_SYN: u32 = 42;
    /// TCP over IPv6.
    pub const IPV6_TCP: u32 = 43;
    /// SCTP over IPv6.
    pub const IPV6_SCTP: u32 = 44;
    /// Any other packet of IPv6.
    pub const IPV6_OTHER: u32 = 45;
    /// A fragment of IPv6.
    pub const IPV6_FRAGMENT: u32 = 46;
    /// What has no IP.
    pub const L2: u32 = 63;
}

/// Fields of a packet that can be hashed, bits of a pair of [`GLQF_HASH_INSET`] (chapter 7).
pub mod inset {
    /// The source address of IPv4.
    pub const IPV4_SRC: u64 = 0x0001_8000_0000_0000;
    /// The destination address of IPv4.
    pub const IPV4_DST: u64 = 0x0000_0018_0000_0000;
    /// The source address of IPv4 in an X722: where that of IPv6 begins.
    pub const X722_IPV4_SRC: u64 = 0x0006_0000_0000_0000;
    /// The destination address of IPv4 in an X722, likewise.
    pub const X722_IPV4_DST: u64 = 0x0000_0600_0000_0000;
    /// The source address of IPv6.
    pub const IPV6_SRC: u64 = 0x0007_F800_0000_0000;
    /// The destination address of IPv6.
    pub const IPV6_DST: u64 = 0x0000_07F8_0000_0000;
    /// The source port.
    pub const SRC_PORT: u64 = 0x0000_0004_0000_0000;
    /// The destination port.
    pub const DST_PORT: u64 = 0x0000_0002_0000_0000;
    /// The verification tag of SCTP.
    pub const SCTP_TAG: u64 = 0x0000_0001_8000_0000;
    /// The last EtherType.
    pub const ETHERTYPE: u64 = 0x0000_0000_0000_4000;
}
