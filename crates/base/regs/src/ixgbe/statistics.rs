//! Statistics (datasheet 8.2.3.23): counters that clear when read.

use crate::table::registers;

registers! {
    #![ids]

    CRCERRS @ 0x04000, RC, "8.2.3.23.1", "Frames with a wrong CRC" {}
    ILLERRC @ 0x04004, RC, "8.2.3.23.2", "Illegal symbols" {}
    ERRBC @ 0x04008, RC, "8.2.3.23.3", "Error bytes" {}
    MSPDC @ 0x04010, RC, "8.2.3.23", "MAC short packets discarded" {}
    RXMPC[8; 4] @ 0x03FA0, RC, "8.2.3.23.4", "Missed: the packet buffer was full" {}
    MLFC @ 0x04034, RC, "8.2.3.23.5", "Faults of this MAC" {}
    MRFC @ 0x04038, RC, "8.2.3.23.6", "Faults of the other MAC" {}
    RLEC @ 0x04040, RC, "8.2.3.23.7", "Frames whose length field is wrong" {}
    SSVPC @ 0x08780, RC, "8.2.3.23", "Spoofed packets stopped" {}
    LXONTXC @ 0x03F60, RC, "8.2.3.23.8", "XON frames sent" {}
    LXONRXC @ 0x0CF60, RC, "8.2.3.23", "XON frames received (82598)" {}
    LXOFFTXC @ 0x03F68, RC, "8.2.3.23.10", "XOFF frames sent" {}
    LXOFFRXC @ 0x0CF68, RC, "8.2.3.23", "XOFF frames received (82598)" {}
    LXONRXCNT @ 0x041A4, RC, "8.2.3.23.9", "XON frames received" {}
    LXOFFRXCNT @ 0x041A8, RC, "8.2.3.23.11", "XOFF frames received" {}
    PXONTXC[8; 4] @ 0x03F00, RC, "8.2.3.23.12", "Priority XON sent" {}
    PXONRXCNT[8; 4] @ 0x04140, RC, "8.2.3.23.13", "Priority XON received" {}
    PXOFFTXC[8; 4] @ 0x03F20, RC, "8.2.3.23.14", "Priority XOFF sent" {}
    PXOFFRXCNT[8; 4] @ 0x04160, RC, "8.2.3.23.15", "Priority XOFF received" {}
    PXON2OFFCNT[8; 4] @ 0x03240, RC, "8.2.3.23.16", "Priority XON to XOFF" {}
    PRC64 @ 0x0405C, RC, "8.2.3.23.17", "Received, 64 bytes" {}
    PRC127 @ 0x04060, RC, "8.2.3.23.18", "Received, 65 to 127 bytes" {}
    PRC255 @ 0x04064, RC, "8.2.3.23.19", "Received, 128 to 255 bytes" {}
    PRC511 @ 0x04068, RC, "8.2.3.23.20", "Received, 256 to 511 bytes" {}
    PRC1023 @ 0x0406C, RC, "8.2.3.23.21", "Received, 512 to 1023 bytes" {}
    PRC1522 @ 0x04070, RC, "8.2.3.23.22", "Received, 1024 bytes and more" {}
    GPRC @ 0x04074, RC, "8.2.3.23.26", "Good packets received" {}
    BPRC @ 0x04078, RC, "8.2.3.23.23", "Broadcast packets received" {}
    MPRC @ 0x0407C, RC, "8.2.3.23.24", "Multicast packets received" {}
    GPTC @ 0x04080, RC, "8.2.3.23.28", "Good packets sent" {}
    GORCL @ 0x04088, RC, "8.2.3.23.27", "Good bytes received, low 32 bits" {}
    GORCH @ 0x0408C, RC, "8.2.3.23.27", "Good bytes received, high 4 bits" {}
    GOTCL @ 0x04090, RC, "8.2.3.23.29", "Good bytes sent, low 32 bits" {}
    GOTCH @ 0x04094, RC, "8.2.3.23.29", "Good bytes sent, high 4 bits" {}
    RUC @ 0x040A4, RC, "8.2.3.23.31", "Frames too short" {}
    RFC @ 0x040A8, RC, "8.2.3.23.32", "Fragments" {}
    ROC @ 0x040AC, RC, "8.2.3.23.33", "Frames too long" {}
    RJC @ 0x040B0, RC, "8.2.3.23.34", "Jabber" {}
    MNGPRC @ 0x040B4, RC, "8.2.3.23.35", "Management packets received" {}
    MNGPDC @ 0x040B8, RC, "8.2.3.23.36", "Management packets dropped" {}
    MNGPTC @ 0x0CF90, RC, "8.2.3.23.37", "Management packets sent" {}
    TORL @ 0x040C0, RC, "8.2.3.23.38", "All bytes received, low 32 bits" {}
    TORH @ 0x040C4, RC, "8.2.3.23.38", "All bytes received, high 4 bits" {}
    TPR @ 0x040D0, RC, "8.2.3.23.39", "All packets received" {}
    TPT @ 0x040D4, RC, "8.2.3.23.40", "All packets sent" {}
    PTC64 @ 0x040D8, RC, "8.2.3.23.41", "Sent, 64 bytes" {}
    PTC127 @ 0x040DC, RC, "8.2.3.23.42", "Sent, 65 to 127 bytes" {}
    PTC255 @ 0x040E0, RC, "8.2.3.23.43", "Sent, 128 to 255 bytes" {}
    PTC511 @ 0x040E4, RC, "8.2.3.23.44", "Sent, 256 to 511 bytes" {}
    PTC1023 @ 0x040E8, RC, "8.2.3.23.45", "Sent, 512 to 1023 bytes" {}
    PTC1522 @ 0x040EC, RC, "8.2.3.23.46", "Sent, 1024 bytes and more" {}
    MPTC @ 0x040F0, RC, "8.2.3.23.47", "Multicast packets sent" {}
    BPTC @ 0x040F4, RC, "8.2.3.23.48", "Broadcast packets sent" {}
    XEC @ 0x04120, RC, "8.2.3.23.50", "Packets with a wrong checksum, delivered" {}
    RNBC[8; 4] @ 0x03FC0, RC, "8.2.3.23", "Times a packet found no descriptor (82598)" {}
    RXDGPC @ 0x02F50, RC, "8.2.3.23.51", "DMA: good packets received" {}
    RXDGBCL @ 0x02F54, RC, "8.2.3.23.52", "DMA: good bytes received, low" {}
    RXDGBCH @ 0x02F58, RC, "8.2.3.23.52", "DMA: good bytes received, high" {}
    RXDDPC @ 0x02F5C, RC, "8.2.3.23", "DMA: duplicated packets received" {}
    RXDDBCL @ 0x02F60, RC, "8.2.3.23", "DMA: duplicated bytes received, low" {}
    RXDDBCH @ 0x02F64, RC, "8.2.3.23", "DMA: duplicated bytes received, high" {}
    RXLPBKPC @ 0x02F68, RC, "8.2.3.23", "DMA: loopback packets received" {}
    RXLPBKBCL @ 0x02F6C, RC, "8.2.3.23", "DMA: loopback bytes received, low" {}
    RXLPBKBCH @ 0x02F70, RC, "8.2.3.23", "DMA: loopback bytes received, high" {}
    RXDLPBKPC @ 0x02F74, RC, "8.2.3.23", "DMA: duplicated loopback packets received" {}
    RXDLPBKBCL @ 0x02F78, RC, "8.2.3.23", "DMA: duplicated loopback bytes received, low" {}
    RXDLPBKBCH @ 0x02F7C, RC, "8.2.3.23", "DMA: duplicated loopback bytes received, high" {}
    RXNFGPC @ 0x041B0, RC, "8.2.3.23", "Good packets received, whatever the filters say" {}
    RXNFGBCL @ 0x041B4, RC, "8.2.3.23", "Good bytes received, whatever the filters say, low" {}
    RXNFGBCH @ 0x041B8, RC, "8.2.3.23", "Good bytes received, whatever the filters say, high" {}
    TXDGPC @ 0x087A0, RC, "8.2.3.23.53", "DMA: good packets sent" {}
    TXDGBCL @ 0x087A4, RC, "8.2.3.23.54", "DMA: good bytes sent, low" {}
    TXDGBCH @ 0x087A8, RC, "8.2.3.23.54", "DMA: good bytes sent, high" {}
    RQSMR[32; 4] @ 0x02300, RW, "8.2.3.23.71", "Receive queue to counter" {}
    RXDSTATCTRL @ 0x02F40, RW, "8.2.3.23.72", "DMA: which receive queues are counted" {}
    TQSM[32; 4] @ 0x08600, RW, "8.2.3.23.73", "Transmit queue to counter" {}
    QPRC[16; 0x40] @ 0x01030, RC, "8.2.3.23.74", "Packets received, per counter" {}
    QPRDC[16; 0x40] @ 0x01430, RC, "8.2.3.23.75", "Packets dropped for want of a descriptor" {}
    QBRC_L[16; 0x40] @ 0x01034, RC, "8.2.3.23.76", "Bytes received, per counter, low" {}
    QBRC_H[16; 0x40] @ 0x01038, RC, "8.2.3.23.77", "Bytes received, per counter, high" {}
    QPTC[16; 4] @ 0x08680, RC, "8.2.3.23.78", "Packets sent, per counter" {}
    QPTC_ALIAS[16; 0x40] @ 0x06030, RC, "8.2.3.23.78", "Packets sent, where the 82598 has it" {}
    QBTC_L[16; 8] @ 0x08700, RC, "8.2.3.23.79", "Bytes sent, per counter, low" {}
    QBTC_H[16; 8] @ 0x08704, RC, "8.2.3.23.80", "Bytes sent, per counter, high" {}
    FCCRC @ 0x05118, RC, "8.2.3.23", "FCoE frames with a wrong CRC" {}
    FCOERPDC @ 0x0241C, RC, "8.2.3.23", "FCoE frames dropped" {}
    FCLAST @ 0x02424, RC, "8.2.3.23", "FCoE last error" {}
    FCOEPRC @ 0x02428, RC, "8.2.3.23", "FCoE packets received" {}
    FCOEDWRC @ 0x0242C, RC, "8.2.3.23", "FCoE words received" {}
    FCOEPTC @ 0x08784, RC, "8.2.3.23", "FCoE packets sent" {}
    FCOEDWTC @ 0x08788, RC, "8.2.3.23", "FCoE words sent" {}
    BUPRC @ 0x04180, RC, "8.2.3.23", "BMC unicast packets received" {}
    BMPRC @ 0x04184, RC, "8.2.3.23", "BMC multicast packets received" {}
    BBPRC @ 0x04188, RC, "8.2.3.23", "BMC broadcast packets received" {}
    B2OSPC @ 0x041C0, RC, "8.2.3.23", "BMC to OS packets sent" {}
    B2OGPRC @ 0x02F90, RC, "8.2.3.23", "BMC to OS packets received" {}
    O2BGPTC @ 0x041C4, RC, "8.2.3.23", "OS to BMC packets sent" {}
    O2BSPC @ 0x087B0, RC, "8.2.3.23", "OS to BMC packets received" {}
}
