//! What drivers of the family set up once for the card, the port or a VSI, apart from what
//! other modules have: how packets are taken apart and hashed, tags, priorities inside the chip
//! (datasheet chapter 10). Some have no name in public headers but that of a driver.

use crate::table::registers;

registers! {
    #![ids]
    GLINT_CTL @ 0x03F800, RW reserved 0xFFFF_FFF8, "10", "Interrupts of the card: how vectors are disabled" {}
    PRT_L2TAGSEN @ 0x1C0B20, RW reserved 0xFFFF_FF00, "10", "Which tags the port knows" {}
    GL_SWT_L2TAGCTRL[8; 4] @ 0x1C0A70, RW, "10", "Tags of layer 2: their EtherTypes" {}
    VSI_L2TAGSTXVALID[384; 4] @ 0x042800, RW, "10", "Tags that a VSI may send" {}
    VSI_TSR[384; 4] @ 0x050800, RW, "10", "Tags that are taken off what a VSI receives" {}
    GL_SWR_PM_UP_THR @ 0x269FBC, RW, "10", "Priorities inside the chip: a threshold" {}
    GL_SWR_PRI_JOIN_MAP_0 @ 0x26CE00, RW, "10", "Priorities inside the chip, first part" {}
    GL_SWR_PRI_JOIN_MAP_2 @ 0x26CE08, RW, "10", "Priorities inside the chip, third part" {}

    PRTDCB_FCCFG @ 0x1E4640, RW reserved 0xFFFF_FFE7, "10", "Pause frames that are sent" {}
    PRTDCB_MFLCN @ 0x1E2400, RW reserved 0xFFFF_F000, "10", "Pause frames that are acted on" {}

    PFQF_HREGION[8; 128] @ 0x245400, RW, "10", "Regions of queues for the hash, by priority" {}
    PRTQF_CTL_0 @ 0x256E60, RW reserved 0xFFFF_FFFE, "10", "Filters of a port: a hash that is the same both ways" {}
    PRTQF_FLX_PIT[9; 32] @ 0x255200, RW reserved 0xFFFF_0000, "10", "Words of the payload, three ranges for each of three layers" {}
    GLQF_CTL @ 0x269BA4, RW reserved 0xF000_0001, "10", "Filters of the card: which hash, and which filters are given up" {}
    GLQF_HASH_MSK[128; 4] @ 0x267A00, RW, "10", "Which bits are not hashed of a word, two for each packet class" {}
    GLQF_SWAP[128; 4] @ 0x267E00, RW, "10", "Which words are exchanged for a hash that is the same both ways" {}
    GLQF_HSYM[64; 4] @ 0x269D00, RW reserved 0xFFFF_FFFE, "10", "Which packet classes are hashed the same both ways" {}
    GLQF_ORT[64; 4] @ 0x268900, RW reserved 0xFFFF_FF00, "10", "Which ranges of words a packet's layers have" {}
    GLQF_PIT[24; 4] @ 0x268C80, RW reserved 0xFFFF_0000, "10", "Ranges of words of a packet's layers" {}
    GLQF_L3_MAP[64; 4] @ 0x26C700, RW, "10", "Which network header a packet type has" {}
}
