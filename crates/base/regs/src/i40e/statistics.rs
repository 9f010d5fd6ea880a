//! Statistics of a port (datasheet chapter 10): counters of 32 and 48 bits that do not
//! clear when they are read, four ports each, and of a VSI, 384 on a card.

use crate::table::registers;

registers! {
    #![ids]
    GLPRT_GORCL[4; 8] @ 0x300000, RO, "10", "Good bytes received, CRC included, low 32 bits" {}
    GLPRT_GORCH[4; 8] @ 0x300004, RO, "10", "Good bytes received, CRC included, high 16 bits" {}
    GLPRT_UPRCL[4; 8] @ 0x3005A0, RO, "10", "Unicast packets received, low 32 bits" {}
    GLPRT_UPRCH[4; 8] @ 0x3005A4, RO, "10", "Unicast packets received, high 16 bits" {}
    GLPRT_MPRCL[4; 8] @ 0x3005C0, RO, "10", "Multicast packets received, low 32 bits" {}
    GLPRT_MPRCH[4; 8] @ 0x3005C4, RO, "10", "Multicast packets received, high 16 bits" {}
    GLPRT_BPRCL[4; 8] @ 0x3005E0, RO, "10", "Broadcast packets received, low 32 bits" {}
    GLPRT_BPRCH[4; 8] @ 0x3005E4, RO, "10", "Broadcast packets received, high 16 bits" {}
    GLPRT_GOTCL[4; 8] @ 0x300680, RO, "10", "Good bytes sent, CRC included, low 32 bits" {}
    GLPRT_GOTCH[4; 8] @ 0x300684, RO, "10", "Good bytes sent, CRC included, high 16 bits" {}
    GLPRT_UPTCL[4; 8] @ 0x3009C0, RO, "10", "Unicast packets sent, low 32 bits" {}
    GLPRT_UPTCH[4; 8] @ 0x3009C4, RO, "10", "Unicast packets sent, high 16 bits" {}
    GLPRT_MPTCL[4; 8] @ 0x3009E0, RO, "10", "Multicast packets sent, low 32 bits" {}
    GLPRT_MPTCH[4; 8] @ 0x3009E4, RO, "10", "Multicast packets sent, high 16 bits" {}
    GLPRT_BPTCL[4; 8] @ 0x300A00, RO, "10", "Broadcast packets sent, low 32 bits" {}
    GLPRT_BPTCH[4; 8] @ 0x300A04, RO, "10", "Broadcast packets sent, high 16 bits" {}
    GLPRT_PRC64L[4; 8] @ 0x300480, RO, "10", "Received, 64 bytes, low 32 bits" {}
    GLPRT_PRC64H[4; 8] @ 0x300484, RO, "10", "Received, 64 bytes, high 16 bits" {}
    GLPRT_PRC127L[4; 8] @ 0x3004A0, RO, "10", "Received, 65 to 127 bytes, low 32 bits" {}
    GLPRT_PRC127H[4; 8] @ 0x3004A4, RO, "10", "Received, 65 to 127 bytes, high 16 bits" {}
    GLPRT_PRC255L[4; 8] @ 0x3004C0, RO, "10", "Received, 128 to 255 bytes, low 32 bits" {}
    GLPRT_PRC255H[4; 8] @ 0x3004C4, RO, "10", "Received, 128 to 255 bytes, high 16 bits" {}
    GLPRT_PRC511L[4; 8] @ 0x3004E0, RO, "10", "Received, 256 to 511 bytes, low 32 bits" {}
    GLPRT_PRC511H[4; 8] @ 0x3004E4, RO, "10", "Received, 256 to 511 bytes, high 16 bits" {}
    GLPRT_PRC1023L[4; 8] @ 0x300500, RO, "10", "Received, 512 to 1023 bytes, low 32 bits" {}
    GLPRT_PRC1023H[4; 8] @ 0x300504, RO, "10", "Received, 512 to 1023 bytes, high 16 bits" {}
    GLPRT_PRC1522L[4; 8] @ 0x300520, RO, "10", "Received, 1024 to 1522 bytes, low 32 bits" {}
    GLPRT_PRC1522H[4; 8] @ 0x300524, RO, "10", "Received, 1024 to 1522 bytes, high 16 bits" {}
    GLPRT_PRC9522L[4; 8] @ 0x300540, RO, "10", "Received, 1523 bytes and more, low 32 bits" {}
    GLPRT_PRC9522H[4; 8] @ 0x300544, RO, "10", "Received, 1523 bytes and more, high 16 bits" {}
    GLPRT_PTC64L[4; 8] @ 0x3006A0, RO, "10", "Sent, 64 bytes, low 32 bits" {}
    GLPRT_PTC64H[4; 8] @ 0x3006A4, RO, "10", "Sent, 64 bytes, high 16 bits" {}
    GLPRT_PTC127L[4; 8] @ 0x3006C0, RO, "10", "Sent, 65 to 127 bytes, low 32 bits" {}
    GLPRT_PTC127H[4; 8] @ 0x3006C4, RO, "10", "Sent, 65 to 127 bytes, high 16 bits" {}
    GLPRT_PTC255L[4; 8] @ 0x3006E0, RO, "10", "Sent, 128 to 255 bytes, low 32 bits" {}
    GLPRT_PTC255H[4; 8] @ 0x3006E4, RO, "10", "Sent, 128 to 255 bytes, high 16 bits" {}
    GLPRT_PTC511L[4; 8] @ 0x300700, RO, "10", "Sent, 256 to 511 bytes, low 32 bits" {}
    GLPRT_PTC511H[4; 8] @ 0x300704, RO, "10", "Sent, 256 to 511 bytes, high 16 bits" {}
    GLPRT_PTC1023L[4; 8] @ 0x300720, RO, "10", "Sent, 512 to 1023 bytes, low 32 bits" {}
    GLPRT_PTC1023H[4; 8] @ 0x300724, RO, "10", "Sent, 512 to 1023 bytes, high 16 bits" {}
    GLPRT_PTC1522L[4; 8] @ 0x300740, RO, "10", "Sent, 1024 to 1522 bytes, low 32 bits" {}
    GLPRT_PTC1522H[4; 8] @ 0x300744, RO, "10", "Sent, 1024 to 1522 bytes, high 16 bits" {}
    GLPRT_PTC9522L[4; 8] @ 0x300760, RO, "10", "Sent, 1523 bytes and more, low 32 bits" {}
    GLPRT_PTC9522H[4; 8] @ 0x300764, RO, "10", "Sent, 1523 bytes and more, high 16 bits" {}
    GLPRT_CRCERRS[4; 8] @ 0x300080, RO, "10", "Frames with a wrong CRC" {}
    GLPRT_ILLERRC[4; 8] @ 0x3000E0, RO, "10", "Frames with an illegal byte" {}
    GLPRT_RLEC[4; 8] @ 0x3000A0, RO, "10", "Frames whose length field is wrong" {}
    GLPRT_RUC[4; 8] @ 0x300100, RO, "10", "Frames too short" {}
    GLPRT_RFC[4; 8] @ 0x300560, RO, "10", "Fragments" {}
    GLPRT_ROC[4; 8] @ 0x300120, RO, "10", "Frames too long" {}
    GLPRT_RJC[4; 8] @ 0x300580, RO, "10", "Jabber" {}
    GLPRT_MLFC[4; 8] @ 0x300020, RO, "10", "Local faults of the MAC" {}
    GLPRT_MRFC[4; 8] @ 0x300040, RO, "10", "Remote faults of the MAC" {}
    GLPRT_LXONRXC[4; 8] @ 0x300140, RO, "10", "XON frames received" {}
    GLPRT_LXOFFRXC[4; 8] @ 0x300160, RO, "10", "XOFF frames received" {}
    GLPRT_LXONTXC[4; 8] @ 0x300980, RO, "10", "XON frames sent" {}
    GLPRT_LXOFFTXC[4; 8] @ 0x3009A0, RO, "10", "XOFF frames sent" {}
    GLPRT_PXONRXC[32; 8] @ 0x300180, RO, "10", "XON frames of a priority received, by priority and port" {}
    GLPRT_PXOFFRXC[32; 8] @ 0x300280, RO, "10", "XOFF frames of a priority received" {}
    GLPRT_PXONTXC[32; 8] @ 0x300780, RO, "10", "XON frames of a priority sent" {}
    GLPRT_PXOFFTXC[32; 8] @ 0x300880, RO, "10", "XOFF frames of a priority sent" {}
    GLPRT_RXON2OFFCNT[32; 8] @ 0x300380, RO, "10", "Changes of a priority from XON to XOFF" {}
    GLPRT_RDPC[4; 8] @ 0x300600, RO, "10", "Packets dropped in the packet buffer" {}
    GL_RXERR1L[144; 8] @ 0x318000, RO, "10", "Frames with errors that came for a function, low 32 bits: virtual ones, then 16 physical" {}
    GL_RXERR1H[144; 8] @ 0x318004, RO, "10", "Frames with errors that came for a function, high bits" {}
    GLPRT_RUPP[4; 8] @ 0x300660, RO, "10", "Packets of an unknown protocol received" {}
    GLPRT_TDOLD[4; 8] @ 0x300A20, RO, "10", "Packets not sent because the link was down" {}
    GLV_GORCL[384; 8] @ 0x358000, RO, "10", "Bytes that came for a VSI, low 32 bits" {}
    GLV_GORCH[384; 8] @ 0x358004, RO, "10", "Bytes that came for a VSI, high 16 bits" {}
    GLV_GOTCL[384; 8] @ 0x328000, RO, "10", "Bytes that a VSI sent, low 32 bits" {}
    GLV_GOTCH[384; 8] @ 0x328004, RO, "10", "Bytes that a VSI sent, high 16 bits" {}
    GLV_RUPP[384; 8] @ 0x36E400, RO, "10", "Packets of an unknown protocol that came for a VSI" {}
    GLV_TEPC[384; 8] @ 0x344000, RO, "10", "Packets that a VSI could not send" {}
    GLV_UPRCL[384; 8] @ 0x36C000, RO, "10", "Unicast packets that came for a VSI, low 32 bits" {}
    GLV_UPRCH[384; 8] @ 0x36C004, RO, "10", "Unicast packets that came for a VSI, high 16 bits" {}
    GLV_MPRCL[384; 8] @ 0x36CC00, RO, "10", "Multicast packets that came for a VSI, low 32 bits" {}
    GLV_MPRCH[384; 8] @ 0x36CC04, RO, "10", "Multicast packets that came for a VSI, high 16 bits" {}
    GLV_BPRCL[384; 8] @ 0x36D800, RO, "10", "Broadcast packets that came for a VSI, low 32 bits" {}
    GLV_BPRCH[384; 8] @ 0x36D804, RO, "10", "Broadcast packets that came for a VSI, high 16 bits" {}
    GLV_UPTCL[384; 8] @ 0x33C000, RO, "10", "Unicast packets that a VSI sent, low 32 bits" {}
    GLV_UPTCH[384; 8] @ 0x33C004, RO, "10", "Unicast packets that a VSI sent, high 16 bits" {}
    GLV_MPTCL[384; 8] @ 0x33CC00, RO, "10", "Multicast packets that a VSI sent, low 32 bits" {}
    GLV_MPTCH[384; 8] @ 0x33CC04, RO, "10", "Multicast packets that a VSI sent, high 16 bits" {}
    GLV_BPTCL[384; 8] @ 0x33D800, RO, "10", "Broadcast packets that a VSI sent, low 32 bits" {}
    GLV_BPTCH[384; 8] @ 0x33D804, RO, "10", "Broadcast packets that a VSI sent, high 16 bits" {}
    PRTPM_EEE_STAT @ 0x1E4320, RO, "10", "Energy Efficient Ethernet: state" {}
    PRTPM_RLPIC @ 0x1E43A0, RO, "10", "Energy Efficient Ethernet: idle times received" {}
    PRTPM_TLPIC @ 0x1E43C0, RO, "10", "Energy Efficient Ethernet: idle times sent" {}
    GLV_RDPC[384; 8] @ 0x310000, RO, "10", "Packets that a VSI dropped because no descriptor was there" {}
}
