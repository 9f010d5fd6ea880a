//! Interrupts (datasheet 7.3 and 8.2.3.5).

use crate::table::registers;

registers! {
    #![ids]

    EICR @ 0x00800, W1C, "8.2.3.5.1", "Interrupt cause; clears when read" {
        RTX_QUEUE = 0x0000_FFFF;
        FLOW_DIRECTOR = 1 << 16;
        RX_MISS = 1 << 17;
        PCI_EXCEPTION = 1 << 18;
        MAILBOX = 1 << 19;
        LSC = 1 << 20;
        LINKSEC = 1 << 21;
        MNG = 1 << 22;
        GPI_SDP0 = 1 << 24;
        GPI_SDP1 = 1 << 25;
        GPI_SDP2 = 1 << 26;
        GPI_SDP3 = 1 << 27;
        ECC = 1 << 28;
        TCP_TIMER = 1 << 30;
        OTHER = 1 << 31;
    }
    EICS @ 0x00808, WO reserved 1 << 31, "8.2.3.5.2", "Interrupt cause set" {}
    EIAC @ 0x00810, RW, "8.2.3.5.5", "Interrupt auto clear" {}
    EITR[24; 4] @ 0x00820 | [105] @ 0x12300, RW reserved 0x7000_7006, "8.2.3.5.12", "Interrupt throttling" {
        LLI_EN = 1 << 0;
        INTERVAL_SHIFT = 3;
        INTERVAL_MASK = 0xFF8;
        LLI_MODERATION = 1 << 15;
        CNT_WDIS = 1 << 31;
    }
    EIMS @ 0x00880, RW reserved 1 << 31, "8.2.3.5.3", "Interrupt mask set; reads the mask" {}
    EIMC @ 0x00888, WO reserved 1 << 31, "8.2.3.5.4", "Interrupt mask clear" {}
    EIAM @ 0x00890, RW, "8.2.3.5.6", "Interrupt auto mask" {}
    EITRSEL @ 0x00894, RW, "8.2.3.5.13", "MSI-X to EITR select" {}
    GPIE @ 0x00898, RW, "8.2.3.5.18", "General purpose interrupt enable" {
        SDP0_GPIEN = 1 << 0;
        SDP1_GPIEN = 1 << 1;
        SDP2_GPIEN = 1 << 2;
        SDP3_GPIEN = 1 << 3;
        MULTIPLE_MSIX = 1 << 4;
        OCD = 1 << 5;
        EIMEN = 1 << 6;
        LL_INTERVAL_SHIFT = 7;
        RSC_DELAY_SHIFT = 11;
        VT_MODE_SHIFT = 14;
        EIAME = 1 << 30;
        PBA_SUPPORT = 1 << 31;
    }
    IVAR[64; 4] @ 0x00900, RW reserved 0x4040_4040, "8.2.3.5.14", "Vectors of the queues' interrupts" {
        VALID = 1 << 7;
        VECTOR_MASK = 0x3F;
    }
    IVAR_MISC @ 0x00A00, RW reserved 0xFFFF_4040, "8.2.3.5.15", "Vectors of the other interrupts" {
        VALID = 1 << 7;
        VECTOR_MASK = 0x3F;
    }
    EICS_EX[2; 4] @ 0x00A90, WO, "8.2.3.5.7", "Interrupt cause set, per queue" {}
    EIMS_EX[2; 4] @ 0x00AA0, RW, "8.2.3.5.8", "Interrupt mask set, per vector" {}
    EIMC_EX[2; 4] @ 0x00AB0, WO, "8.2.3.5.9", "Interrupt mask clear, per vector" {}
    EIAM_EX[2; 4] @ 0x00AD0, RW, "8.2.3.5.10", "Interrupt auto mask, per vector" {}
    PBACL[8; 4] @ 0x110C0, W1C, "8.2.3.6", "MSI-X pending bits clear" {}
    PBACL_ALIAS @ 0x11068, W1C, "8.2.3.6", "The first of them, where the 82598 has it" {}
}
