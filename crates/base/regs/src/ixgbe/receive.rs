//! Receive: filters, queues, RSS, Flow Director (datasheet 7.1, 8.2.3.7 and
//! 8.2.3.8).

use crate::table::registers;

registers! {
    #![ids]

    FCTRL @ 0x05080, RW reserved !(1 << 1 | 1 << 8 | 1 << 9 | 1 << 10), "8.2.3.7.1", "Filter control" {
        SBP = 1 << 1;
        MPE = 1 << 8;
        UPE = 1 << 9;
        BAM = 1 << 10;
    }
    VLNCTRL @ 0x05088, RW reserved 0xFFF << 16, "8.2.3.7.2", "VLAN control" {
        VET_MASK = 0xFFFF;
        CFI = 1 << 28;
        CFIEN = 1 << 29;
        VFE = 1 << 30;
    }
    MCSTCTRL @ 0x05090, RW reserved !7, "8.2.3.7.3", "Multicast control" {
        MO_MASK = 3;
        MFE = 1 << 2;
    }
    PSRTYPE[64; 4] @ 0x0EA00, RW, "8.2.3.7.4", "Packet split receive type" {
        SPLIT_TCP = 1 << 4;
        SPLIT_UDP = 1 << 5;
        SPLIT_IPV4 = 1 << 8;
        SPLIT_IPV6 = 1 << 9;
        SPLIT_L2 = 1 << 12;
        RQPL_SHIFT = 29;
    }
    PSRTYPE_ALIAS[16; 4] @ 0x05480, RW, "8.2.3.7.4", "Packet split receive type, where the 82598 has it" {}
    RXCSUM @ 0x05000, RW reserved !0x3000, "8.2.3.7.5", "Receive checksum control" {
        IPPCSE = 1 << 12;
        PCSD = 1 << 13;
    }
    RFCTL @ 0x05008, RW, "8.2.3.7.6", "Receive filter control" {
        ISCSI_DIS = 1 << 0;
        RSC_DIS = 1 << 5;
        NFSW_DIS = 1 << 6;
        NFSR_DIS = 1 << 7;
        IPV6_DIS = 1 << 10;
        IPFRSP_DIS = 1 << 14;
        IPV6_EX_DIS = 1 << 16;
        NEW_IPV6_EXT_DIS = 1 << 17;
    }
    MTA[128; 4] @ 0x05200, RW, "8.2.3.7.7", "Multicast table" {}
    RAL[128; 8] @ 0x0A200, RW, "8.2.3.7.8", "Receive address, low" {}
    RAH[128; 8] @ 0x0A204, RW reserved 0x7FFF_0000, "8.2.3.7.9", "Receive address, high" {
        AV = 1 << 31;
        ADDRESS_MASK = 0xFFFF;
    }
    RAL_ALIAS[16; 8] @ 0x05400, RW, "8.2.3.7.8", "Receive address, low, where the 82598 has it" {}
    RAH_ALIAS[16; 8] @ 0x05404, RW, "8.2.3.7.9", "Receive address, high, where the 82598 has it" {}
    MPSAR_LO[128; 8] @ 0x0A600, RW, "8.2.3.7.10", "Pools of a receive address, low" {}
    MPSAR_HI[128; 8] @ 0x0A604, RW, "8.2.3.7.10", "Pools of a receive address, high" {}
    VFTA[128; 4] @ 0x0A000, RW, "8.2.3.7.11", "VLAN filter table" {}
    MRQC @ 0x0EC80, RW reserved 0xFF00_5FF0, "8.2.3.7.12", "Multiple receive queues command" {
        MRQE_MASK = 0xF;
        MRQE_RSS = 1;
        MRQE_POOLS = 8;
        MRQE_32_POOLS_RSS = 10;
        MRQE_64_POOLS_RSS = 11;
        RSS_FIELD_IPV4_TCP = 1 << 16;
        RSS_FIELD_IPV4 = 1 << 17;
        RSS_FIELD_IPV6 = 1 << 20;
        RSS_FIELD_IPV6_TCP = 1 << 21;
        RSS_FIELD_IPV4_UDP = 1 << 22;
        RSS_FIELD_IPV6_UDP = 1 << 23;
    }
    MRQC_ALIAS @ 0x05818, RW, "8.2.3.7.12", "Multiple receive queues command, where the 82598 has it" {}
    RQTC @ 0x0EC70, RW, "8.2.3.7.13", "RSS queues per traffic class" {}
    RSSRK[10; 4] @ 0x0EB80, RW, "8.2.3.7.14", "RSS random key" {}
    RSSRK_ALIAS[10; 4] @ 0x05C80, RW, "8.2.3.7.14", "RSS random key, where the 82598 has it" {}
    RETA[32; 4] @ 0x0EB00, RW, "8.2.3.7.15", "Redirection table, four entries each" {}
    RETA_ALIAS[32; 4] @ 0x05C00, RW, "8.2.3.7.15", "Redirection table, where the 82598 has it" {}
    ERETA[96; 4] @ 0x0EE80, RW, "8.2.3.7", "Extended redirection table (X550)" {}
    SAQF[128; 4] @ 0x0E000, RW, "8.2.3.7.16", "Five-tuple filter: source address" {}
    DAQF[128; 4] @ 0x0E200, RW, "8.2.3.7.17", "Five-tuple filter: destination address" {}
    SDPQF[128; 4] @ 0x0E400, RW, "8.2.3.7.18", "Five-tuple filter: ports" {}
    FTQF[128; 4] @ 0x0E600, RW, "8.2.3.7.19", "Five-tuple filter: protocol, mask" {
        PROTOCOL_MASK = 3;
        PROTOCOL_TCP = 0;
        PROTOCOL_UDP = 1;
        PROTOCOL_SCTP = 2;
        PRIORITY_SHIFT = 2;
        POOL_SHIFT = 8;
        MASK_SHIFT = 25;
        POOL_MASK_EN = 1 << 30;
        ENABLE = 1 << 31;
    }
    L34TIMIR[128; 4] @ 0x0E800, RW, "8.2.3.7.20", "Five-tuple filter: queue" {
        SIZE_BP = 1 << 12;
        LLI = 1 << 20;
        QUEUE_SHIFT = 21;
    }
    SYNQF @ 0x0EC30, RW, "8.2.3.7.21", "SYN packet filter" {}
    ETQF[8; 4] @ 0x05128, RW, "8.2.3.7.22", "EtherType filter" {
        TYPE_MASK = 0xFFFF;
        IEEE1588 = 1 << 30;
        ENABLE = 1 << 31;
    }
    ETQS[8; 4] @ 0x0EC00, RW, "8.2.3.7.23", "EtherType filter: queue" {
        QUEUE_SHIFT = 16;
        QUEUE_ENABLE = 1 << 31;
    }
    LLITHRESH @ 0x0EC90, RW, "8.2.3.7.24", "Low latency interrupt threshold" {}
    RXFECCERR0 @ 0x051B8, RW, "8.2.3.7", "Receive filter ECC error insertion" {}
    IMIRVP @ 0x0EC60, RW, "8.2.3.7", "Immediate interrupt: VLAN priority" {}

    RDBAL[64; 0x40] @ 0x01000 | [64] @ 0x0D000, RW, "8.2.3.8.1", "Receive descriptor base, low" {}
    RDBAH[64; 0x40] @ 0x01004 | [64] @ 0x0D004, RW, "8.2.3.8.2", "Receive descriptor base, high" {}
    RDLEN[64; 0x40] @ 0x01008 | [64] @ 0x0D008, RW reserved 0xFFF0_0000, "8.2.3.8.3", "Receive descriptor ring length" {}
    RDH[64; 0x40] @ 0x01010 | [64] @ 0x0D010, RW reserved 0xFFFF_0000, "8.2.3.8.4", "Receive descriptor head" {}
    RDT[64; 0x40] @ 0x01018 | [64] @ 0x0D018, RW reserved 0xFFFF_0000, "8.2.3.8.5", "Receive descriptor tail" {}
    RXDCTL[64; 0x40] @ 0x01028 | [64] @ 0x0D028, RW, "8.2.3.8.6", "Receive descriptor control" {
        ENABLE = 1 << 25;
        SWFLSH = 1 << 26;
        VME = 1 << 30;
    }
    SRRCTL[64; 0x40] @ 0x01014 | [64] @ 0x0D014, RW reserved 0xE03F_C0E0, "8.2.3.8.7", "Split and replication receive control" {
        BSIZEPACKET_SHIFT = 0;
        BSIZEPACKET_MASK = 0x1F;
        BSIZEHEADER_SHIFT = 8;
        BSIZEHEADER_MASK = 0x3F << 8;
        RDMTS_SHIFT = 22;
        DESCTYPE_SHIFT = 25;
        DESCTYPE_MASK = 7 << 25;
        DESCTYPE_LEGACY = 0;
        DESCTYPE_ADV_ONE_BUFFER = 1 << 25;
        DESCTYPE_HEADER_SPLIT = 2 << 25;
        DESCTYPE_HEADER_SPLIT_ALWAYS = 5 << 25;
        DROP_EN = 1 << 28;
    }
    SRRCTL_ALIAS[16; 4] @ 0x02100, RW, "8.2.3.8.7", "Split and replication receive control, where the 82598 has it" {}
    DCA_RXCTRL[64; 0x40] @ 0x0100C | [64] @ 0x0D00C, RW, "8.2.3.11.1", "Receive DCA control" {
        MUST_CLEAR = 1 << 12;
    }
    DCA_RXCTRL_ALIAS[16; 4] @ 0x02200, RW, "8.2.3.11.1", "Receive DCA control, where the 82598 has it" {}
    RSCCTL[64; 0x40] @ 0x0102C | [64] @ 0x0D02C, RW, "8.2.3.8.13", "Receive coalescing control" {
        RSCEN = 1 << 0;
        MAXDESC_SHIFT = 2;
    }
    RDRXCTL @ 0x02F00, RW, "8.2.3.8.8", "Receive DMA control" {
        CRCSTRIP = 1 << 1;
        DMAIDONE = 1 << 3;
        RSCFRSTSIZE_MASK = 0x1F << 17;
        RSCACKC = 1 << 25;
        FCOE_WRFIX = 1 << 26;
    }
    RXPBSIZE[8; 4] @ 0x03C00, RW reserved !0xF_FC00, "8.2.3.8.9", "Receive packet buffer size" {
        SIZE_SHIFT = 10;
        SIZE_MASK = 0x3FF << 10;
    }
    RXCTRL @ 0x03000, RW reserved !1, "8.2.3.8.10", "Receive control" {
        RXEN = 1 << 0;
    }
    RXMEMWRAP @ 0x03190, RO, "8.2.3.8.11", "Receive packet buffer flush detect" {}
    RSCDBU @ 0x03028, RW reserved !0xFF, "8.2.3.8.12", "RSC data buffer control" {
        RSCSMALDIS_MASK = 0x7F;
        RSCACKDIS = 1 << 7;
    }
    RDDCC @ 0x02F20, RW, "8.2.3.8", "Receive descriptor control" {}
    DROPEN @ 0x03D04, RW, "8.2.3.8", "Drop enable control" {}
    DRECCCTL @ 0x02F08, RW, "8.2.3.8", "Receive DMA ECC control" {}

    FDIRCTRL @ 0x0EE00, RW reserved 0x00E0_8044, "8.2.3.21.1", "Flow Director control" {
        PBALLOC_MASK = 3;
        INIT_DONE = 1 << 3;
        PERFECT_MATCH = 1 << 4;
        REPORT_STATUS = 1 << 5;
        DROP_QUEUE_SHIFT = 8;
        FLEX_SHIFT = 16;
        MAX_LENGTH_SHIFT = 24;
        FULL_THRESH_SHIFT = 28;
    }
    FDIRIPV6[3; 4] @ 0x0EE0C, RW, "8.2.3.21", "Flow Director source IPv6" {}
    FDIRIPSA @ 0x0EE18, RW, "8.2.3.21", "Flow Director source IP" {}
    FDIRIPDA @ 0x0EE1C, RW, "8.2.3.21", "Flow Director destination IP" {}
    FDIRPORT @ 0x0EE20, RW, "8.2.3.21", "Flow Director ports" {}
    FDIRVLAN @ 0x0EE24, RW, "8.2.3.21", "Flow Director VLAN and flexible bytes" {}
    FDIRHASH @ 0x0EE28, RW, "8.2.3.21", "Flow Director hash" {}
    FDIRCMD @ 0x0EE2C, RW, "8.2.3.21", "Flow Director command" {
        CMD_MASK = 3;
        CLEARHT = 1 << 8;
    }
    FDIRFREE @ 0x0EE38, RW, "8.2.3.21", "Flow Director free entries" {}
    FDIRDIP4M @ 0x0EE3C, RW, "8.2.3.21", "Flow Director destination mask" {}
    FDIRSIP4M @ 0x0EE40, RW, "8.2.3.21", "Flow Director source mask" {}
    FDIRTCPM @ 0x0EE44, RW, "8.2.3.21", "Flow Director TCP mask" {}
    FDIRUDPM @ 0x0EE48, RW, "8.2.3.21", "Flow Director UDP mask" {}
    FDIRLEN @ 0x0EE4C, RC, "8.2.3.21", "Flow Director longest chain" {}
    FDIRUSTAT @ 0x0EE50, RC, "8.2.3.21", "Flow Director usage" {}
    FDIRFSTAT @ 0x0EE54, RC, "8.2.3.21", "Flow Director failed usage" {}
    FDIRMATCH @ 0x0EE58, RC, "8.2.3.21", "Flow Director matches" {}
    FDIRMISS @ 0x0EE5C, RC, "8.2.3.21", "Flow Director misses" {}
    FDIRHKEY @ 0x0EE68, RW, "8.2.3.21", "Flow Director bucket hash key" {}
    FDIRSKEY @ 0x0EE6C, RW, "8.2.3.21", "Flow Director signature hash key" {}
    FDIRM @ 0x0EE70, RW, "8.2.3.21", "Flow Director mask" {}
    FDIRIP6M @ 0x0EE74, RW, "8.2.3.21", "Flow Director IPv6 mask" {}
    FDIRSCTPM @ 0x0EE78, RW, "8.2.3.21", "Flow Director SCTP mask" {}

    PFVTCTL @ 0x051B0, RW reserved 0x9FFF_E07E, "8.2.3.27.1", "Virtualization control" {
        VT_ENA = 1 << 0;
        POOL_SHIFT = 7;
        POOL_MASK = 0x3F << 7;
        DIS_DEF_POOL = 1 << 29;
        REPLEN = 1 << 30;
    }
    PFMAILBOX[64; 4] @ 0x04B00, RW, "8.2.3.27", "Mailbox" {
        STS = 1 << 0;
        ACK = 1 << 1;
        VFU = 1 << 2;
        PFU = 1 << 3;
        RVFU = 1 << 4;
    }
    PFMBMEM[1024; 4] @ 0x13000, RW, "8.2.3.27", "Mailbox memory" {}
    PFMBICR[4; 4] @ 0x00710, W1C, "8.2.3.27", "Mailbox interrupt causes" {
        VFREQ_MASK = 0xFFFF;
        VFACK_SHIFT = 16;
    }
    PFMBIMR[2; 4] @ 0x00720, RW, "8.2.3.27", "Mailbox interrupt mask" {}
    PFVFLRE[1; 4] @ 0x00600 | [1] @ 0x001C0, RO, "8.2.3.27", "Virtual functions that were reset, to read" {}
    PFVFLREC[2; 4] @ 0x00700, W1C, "8.2.3.27", "Virtual functions that were reset" {}
    PFVFRE[2; 4] @ 0x051E0, RW, "8.2.3.27", "Virtual function receive enable" {}
    PFVFTE[2; 4] @ 0x08110, RW, "8.2.3.27", "Virtual function transmit enable" {}
    PFVFSPOOF[8; 4] @ 0x08200, RW reserved 0xFFFF_0000, "8.2.3.27", "Virtual function anti-spoofing" {
        VLAN_SHIFT = 8;
    }
    PFDTXGSWC @ 0x08220, RW reserved !1, "8.2.3.27", "Switch control" {
        LPE = 1 << 0;
    }
    PFVMVIR[64; 4] @ 0x08000, RW reserved 0x3FFF_0000, "8.2.3.27", "VLAN insert per pool" {
        TAG_MASK = 0xFFFF;
        ACTION_MASK = 3 << 30;
        ALWAYS = 1 << 30;
    }
    PFVML2FLT[64; 4] @ 0x0F000, RW reserved 0xE03F_FFFF, "8.2.3.27", "L2 control per pool" {
        AUPE = 1 << 24;
        ROMPE = 1 << 25;
        ROPE = 1 << 26;
        BAM = 1 << 27;
        MPE = 1 << 28;
    }
    PFVLVF[64; 4] @ 0x0F100, RW reserved 0x7FFF_F000, "8.2.3.27", "VLAN pool filter" {
        ID_MASK = 0xFFF;
        VALID = 1 << 31;
    }
    PFVLVFB[128; 4] @ 0x0F200, RW, "8.2.3.27", "VLAN pool filter bitmap" {}
    PFUTA[128; 4] @ 0x0F400, RW, "8.2.3.27", "Unicast table" {}
    PFMRCTL[4; 4] @ 0x0F600, RW, "8.2.3.27", "Mirror rule control" {}
    PFMRVLAN[8; 4] @ 0x0F610, RW, "8.2.3.27", "Mirror rule: VLANs" {}
    PFMRVM[8; 4] @ 0x0F630, RW, "8.2.3.27", "Mirror rule: pools" {}
    PFVMTXSW[2; 4] @ 0x05180, RW, "8.2.3.27", "Pool transmit switching" {}
    PFQDE @ 0x02F04, RW, "8.2.3.8", "Queue drop enable" {}
    WQBR_RX[4; 4] @ 0x02FB0, W1C, "8.2.3.27", "Wrong queue behaviour, receive" {}

    FCRXCTRL @ 0x05100, RW, "8.2.3.16", "FCoE receive control" {}
    FCRECTL @ 0x0ED00, RW, "8.2.3.16", "FCoE redirection control" {}
    FCRETA[8; 4] @ 0x0ED10, RW, "8.2.3.16", "FCoE redirection table" {}
    REOFF @ 0x05158, RW, "8.2.3.16", "FCoE receive EOF" {}
    RSOFF @ 0x051F8, RW, "8.2.3.16", "FCoE receive SOF" {}
    FCBUFF @ 0x02418, RW, "8.2.3.16", "FCoE buffer control" {}
    FCDMARW @ 0x02420, RW, "8.2.3.16", "FCoE DMA context access" {}
    FCFLT @ 0x05108, RW, "8.2.3.16", "FCoE filter context" {}
    FCFLTRW @ 0x05110, RW, "8.2.3.16", "FCoE filter context access" {}
}
