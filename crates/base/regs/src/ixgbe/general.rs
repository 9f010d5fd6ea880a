//! Control, status, EEPROM, semaphores, PCIe, timers.

use crate::table::registers;

registers! {
    #![ids]

    CTRL @ 0x00000, RW reserved !(1 << 2 | 1 << 3 | 1 << 26), "8.2.3.1.1", "Device control" {
        PCIE_MASTER_DISABLE = 1 << 2;
        LRST = 1 << 3;
        RST = 1 << 26;
    }
    CTRL_ALIAS @ 0x00004, RW, "8.2.3.1.1", "Device control, at its second place" {}
    STATUS @ 0x00008, RO, "8.2.3.1.2", "Device status" {
        LAN_ID_SHIFT = 2;
        LAN_ID_MASK = 3 << 2;
        LINK_UP = 1 << 7;
        NUM_VFS_SHIFT = 10;
        IOV_ACTIVE = 1 << 18;
        PCIE_MASTER_ENABLE = 1 << 19;
    }
    CTRL_EXT @ 0x00018, RW, "8.2.3.1.3", "Extended device control" {
        PFRSTD = 1 << 14;
        NS_DIS = 1 << 16;
        RO_DIS = 1 << 17;
        EXTENDED_VLAN = 1 << 26;
        DRV_LOAD = 1 << 28;
    }
    ESDP @ 0x00020, RW, "8.2.3.1.4", "Extended SDP control" {
        SDP0_DATA = 1 << 0;
        SDP1_DATA = 1 << 1;
        SDP2_DATA = 1 << 2;
        SDP3_DATA = 1 << 3;
        SDP4_DATA = 1 << 4;
        SDP5_DATA = 1 << 5;
        SDP0_IODIR = 1 << 8;
        SDP1_IODIR = 1 << 9;
        SDP4_IODIR = 1 << 12;
        SDP5_IODIR = 1 << 13;
        SDP0_NATIVE = 1 << 16;
        SDP1_NATIVE = 1 << 17;
    }
    I2CCTL @ 0x00028, RW, "8.2.3.1.5", "I2C control, bit by bit" {
        CLK_IN = 1 << 0;
        CLK_OUT = 1 << 1;
        DATA_IN = 1 << 2;
        DATA_OUT = 1 << 3;
    }
    FRTIMER @ 0x00048, RO, "8.2.3.15", "Free running timer" {}
    TCPTIMER @ 0x0004C, RW, "8.2.3.15", "TCP timer" {
        KS = 1 << 8;
        COUNT_ENABLE = 1 << 9;
    }
    LEDCTL @ 0x00200, RW, "8.2.3.1.6", "LED control" {}
    CORESPARE @ 0x00600, RW, "8.2.3.4", "Core spare" {}
    EXVET @ 0x05078, RW, "8.2.3.1.7", "Extended VLAN Ethertype" {}

    EEC @ 0x10010, RW, "8.2.3.2.1", "EEPROM and flash control" {
        SK = 1 << 0;
        CS = 1 << 1;
        DI = 1 << 2;
        DO = 1 << 3;
        FWE_MASK = 3 << 4;
        FWE_DISABLED = 1 << 4;
        FWE_ENABLED = 2 << 4;
        REQ = 1 << 6;
        GNT = 1 << 7;
        PRES = 1 << 8;
        AUTO_RD = 1 << 9;
        SIZE_SHIFT = 11;
        SIZE_MASK = 15 << 11;
        PCI_ANA_DONE = 1 << 15;
        PCI_CORE_DONE = 1 << 16;
        PCI_GENERAL_DONE = 1 << 17;
        PCI_FUNC_DONE = 1 << 18;
        CORE_DONE = 1 << 19;
        CORE_CSR_DONE = 1 << 20;
        MAC_DONE = 1 << 21;
        FLUPD = 1 << 23;
        SEC1VAL = 1 << 22;
        FLUDONE = 1 << 26;
    }
    EERD @ 0x10014, RW, "8.2.3.2.2", "EEPROM read" {
        START = 1 << 0;
        DONE = 1 << 1;
        ADDR_SHIFT = 2;
        ADDR_MASK = 0x3FFF << 2;
        DATA_SHIFT = 16;
    }
    EEWR @ 0x10018, RW, "8.2.3.2", "EEPROM write (X540)" {
        START = 1 << 0;
        DONE = 1 << 1;
        ADDR_SHIFT = 2;
        DATA_SHIFT = 16;
    }
    FLA @ 0x1001C, RW, "8.2.3.2.3", "Flash access" {}
    EEMNGCTL @ 0x10110, RW, "8.2.3.2.4", "Manageability EEPROM control" {
        CFG_DONE0 = 1 << 18;
        CFG_DONE1 = 1 << 19;
    }
    EEMNGDATA @ 0x10114, RW, "8.2.3.2", "Manageability EEPROM data" {}
    FLMNGCTL @ 0x10118, RW, "8.2.3.2", "Manageability flash control" {}
    FLMNGDATA @ 0x1011C, RW, "8.2.3.2", "Manageability flash data" {}
    FLMNGCNT @ 0x10120, RW, "8.2.3.2", "Manageability flash count" {}
    FLOP @ 0x1013C, RW, "8.2.3.2", "Flash opcode" {}
    GRC @ 0x10200, RW, "8.2.3.2", "General receive control" {
        MNG = 1 << 0;
        APME = 1 << 1;
    }
    SRAMREL @ 0x10210, RW, "8.2.3.2", "SRAM release (X540)" {}
    PHYDBG @ 0x10218, RW, "8.2.3.2", "PHY debug" {}

    GCR @ 0x11000, RW, "8.2.3.4.1", "PCIe control" {
        CMPL_TMOUT_MASK = 0xF000;
        CMPL_TMOUT_RESEND = 1 << 16;
        CAP_VER2 = 1 << 18;
    }
    GTV @ 0x11004, RW, "8.2.3.4", "PCIe timers" {}
    FUNCTAG @ 0x11008, RW, "8.2.3.4", "Function tag" {}
    GLT @ 0x1100C, RW, "8.2.3.4", "PCIe latency timers" {}
    GSCL_1 @ 0x11010, RW, "8.2.3.4.2", "PCIe statistics control 1" {}
    GSCL_2 @ 0x11014, RW, "8.2.3.4", "PCIe statistics control 2" {}
    GSCL_3 @ 0x11018, RW, "8.2.3.4", "PCIe statistics control 3" {}
    GSCL_4 @ 0x1101C, RW, "8.2.3.4", "PCIe statistics control 4" {}
    GSCN[4; 4] @ 0x11020, RO, "8.2.3.4", "PCIe statistics counters" {}
    GSCL_5[4; 4] @ 0x11030, RW, "8.2.3.4", "PCIe statistics control 5 to 8" {}
    PCIEPIPEADR @ 0x11004, RW, "8.2.3.4", "PCIe pipe address (shares GTV's place)" {}
    GCR_EXT @ 0x11050, RW, "8.2.3.4", "PCIe control, extended" {
        VT_MODE_MASK = 3;
        MSIX_EN = 1 << 4;
        BUFFERS_CLEAR = 1 << 30;
    }
    MREVID @ 0x11064, RO, "8.2.3.4", "Mirrored revision id" {}
    PICAUSE @ 0x110B0, W1C, "8.2.3.4", "PCIe interrupt cause" {}
    PIENA @ 0x110B8, RW, "8.2.3.4", "PCIe interrupt enable" {}
    CIAA @ 0x11088, RW, "8.2.3.4", "Configuration access: address" {
        BUSY = 1 << 31;
    }
    CIAD @ 0x1108C, RW, "8.2.3.4", "Configuration access: data" {}
    FACTPS @ 0x10150, RO, "8.2.3.4.5", "Function active and power state" {
        MNGCG = 1 << 29;
        LAN_FUNCTION_SEL = 1 << 30;
    }
    SWSM @ 0x10140, RW, "8.2.3.4.8", "Software semaphore" {
        SMBI = 1 << 0;
        SWESMBI = 1 << 1;
        WMNG = 1 << 2;
    }
    FWSM @ 0x10148, RO, "8.2.3.4.9", "Firmware semaphore" {
        FWSMBI = 1 << 0;
        MODE_SHIFT = 1;
        MODE_MASK = 7 << 1;
        VALID = 1 << 15;
        EXT_ERR_IND_MASK = 0x3F << 19;
    }
    SW_FW_SYNC @ 0x10160, RW, "8.2.3.4.10", "Who owns what, software or firmware (GSSR)" {
        SW_EEP_SM = 1 << 0;
        SW_PHY0_SM = 1 << 1;
        SW_PHY1_SM = 1 << 2;
        SW_MAC_CSR_SM = 1 << 3;
        SW_FLASH_SM = 1 << 4;
        FW_EEP_SM = 1 << 5;
        FW_PHY0_SM = 1 << 6;
        FW_PHY1_SM = 1 << 7;
        FW_MAC_CSR_SM = 1 << 8;
        REGSMP = 1 << 31;
    }
    HICR @ 0x15F00, RW, "10.5", "Host interface control" {
        EN = 1 << 0;
        C = 1 << 1;
        SV = 1 << 2;
    }
    FWSTS @ 0x15F0C, RW, "10.5", "Firmware status" {}
    FLEX_MNG[448; 4] @ 0x15800, RW, "10.5", "Host interface memory" {}
    BARCTRL @ 0x110F4, RW, "8.2.3.4", "BAR control" {}

    TSYNCRXCTL @ 0x05188, RW, "8.2.3.26.1", "Receive timestamp control" {
        VALID = 1 << 0;
        TYPE_MASK = 7 << 1;
        TYPE_L4_V1 = 1 << 1;
        TYPE_L2_L4_V2 = 2 << 1;
        TYPE_ALL = 4 << 1;
        TYPE_EVENT_V2 = 5 << 1;
        ENABLED = 1 << 4;
        TSIP_UT_EN = 1 << 23;
        TSIP_UP_EN_SHIFT = 24;
        TSIP_UP_EN_MASK = 0xFF << 24;
    }
    TSYNCTXCTL @ 0x08C00, RW, "8.2.3.26.7", "Transmit timestamp control" {
        VALID = 1 << 0;
        ENABLED = 1 << 4;
    }
    RXSTMPL @ 0x051E8, RO, "8.2.3.26", "Receive timestamp, low" {}
    RXSTMPH @ 0x051A4, RO, "8.2.3.26", "Receive timestamp, high" {}
    RXSATRL @ 0x051A0, RO, "8.2.3.26", "Receive timestamp: source, low" {}
    RXSATRH @ 0x051A8, RO, "8.2.3.26", "Receive timestamp: source, high" {}
    RXMTRL @ 0x05120, RW, "8.2.3.26", "Receive timestamp: message type" {}
    TXSTMPL @ 0x08C04, RO, "8.2.3.26", "Transmit timestamp, low" {}
    TXSTMPH @ 0x08C08, RO, "8.2.3.26", "Transmit timestamp, high" {}
    SYSTIML @ 0x08C0C, RW, "8.2.3.26", "System time, low" {}
    SYSTIMH @ 0x08C10, RW, "8.2.3.26", "System time, high" {}
    TIMINCA @ 0x08C14, RW, "8.2.3.26", "System time increment" {}
    TIMADJL @ 0x08C18, RW, "8.2.3.26", "System time adjustment, low" {}
    TIMADJH @ 0x08C1C, RW, "8.2.3.26", "System time adjustment, high" {}
    TSAUXC @ 0x08C20, RW, "8.2.3.26", "Auxiliary timestamp control" {
        DISABLE_SYSTIME = 1 << 31;
    }
    SYSTIMR @ 0x08C58, RW, "8.2.3.26", "System time below a nanosecond (X550)" {}

    WUC @ 0x05800, RW, "8.2.3.24.1", "Wake-up control" {}
    WUFC @ 0x05808, RW, "8.2.3.24.2", "Wake-up filter control" {}
    WUS @ 0x05810, W1C, "8.2.3.24.3", "Wake-up status" {}
    IPAV @ 0x05838, RW, "8.2.3.24.4", "IP address valid" {}
    MANC @ 0x05820, RW, "8.2.3.25", "Management control" {}
    MFVAL @ 0x05824, RW, "8.2.3.25", "Management filters valid" {}
    MANC2H @ 0x05860, RW, "8.2.3.25", "Management to host" {}
}
