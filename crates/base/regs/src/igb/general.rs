//! Control, status, PHY, EEPROM, semaphores; interrupts.

use crate::table::registers;

registers! {
    CTRL @ 0x00000, RW, "8.2.1", "Device control" {
        FD = 1 << 0;
        GIO_MASTER_DISABLE = 1 << 2;
        SLU = 1 << 6;
        FRCSPD = 1 << 11;
        FRCDPLX = 1 << 12;
        RST = 1 << 26;
        RFCE = 1 << 27;
        TFCE = 1 << 28;
        VME = 1 << 30;
        PHY_RST = 1 << 31;
    }
    STATUS @ 0x00008, RO, "8.2.2", "Device status" {
        FD = 1 << 0;
        LU = 1 << 1;
        LAN_ID_SHIFT = 2;
        LAN_ID_MASK = 3 << 2;
        SPEED_MASK = 3 << 6;
        SPEED_10M = 0 << 6;
        SPEED_100M = 1 << 6;
        GIO_MASTER_ENABLE = 1 << 19;
    }
    EEC @ 0x00010, RW, "8.4", "EEPROM and Flash control" {
        PRES = 1 << 8;
        AUTO_RD = 1 << 9;
    }
    CTRL_EXT @ 0x00018, RW, "8.2.3", "Extended device control" {
        NS_DIS = 1 << 16;
        RO_DIS = 1 << 17;
        LINK_MODE_MASK = 3 << 22;
        EXTENDED_VLAN = 1 << 26;
        DRV_LOAD = 1 << 28;
    }
    MDIC @ 0x00020, RW, "8.2.4", "PHY access" {
        DATA_MASK = 0xFFFF;
        REGADD_SHIFT = 16;
        PHYADD_SHIFT = 21;
        OP_WRITE = 1 << 26;
        OP_READ = 2 << 26;
        R = 1 << 28;
        E = 1 << 30;
    }
    VET @ 0x00038, RW, "8.2", "VLAN EtherType" {}
    SWSM @ 0x05B50, RW, "8.7", "Software semaphore; reading takes SMBI" {
        SMBI = 1 << 0;
        SWESMBI = 1 << 1;
    }
    SW_FW_SYNC @ 0x05B5C, RW, "8.7", "Which of software and firmware uses what" {
        SW_PHY0 = 1 << 1;
        SW_PHY1 = 1 << 2;
        FW_SHIFT = 16;
    }

    GPIE @ 0x01514, RW, "8.8", "General purpose interrupt enable" {
        NSICR = 1 << 0;
        MULTIPLE_MSIX = 1 << 4;
        EIAME = 1 << 30;
        PBA_SUPPORT = 1 << 31;
    }
    EICS @ 0x01520, WO, "8.8", "Interrupt cause set, per vector" {}
    EIMS @ 0x01524, RW, "8.8", "Interrupt mask set, per vector; reads the mask" {}
    EIMC @ 0x01528, WO, "8.8", "Interrupt mask clear, per vector" {}
    EIAC @ 0x0152C, RW, "8.8", "Interrupt auto clear, per vector" {}
    EIAM @ 0x01530, RW, "8.8", "Interrupt auto mask, per vector" {}
    EICR @ 0x01580, RC, "8.8", "Interrupt cause, per vector" {}
    EITR[25; 4] @ 0x01680, RW, "8.8", "Interrupt throttling" {
        INTERVAL_SHIFT = 2;
        INTERVAL_MASK = 0x7FFC;
        CNT_IGNR = 1 << 31;
    }
    IVAR[8; 4] @ 0x01700, RW, "8.8", "Vectors of queues n and n + 8: receive, transmit, receive, transmit" {
        VALID = 1 << 7;
        VECTOR_MASK = 0x1F;
    }
    IVAR_MISC @ 0x01740, RW, "8.8", "Vectors of the other interrupts" {}
    ICR @ 0x01500, RC, "8.8.7", "Interrupt cause, other" {
        LSC = 1 << 2;
    }
    IMS @ 0x01508, RW, "8.8.9", "Interrupt mask set, other" {}
    IMC @ 0x0150C, WO, "8.8.10", "Interrupt mask clear, other" {}
}
