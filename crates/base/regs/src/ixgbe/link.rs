//! MAC, link, PHY access and flow control (datasheet 3.7, 8.2.3.3, 8.2.3.22).

use crate::table::registers;

registers! {
    #![ids]

    FCTTV[4; 4] @ 0x03200, RW, "8.2.3.3.2", "Flow control: time in pause frames" {}
    FCRTL[8; 4] @ 0x03220, RW reserved !0x8007_FFE0, "8.2.3.3.3", "Flow control: low threshold" {
        XONE = 1 << 31;
    }
    FCRTH[8; 4] @ 0x03260, RW reserved !0x8007_FFE0, "8.2.3.3.4", "Flow control: high threshold" {
        FCEN = 1 << 31;
    }
    FCRTV @ 0x032A0, RW reserved 0xFFFF_0000, "8.2.3.3.5", "Flow control: refresh" {}
    TFCS @ 0x0CE00, RO, "8.2.3.3.6", "Flow control: transmit status" {}
    FCCFG @ 0x03D00, RW reserved !0x18, "8.2.3.3.7", "Flow control: configuration" {
        TFCE_LINK = 1 << 3;
        TFCE_PRIORITY = 1 << 4;
    }
    PFCTOP @ 0x03008, RW, "8.2.3.3.1", "Priority flow control type" {}

    PCS1GCFIG @ 0x04200, RW, "8.2.3.22.1", "1G PCS configuration" {}
    PCS1GLCTL @ 0x04208, RW, "8.2.3.22.2", "1G PCS link control" {}
    PCS1GLSTA @ 0x0420C, RO, "8.2.3.22.3", "1G PCS link status" {
        LINK_OK = 1 << 0;
        SYNC_OK = 1 << 4;
        AN_COMPLETE = 1 << 16;
    }
    PCS1GANA @ 0x04218, RW, "8.2.3.22.4", "1G auto-negotiation advertisement" {}
    PCS1GANLP @ 0x0421C, RO, "8.2.3.22.5", "1G link partner ability" {}
    PCS1GANNP @ 0x04220, RW, "8.2.3.22.6", "1G next page" {}
    PCS1GANLPNP @ 0x04224, RO, "8.2.3.22.7", "1G link partner next page" {}
    HLREG0 @ 0x04240, RW, "8.2.3.22.8", "MAC control 0" {
        TXCRCEN = 1 << 0;
        RXCRCSTRP = 1 << 1;
        JUMBOEN = 1 << 2;
        TXPADEN = 1 << 10;
        LPBK = 1 << 15;
        MDCSPD = 1 << 16;
        CONTMDC = 1 << 17;
        CTRLFLTR = 1 << 18;
        PREPEND_MASK = 0xF << 20;
        PRIEN = 1 << 24;
        RXLNGTHERREN = 1 << 27;
        RXPADSTRIPEN = 1 << 28;
    }
    HLREG1 @ 0x04244, RO, "8.2.3.22.9", "MAC status 1" {
        RXERRSYM = 1 << 0;
        RXILLSYM = 1 << 1;
    }
    PAP @ 0x04248, RW, "8.2.3.22.10", "Pause and pace" {}
    MACA @ 0x0424C, RW, "8.2.3.22", "MDI auto-scan command and address (82598)" {}
    APAE @ 0x04250, RW, "8.2.3.22", "Auto-scan PHY address enable (82598)" {}
    ARD @ 0x04254, RO, "8.2.3.22", "Auto-scan read data (82598)" {}
    AIS @ 0x04258, RO, "8.2.3.22", "Auto-scan interrupt status (82598)" {}
    MSCA @ 0x0425C, RW, "8.2.3.22.11", "MDI single command and address" {
        NP_ADDR_MASK = 0xFFFF;
        DEV_TYPE_SHIFT = 16;
        PHY_ADDR_SHIFT = 21;
        OP_SHIFT = 26;
        OP_MASK = 3 << 26;
        OP_ADDRESS = 0;
        OP_WRITE = 1 << 26;
        OP_READ_INCREMENT = 2 << 26;
        OP_READ = 3 << 26;
        ST_CODE_MASK = 3 << 28;
        ST_CODE_OLD = 1 << 28;
        MDI_COMMAND = 1 << 30;
        MDI_IN_PROGRESS = 1 << 31;
    }
    MSRWD @ 0x04260, RW, "8.2.3.22.12", "MDI single read and write data" {
        READ_SHIFT = 16;
    }
    MLADD @ 0x04264, RW, "8.2.3.22", "MAC address, low" {}
    MAXFRS @ 0x04268, RW reserved 0xFFFF, "8.2.3.22.13", "Largest frame, with CRC" {
        MFS_SHIFT = 16;
        MFS_MASK = 0xFFFF << 16;
    }
    MHADD @ 0x04268, RW, "8.2.3.22.13", "Largest frame, by its old name" {}
    PCSS1 @ 0x04288, RO, "8.2.3.22.14", "XGXS status 1" {}
    PCSS2 @ 0x0428C, RO, "8.2.3.22.15", "XGXS status 2" {}
    XPCSS @ 0x04290, RO, "8.2.3.22.16", "10GBASE-X PCS status" {}
    MFLCN @ 0x04294, RW, "8.2.3.22.34", "MAC flow control" {
        PMCF = 1 << 0;
        DPF = 1 << 1;
        RPFCE = 1 << 2;
        RFCE = 1 << 3;
    }
    SERDESC @ 0x04298, RW, "8.2.3.22.17", "SerDes interface control" {}
    MACS @ 0x0429C, RW, "8.2.3.22.18", "FIFO status and control" {}
    AUTOC @ 0x042A0, RW, "8.2.3.22.19", "Auto-negotiation control" {
        FLU = 1 << 0;
        TEN_GIG_PARALLEL_SHIFT = 7;
        TEN_GIG_PARALLEL_MASK = 3 << 7;
        ONE_GIG_SHIFT = 9;
        RESTART_AN = 1 << 12;
        LMS_SHIFT = 13;
        LMS_MASK = 7 << 13;
        LMS_1G_NO_AN = 0 << 13;
        LMS_10G_NO_AN = 1 << 13;
        LMS_1G_AN = 2 << 13;
        LMS_10G_SERIAL = 3 << 13;
        LMS_KX4_KX_KR = 4 << 13;
        LMS_SGMII = 5 << 13;
        FEC_REQUESTED = 1 << 24;
        FEC_ABLE = 1 << 25;
        AN_RX_LOOSE = 1 << 29;
        KX4_SUPPORT = 1 << 31;
        KX_SUPPORT = 1 << 30;
        KR_SUPPORT = 1 << 16;
    }
    LINKS @ 0x042A4, RO, "8.2.3.22.20", "Link status" {
        KX_AN_COMPLETE = 1 << 31;
        LINK_UP = 1 << 30;
        LINK_SPEED_SHIFT = 28;
        LINK_SPEED_MASK = 3 << 28;
        LINK_SPEED_10G = 3 << 28;
        LINK_SPEED_1G = 2 << 28;
        LINK_SPEED_100M = 1 << 28;
        XGXS_ALIGNED = 1 << 7;
        MAC_LINK_STAT = 1 << 7;
        SIGNAL_DETECTED_MASK = 0xF00;
    }
    LINKS2 @ 0x04324, RO, "8.2.3.22.21", "Link status 2" {}
    AUTOC2 @ 0x042A8, RW, "8.2.3.22.22", "Auto-negotiation control 2" {
        TEN_GIG_SERIAL_SHIFT = 16;
        TEN_GIG_SERIAL_MASK = 3 << 16;
        TEN_GIG_SFI = 2 << 16;
        PD_MASK = 0xF << 28;
    }
    AUTOC3 @ 0x042AC, RW, "8.2.3.22", "Auto-negotiation control 3" {}
    ANLP1 @ 0x042B0, RO, "8.2.3.22.24", "Link partner ability 1" {
        SYM_PAUSE = 1 << 10;
        ASM_PAUSE = 1 << 11;
        AN_STATE_MASK = 0xF << 16;
    }
    ANLP2 @ 0x042B4, RO, "8.2.3.22.25", "Link partner ability 2" {}
    MACC @ 0x04330, RW, "8.2.3.22.30", "MAC and link control" {}
    MMNGC @ 0x042D0, RO, "8.2.3.22.26", "MAC manageability control" {}
    ANLPNP1 @ 0x042D4, RO, "8.2.3.22.27", "Link partner next page 1" {}
    ANLPNP2 @ 0x042D8, RO, "8.2.3.22.28", "Link partner next page 2" {}
    CORECTL @ 0x014F00, RW, "8.2.3.22.32", "Core analog configuration" {}
    SMADARCTL @ 0x14F10, RW, "8.2.3.22.33", "Core common configuration" {}
    KRPCSFC @ 0x042E0, RW, "8.2.3.22.29", "KR PCS and FEC control" {}
    KRPCSS @ 0x042E4, RO, "8.2.3.22", "KR PCS status" {}
    FECS1 @ 0x042E8, RO, "8.2.3.22", "FEC status 1" {}
    FECS2 @ 0x042EC, RO, "8.2.3.22", "FEC status 2" {}
}
