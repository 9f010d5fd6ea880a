//! Reset, non-volatile memory, admin queues, host memory cache, interrupts
//! (datasheet chapter 10).

use crate::table::registers;

registers! {
    #![ids]
    GLGEN_RSTCTL @ 0x0B8180, RW reserved 0xFFFF_FEC0, "10", "Reset control: how long a global reset waits" {
        GRSTDEL_MASK = 0x3F;
    }
    GLGEN_RSTAT @ 0x0B8188, RO, "10", "Reset status, and which reset was the last" {
        DEVSTATE_MASK = 3;
        RESET_TYPE_SHIFT = 2;
        RESET_TYPE_MASK = 3 << 2;
    }
    GLGEN_RTRIG @ 0x0B8190, RW reserved 0xFFFF_FFF8, "10", "Reset trigger: core and global" {
        CORER = 1 << 0;
        GLOBR = 1 << 1;
    }
    PFGEN_CTRL @ 0x092400, RW reserved 0xFFFF_FFFE, "10", "Function control" {
        PFSWR = 1 << 0;
    }
    PFGEN_PORTNUM @ 0x1C0480, RO, "10", "Number of the function's port" {
        PORT_NUM_MASK = 3;
    }
    PF_FUNC_RID @ 0x09C000, RO, "10", "PCI function number" {
        FUNCTION_NUMBER_MASK = 7;
    }
    PF_VT_PFALLOC @ 0x1C0500, RO, "10", "Virtual functions of this one" {
        FIRSTVF_MASK = 0xFF;
        LASTVF_SHIFT = 8;
        LASTVF_MASK = 0xFF << 8;
        VALID = 1 << 31;
    }
    GLPCI_CNF2 @ 0x0BE494, RO, "10", "PCIe configuration" {
        MSI_X_PF_N_SHIFT = 2;
        MSI_X_PF_N_MASK = 0x7FF << 2;
        MSI_X_VF_N_SHIFT = 13;
    }
    GLPCI_LBARCTRL @ 0x0BE484, RO, "10", "Sizes of the BARs" {}
    GLPCI_CAPSUP @ 0x0BE4A8, RO, "10", "PCIe capabilities that are supported" {}
    GLGEN_STAT @ 0x0B612C, RO, "10", "Status of the device; drivers read it to push writes out" {}
    PRTGEN_STATUS @ 0x0B8100, RW, "10", "Status of the port" {}
    PRTGEN_CNF[4; 4] @ 0x0B8120, RO, "10", "Configuration of the ports" {
        PORT_DIS = 1 << 0;
    }
    GLGEN_PCIFCNCNT @ 0x1C0AB4, RO, "10", "How many functions the card has" {}
    PRTGL_SAH @ 0x1E2140, RW, "10", "The MAC's longest frame, CRC included" {
        MFS_SHIFT = 16;
    }
    GLVFGEN_TIMER @ 0x0881BC, RO, "10", "Time in microseconds" {}
    GL_FWSTS @ 0x083048, RO, "10", "Firmware status" {}

    GLNVM_GENS @ 0x0B6100, RO, "10", "Non-volatile memory: presence and size of the shadow RAM" {
        NVM_PRES = 1 << 0;
        SR_SIZE_SHIFT = 5;
        SR_SIZE_MASK = 7 << 5;
    }
    GLNVM_FLA @ 0x0B6108, RW reserved 0x2003_FF80, "10", "Flash access" {
        LOCKED = 1 << 6;
    }
    GLNVM_SRCTL @ 0x0B6110, RW reserved 0x0000_3FFE, "10", "Shadow RAM: which word to read" {
        ADDR_SHIFT = 14;
        ADDR_MASK = 0x7FFF << 14;
        WRITE = 1 << 29;
        START = 1 << 30;
        DONE = 1 << 31;
    }
    GLNVM_SRDATA @ 0x0B6114, RW, "10", "Shadow RAM: the word that was read" {
        RDDATA_SHIFT = 16;
    }
    GLNVM_ULD @ 0x0B6008, RO, "10", "Which parts were loaded after a reset" {
        CONF_CORE_DONE = 1 << 3;
        CONF_GLOBAL_DONE = 1 << 4;
    }

    PF_ATQBAL @ 0x080000, RW, "10", "Admin send queue: base, low" {}
    PF_ATQBAH @ 0x080100, RW, "10", "Admin send queue: base, high" {}
    PF_ATQLEN @ 0x080200, RW reserved 0x0FFF_FC00, "10", "Admin send queue: length" {
        LEN_MASK = 0x3FF;
        VFE = 1 << 28;
        OVFL = 1 << 29;
        CRIT = 1 << 30;
        ENABLE = 1 << 31;
    }
    PF_ATQH @ 0x080300, RW reserved 0xFFFF_FC00, "10", "Admin send queue: head" {}
    PF_ATQT @ 0x080400, RW, "10", "Admin send queue: tail" {}
    PF_ARQBAL @ 0x080080, RW, "10", "Admin receive queue: base, low" {}
    PF_ARQBAH @ 0x080180, RW, "10", "Admin receive queue: base, high" {}
    PF_ARQLEN @ 0x080280, RW reserved 0x0FFF_FC00, "10", "Admin receive queue: length" {
        LEN_MASK = 0x3FF;
        ENABLE = 1 << 31;
    }
    PF_ARQH @ 0x080380, RW reserved 0xFFFF_FC00, "10", "Admin receive queue: head" {}
    PF_ARQT @ 0x080480, RW, "10", "Admin receive queue: tail" {}

    PFHMC_SDCMD @ 0x0C0000, RW reserved 0x7FFF_7000, "10", "Host memory cache: segment descriptor command" {
        PMSDIDX_MASK = 0xFFF;
        PMSDWR = 1 << 31;
    }
    PFHMC_SDDATALOW @ 0x0C0100, RW, "10", "Host memory cache: segment descriptor, low" {
        VALID = 1 << 0;
        TYPE_DIRECT = 1 << 1;
        BPCOUNT_SHIFT = 2;
        BPCOUNT_MASK = 0x3FF << 2;
        ADDRESS_MASK = 0xFFFF_F000;
    }
    PFHMC_SDDATAHIGH @ 0x0C0200, RW, "10", "Host memory cache: segment descriptor, high" {}
    PFHMC_PDINV @ 0x0C0300, RW reserved 0xFE00_7000, "10", "Host memory cache: page descriptors to be read anew" {
        PMSDIDX_MASK = 0xFFF;
        PMPDIDX_SHIFT = 16;
    }
    PFHMC_ERRORINFO @ 0x0C0400, RW reserved 0x7FE0_F060, "10", "Host memory cache: what went wrong" {
        ERROR_TYPE_SHIFT = 8;
        OBJECT_TYPE_SHIFT = 16;
        ERROR_DETECTED = 1 << 31;
    }
    PFHMC_ERRORDATA @ 0x0C0500, RO, "10", "Host memory cache: which object that was" {}
    GLHMC_LANTXOBJSZ @ 0x0C2004, RO, "10", "Bytes of a transmit queue's context, as a power of two" {}
    GLHMC_LANQMAX @ 0x0C2008, RO, "10", "The most queues of a function" {}
    GLHMC_LANRXOBJSZ @ 0x0C200C, RO, "10", "Bytes of a receive queue's context, as a power of two" {}
    GLHMC_FCOEDDPOBJSZ @ 0x0C2010, RO, "10", "Bytes of a context of FCoE, as a power of two" {}
    GLHMC_FCOEMAX @ 0x0C2014, RO, "10", "The most contexts of FCoE" {}
    GLHMC_FCOEFOBJSZ @ 0x0C2018, RO, "10", "Bytes of a filter of FCoE, as a power of two" {}
    GLHMC_FCOEFMAX @ 0x0C20D0, RO, "10", "The most filters of FCoE" {
        PMFCOEFMAX_MASK = 0xFFFF;
    }
    GLHMC_LANTXBASE[16; 4] @ 0x0C6200, RW, "10", "Where a function's transmit contexts begin, in 512 bytes" {
        BASE_MASK = 0xFF_FFFF;
    }
    GLHMC_LANTXCNT[16; 4] @ 0x0C6300, RW reserved 0xFFFF_F800, "10", "How many transmit contexts a function has" {}
    GLHMC_LANRXBASE[16; 4] @ 0x0C6400, RW reserved 0xFF00_0000, "10", "Where a function's receive contexts begin, in 512 bytes" {
        BASE_MASK = 0xFF_FFFF;
    }
    GLHMC_LANRXCNT[16; 4] @ 0x0C6500, RW reserved 0xFFFF_F800, "10", "How many receive contexts a function has" {}

    GLHMC_FCOEDDPBASE[16; 4] @ 0x0C6600, RW reserved 0xFF00_0000, "10", "Where a function's contexts of FCoE begin" {}
    GLHMC_FCOEDDPCNT[16; 4] @ 0x0C6700, RW reserved 0xFFF0_0000, "10", "How many contexts of FCoE a function has" {}
    GLHMC_FCOEFBASE[16; 4] @ 0x0C6800, RW reserved 0xFF00_0000, "10", "Where a function's filters of FCoE begin" {}
    GLHMC_FCOEFCNT[16; 4] @ 0x0C6900, RW reserved 0xFF80_0000, "10", "How many filters of FCoE a function has" {}

    PF_MDET_TX @ 0x0E6400, W1C, "10", "Malicious driver detection: a transmit queue of the function" {
        VALID = 1 << 0;
    }

    PFINT_ICR0 @ 0x038780, RC, "10", "Interrupt causes of vector 0" {
        INTEVENT = 1 << 0;
        MAL_DETECT = 1 << 19;
        GRST = 1 << 20;
        HMC_ERR = 1 << 26;
        VFLR = 1 << 29;
        ADMINQ = 1 << 30;
        SWINT = 1 << 31;
    }
    PFINT_ICR0_ENA @ 0x038800, RW reserved 0x0806_FFFF, "10", "Which causes raise vector 0" {
        ADMINQ = 1 << 30;
    }
    PFINT_DYN_CTL0 @ 0x038480, RW reserved 0x38FE_0000, "10", "Vector 0: enable and clear" {
        INTENA = 1 << 0;
        CLEARPBA = 1 << 1;
        SWINT_TRIG = 1 << 2;
        ITR_INDX_SHIFT = 3;
        ITR_INDX_NONE = 3 << 3;
        INTENA_MSK = 1 << 31;
    }
    PFINT_DYN_CTLN[512; 4] @ 0x034800, RW reserved 0x38FE_0000, "10", "Vectors from 1 on: enable and clear" {
        INTENA = 1 << 0;
        CLEARPBA = 1 << 1;
        SWINT_TRIG = 1 << 2;
        ITR_INDX_SHIFT = 3;
        ITR_INDX_NONE = 3 << 3;
        INTERVAL_SHIFT = 5;
        INTERVAL_MASK = 0xFFF << 5;
        WB_ON_ITR = 1 << 30;
        INTENA_MSK = 1 << 31;
    }
    PFINT_LNKLST0 @ 0x038500, RW reserved 0xFFFF_E000, "10", "First queue of vector 0" {
        FIRSTQ_INDX_MASK = 0x7FF;
        FIRSTQ_TYPE_SHIFT = 11;
    }
    PFINT_LNKLSTN[512; 4] @ 0x035000, RW reserved 0xFFFF_E000, "10", "First queue of the vectors from 1 on" {
        FIRSTQ_INDX_MASK = 0x7FF;
        FIRSTQ_TYPE_SHIFT = 11;
    }
    PFINT_ITR0[3; 128] @ 0x038000, RW reserved 0xFFFF_F000, "10", "Time between interrupts of vector 0, in 2 us" {}
    PFINT_ITRN[1536; 4] @ 0x030000, RW, "10", "Time between interrupts, in 2 us: 512 vectors for each of three times" {
        INTERVAL_MASK = 0xFFF;
    }
    PFINT_RATEN[512; 4] @ 0x035800, RW reserved 0xFFFF_FF80, "10", "How many interrupts a vector from 1 on may send at once" {}
    PFINT_STAT_CTL0 @ 0x038400, RW reserved 0xFFFF_FFF3, "10", "Which time the other causes of vector 0 have" {}
    QINT_RQCTL[1536; 4] @ 0x03A000, RW reserved 0x2000_0700, "10", "Interrupts of a receive queue" {
        MSIX_INDX_MASK = 0xFF;
        ITR_INDX_SHIFT = 11;
        ITR_INDX_MASK = 3 << 11;
        NEXTQ_INDX_SHIFT = 16;
        NEXTQ_INDX_MASK = 0x7FF << 16;
        NEXTQ_TYPE_SHIFT = 27;
        CAUSE_ENA = 1 << 30;
        INTEVENT = 1 << 31;
    }
    QINT_TQCTL[1536; 4] @ 0x03C000, RW reserved 0x2000_0700, "10", "Interrupts of a transmit queue" {
        MSIX_INDX_MASK = 0xFF;
        ITR_INDX_SHIFT = 11;
        ITR_INDX_MASK = 3 << 11;
        NEXTQ_INDX_SHIFT = 16;
        NEXTQ_INDX_MASK = 0x7FF << 16;
        NEXTQ_TYPE_SHIFT = 27;
        CAUSE_ENA = 1 << 30;
        INTEVENT = 1 << 31;
    }
}
