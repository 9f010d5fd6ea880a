//! Receive: control, filters, queues (datasheet 8.10); transmit (8.12).

use crate::table::registers;

registers! {
    RCTL @ 0x00100, RW, "8.10.1", "Receive control" {
        RXEN = 1 << 1;
        SBP = 1 << 2;
        UPE = 1 << 3;
        MPE = 1 << 4;
        LPE = 1 << 5;
        MO_MASK = 3 << 12;
        BAM = 1 << 15;
        VFE = 1 << 18;
        SECRC = 1 << 26;
    }
    RDBAL[16; 0x40] @ 0x0C000, RW, "8.10", "Receive descriptor base, low" {}
    RDBAH[16; 0x40] @ 0x0C004, RW, "8.10", "Receive descriptor base, high" {}
    RDLEN[16; 0x40] @ 0x0C008, RW, "8.10", "Receive descriptor ring length" {}
    SRRCTL[16; 0x40] @ 0x0C00C, RW, "8.10.2", "Split and replication receive control" {
        BSIZEPACKET_SHIFT = 0;
        DESCTYPE_ADV_ONE_BUFFER = 1 << 25;
        DROP_EN = 1 << 31;
    }
    RDH[16; 0x40] @ 0x0C010, RW, "8.10", "Receive descriptor head" {}
    RDT[16; 0x40] @ 0x0C018, RW, "8.10", "Receive descriptor tail" {}
    RXDCTL[16; 0x40] @ 0x0C028, RW, "8.10", "Receive descriptor control" {
        PTHRESH_SHIFT = 0;
        HTHRESH_SHIFT = 8;
        WTHRESH_SHIFT = 16;
        ENABLE = 1 << 25;
        SWFLUSH = 1 << 26;
    }
    RQDPC[16; 0x40] @ 0x0C030, RC, "8.10", "Packets dropped because the queue had no descriptor" {}
    RXCSUM @ 0x05000, RW, "8.10", "Receive checksum control" {
        IPOFLD = 1 << 8;
        TUOFLD = 1 << 9;
        CRCOFL = 1 << 11;
        IPPCSE = 1 << 12;
        PCSD = 1 << 13;
    }
    RLPML @ 0x05004, RW, "8.10", "Longest packet received, with LPE; CRC and tag included" {}
    RFCTL @ 0x05008, RW, "8.10", "Receive filter control" {}
    MTA[128; 4] @ 0x05200, RW, "8.10", "Multicast table" {}
    RAL[16; 8] @ 0x05400 | [8] @ 0x054E0, RW, "8.10", "Receive address, low" {}
    RAH[16; 8] @ 0x05404 | [8] @ 0x054E4, RW, "8.10", "Receive address, high" {
        AV = 1 << 31;
    }
    VFTA[128; 4] @ 0x05600, RW, "8.10", "VLAN filter table" {}
    MRQC @ 0x05818, RW, "8.10", "Multiple receive queues command" {
        ENABLE_RSS = 2;
        RSS_FIELD_IPV4_TCP = 1 << 16;
        RSS_FIELD_IPV4 = 1 << 17;
        RSS_FIELD_IPV6_TCP_EX = 1 << 18;
        RSS_FIELD_IPV6_EX = 1 << 19;
        RSS_FIELD_IPV6 = 1 << 20;
        RSS_FIELD_IPV6_TCP = 1 << 21;
        RSS_FIELD_IPV4_UDP = 1 << 22;
        RSS_FIELD_IPV6_UDP = 1 << 23;
    }
    RETA[32; 4] @ 0x05C00, RW, "8.10", "Redirection table" {}
    RSSRK[10; 4] @ 0x05C80, RW, "8.10", "RSS key" {}
    RXPBS @ 0x02404, RW, "8.3", "Receive packet buffer size" {}

    TCTL @ 0x00400, RW, "8.12", "Transmit control" {
        EN = 1 << 1;
        PSP = 1 << 3;
        CT_SHIFT = 4;
        CT_MASK = 0xFF << 4;
        BST_SHIFT = 12;
        BST_MASK = 0x3FF << 12;
        RRTHRESH_SHIFT = 29;
    }
    TIPG @ 0x00410, RW, "8.12", "Inter-packet gap" {}
    TXPBS @ 0x03404, RW, "8.3", "Transmit packet buffer size" {}
    DTXCTL @ 0x03590, RW, "8.12", "Transmit DMA control" {}
    TDBAL[16; 0x40] @ 0x0E000, RW, "8.12", "Transmit descriptor base, low" {}
    TDBAH[16; 0x40] @ 0x0E004, RW, "8.12", "Transmit descriptor base, high" {}
    TDLEN[16; 0x40] @ 0x0E008, RW, "8.12", "Transmit descriptor ring length" {}
    TDH[16; 0x40] @ 0x0E010, RW, "8.12", "Transmit descriptor head" {}
    TDT[16; 0x40] @ 0x0E018, RW, "8.12", "Transmit descriptor tail" {}
    TXDCTL[16; 0x40] @ 0x0E028, RW, "8.12", "Transmit descriptor control" {
        PTHRESH_SHIFT = 0;
        HTHRESH_SHIFT = 8;
        WTHRESH_SHIFT = 16;
        ENABLE = 1 << 25;
        SWFLSH = 1 << 26;
    }
    TDWBAL[16; 0x40] @ 0x0E038, RW, "8.12", "Head write-back address, low" {
        HEAD_WB_EN = 1 << 0;
    }
    TDWBAH[16; 0x40] @ 0x0E03C, RW, "8.12", "Head write-back address, high" {}
}
