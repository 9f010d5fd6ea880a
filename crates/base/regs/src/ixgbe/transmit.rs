//! Transmit, DCB and security (datasheet 7.2, 8.2.3.9, 8.2.3.10, 8.2.3.12).

use crate::table::registers;

registers! {
    #![ids]

    DMATXCTL @ 0x04A80, RW, "8.2.3.9.2", "Transmit DMA control" {
        TE = 1 << 0;
        NS = 1 << 1;
        GDV = 1 << 3;
        VT_SHIFT = 16;
    }
    DTXTCPFLGL @ 0x04A88, RW, "8.2.3.9.3", "TCP flags of cut segments: first and middle" {}
    DTXTCPFLGH @ 0x04A8C, RW, "8.2.3.9.4", "TCP flags of cut segments: last" {}
    DTXMXSZRQ @ 0x08100, RW reserved !0xFFF, "8.2.3.9.1", "Most bytes requested at a time" {}
    TDBAL[128; 0x40] @ 0x06000, RW, "8.2.3.9.5", "Transmit descriptor base, low" {}
    TDBAH[128; 0x40] @ 0x06004, RW, "8.2.3.9.6", "Transmit descriptor base, high" {}
    TDLEN[128; 0x40] @ 0x06008, RW reserved 0xFFF0_0000, "8.2.3.9.7", "Transmit descriptor ring length" {}
    DCA_TXCTRL[128; 0x40] @ 0x0600C, RW, "8.2.3.11.2", "Transmit DCA control" {
        TX_WB_RO_EN = 1 << 11;
    }
    TDH[128; 0x40] @ 0x06010, RW reserved 0xFFFF_0000, "8.2.3.9.8", "Transmit descriptor head" {}
    TDT[128; 0x40] @ 0x06018, RW reserved 0xFFFF_0000, "8.2.3.9.9", "Transmit descriptor tail" {}
    TXDCTL[128; 0x40] @ 0x06028, RW reserved 0xF980_8080, "8.2.3.9.10", "Transmit descriptor control" {
        PTHRESH_SHIFT = 0;
        HTHRESH_SHIFT = 8;
        WTHRESH_SHIFT = 16;
        WTHRESH_MASK = 0x7F << 16;
        ENABLE = 1 << 25;
        SWFLSH = 1 << 26;
    }
    TDWBAL[128; 0x40] @ 0x06038, RW reserved 1 << 1, "8.2.3.9.11", "Head write-back address, low" {
        HEAD_WB_EN = 1 << 0;
    }
    TDWBAH[128; 0x40] @ 0x0603C, RW, "8.2.3.9.12", "Head write-back address, high" {}
    TXPBSIZE[8; 4] @ 0x0CC00, RW reserved !0xF_FC00, "8.2.3.9.13", "Transmit packet buffer size" {
        SIZE_SHIFT = 10;
        SIZE_MASK = 0x3FF << 10;
    }
    MNGTXMAP @ 0x0CD10, RW, "8.2.3.9.14", "Traffic class of management packets" {}
    MTQC @ 0x08120, RW reserved !0xF, "8.2.3.9.15", "Multiple transmit queues command" {
        RT_ENA = 1 << 0;
        VT_ENA = 1 << 1;
        NUM_TC_SHIFT = 2;
        POOLS_64 = 1 << 2;
        POOLS_32 = 2 << 2;
    }
    TXPBTHRESH[8; 4] @ 0x04950, RW reserved !0x3FF, "8.2.3.9.16", "Transmit packet buffer threshold" {}
    LBDRPEN @ 0x0CA00, RW, "8.2.3.9", "Loopback drop enable" {}
    TIPG @ 0x0CB00, RW, "8.2.3.9", "Inter-packet gap (82598)" {}
    WQBR_TX[4; 4] @ 0x08130, W1C, "8.2.3.27", "Wrong queue behaviour, transmit" {}
    TEOFF @ 0x04A94, RW, "8.2.3.16", "FCoE transmit EOF" {}
    TSOFF @ 0x04A98, RW, "8.2.3.16", "FCoE transmit SOF" {}

    RTRPCS @ 0x02430, RW, "8.2.3.10.1", "DCB receive packet plane control" {}
    RTTDCS @ 0x04900, RW, "8.2.3.10.2", "DCB transmit descriptor plane control" {
        TDPAC = 1 << 0;
        VMPAC = 1 << 1;
        TDRM = 1 << 4;
        ARBDIS = 1 << 6;
        BDPM = 1 << 22;
        BPBFSM = 1 << 23;
    }
    RTTPCS @ 0x0CD00, RW, "8.2.3.10.3", "DCB transmit packet plane control" {
        ARBD_SHIFT = 22;
    }
    RTRUP2TC @ 0x03020, RW, "8.2.3.10.4", "Receive user priority to traffic class" {}
    RTTUP2TC @ 0x0C800, RW, "8.2.3.10.5", "Transmit user priority to traffic class" {}
    RTRPT4C[8; 4] @ 0x02140, RW, "8.2.3.10.6", "Receive packet plane, per class: configuration" {}
    TXLLQ[4; 4] @ 0x082E0, RW, "8.2.3.10.7", "Strict low latency transmit queues" {}
    RTRPT4S[8; 4] @ 0x02160, RO, "8.2.3.10.8", "Receive packet plane, per class: status" {}
    RTTDT2C[8; 4] @ 0x04910, RW, "8.2.3.10.9", "Transmit descriptor plane, per class: configuration" {}
    RTTPT2C[8; 4] @ 0x0CD20, RW, "8.2.3.10.10", "Transmit packet plane, per class: configuration" {}
    RTTPT2S[8; 4] @ 0x0CD40, RO, "8.2.3.10.11", "Transmit packet plane, per class: status" {}
    RTTDT2S[8; 4] @ 0x04930, RO, "8.2.3.10", "Transmit descriptor plane, per class: status" {}
    RTTDQSEL @ 0x04904, RW reserved !0x7F, "8.2.3.10.13", "Transmit queue select" {}
    RTTDT1C @ 0x04908, RW, "8.2.3.10.14", "Transmit queue configuration" {}
    RTTDT1S @ 0x0490C, RO, "8.2.3.10.15", "Transmit queue status" {}
    RTTBCNRM @ 0x04980, RW, "8.2.3.10", "Transmit rate memory" {
        MMW_SIZE_9728 = 0x14;
    }
    RTTBCNRC @ 0x04984, RW reserved 0x7F00_0000, "8.2.3.10.16", "Transmit rate limit" {
        RF_INT_SHIFT = 14;
        RF_MASK = 0xFF_FFFF;
        RS_ENA = 1 << 31;
    }
    RTTBCNRS @ 0x04988, RO, "8.2.3.10.17", "Transmit rate status" {}

    SECTXCTRL @ 0x08800, RW reserved !7, "8.2.3.12.1", "Security transmit control" {
        SECTX_DIS = 1 << 0;
        TX_DIS = 1 << 1;
        STORE_FORWARD = 1 << 2;
    }
    SECTXSTAT @ 0x08804, RO, "8.2.3.12.2", "Security transmit status" {
        SECTX_RDY = 1 << 0;
        SECTX_OFF_DIS = 1 << 1;
    }
    SECTXBUFFAF @ 0x08808, RW reserved !0x3FF, "8.2.3.12.3", "Security transmit buffer almost full" {}
    SECTXMINIFG @ 0x08810, RW, "8.2.3.12.4", "Security transmit minimum gap" {}
    SECRXCTRL @ 0x08D00, RW reserved !3, "8.2.3.12.5", "Security receive control" {
        SECRX_DIS = 1 << 0;
        RX_DIS = 1 << 1;
    }
    SECRXSTAT @ 0x08D04, RO, "8.2.3.12.6", "Security receive status" {
        SECRX_RDY = 1 << 0;
        SECRX_OFF_DIS = 1 << 1;
    }
    LSECTXCAP @ 0x08A00, RO, "8.2.3.13", "LinkSec transmit capabilities" {}
    LSECTXCTRL @ 0x08A04, RW, "8.2.3.13", "LinkSec transmit control" {}
    LSECRXCAP @ 0x08F00, RO, "8.2.3.13", "LinkSec receive capabilities" {}
    LSECRXCTRL @ 0x08F04, RW, "8.2.3.13", "LinkSec receive control" {}
    IPSTXIDX @ 0x08900, RW, "8.2.3.14", "IPsec transmit index" {}
    IPSTXSALT @ 0x08904, RW, "8.2.3.14", "IPsec transmit salt" {}
    IPSTXKEY[4; 4] @ 0x08908, RW, "8.2.3.14", "IPsec transmit key" {}
    IPSRXIDX @ 0x08E00, RW, "8.2.3.14", "IPsec receive index" {}
    IPSRXIPADDR[4; 4] @ 0x08E04, RW, "8.2.3.14", "IPsec receive address" {}
    IPSRXSPI @ 0x08E14, RW, "8.2.3.14", "IPsec receive SPI" {}
    IPSRXIPIDX @ 0x08E18, RW, "8.2.3.14", "IPsec receive address index" {}
    IPSRXKEY[4; 4] @ 0x08E1C, RW, "8.2.3.14", "IPsec receive key" {}
    IPSRXSALT @ 0x08E2C, RW, "8.2.3.14", "IPsec receive salt" {}
    IPSRXMOD @ 0x08E30, RW, "8.2.3.14", "IPsec receive mode" {}
}
