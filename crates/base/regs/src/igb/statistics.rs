//! Statistics (datasheet 8.19): counters that clear when read.

use crate::table::registers;

registers! {
    CRCERRS @ 0x04000, RC, "8.19", "Frames with a wrong CRC" {}
    ALGNERRC @ 0x04004, RC, "8.19", "Frames out of alignment" {}
    SYMERRS @ 0x04008, RC, "8.19", "Symbol errors" {}
    RXERRC @ 0x0400C, RC, "8.19", "Frames in which the PHY saw an error" {}
    MPC @ 0x04010, RC, "8.19", "Missed: the packet buffer was full" {}
    SCC @ 0x04014, RC, "8.19", "Sent after one collision" {}
    ECOL @ 0x04018, RC, "8.19", "Not sent: too many collisions" {}
    MCC @ 0x0401C, RC, "8.19", "Sent after several collisions" {}
    LATECOL @ 0x04020, RC, "8.19", "Late collisions" {}
    COLC @ 0x04028, RC, "8.19", "Collisions" {}
    DC @ 0x04030, RC, "8.19", "Transmissions put off" {}
    RLEC @ 0x04040, RC, "8.19", "Frames whose length field is wrong" {}
    XONRXC @ 0x04048, RC, "8.19", "XON frames received" {}
    XONTXC @ 0x0404C, RC, "8.19", "XON frames sent" {}
    XOFFRXC @ 0x04050, RC, "8.19", "XOFF frames received" {}
    XOFFTXC @ 0x04054, RC, "8.19", "XOFF frames sent" {}
    FCRUC @ 0x04058, RC, "8.19", "Flow control frames not understood" {}
    PRC64 @ 0x0405C, RC, "8.19", "Received, 64 bytes" {}
    PRC127 @ 0x04060, RC, "8.19", "Received, 65 to 127 bytes" {}
    PRC255 @ 0x04064, RC, "8.19", "Received, 128 to 255 bytes" {}
    PRC511 @ 0x04068, RC, "8.19", "Received, 256 to 511 bytes" {}
    PRC1023 @ 0x0406C, RC, "8.19", "Received, 512 to 1023 bytes" {}
    PRC1522 @ 0x04070, RC, "8.19", "Received, 1024 bytes and more" {}
    GPRC @ 0x04074, RC, "8.19", "Good packets received" {}
    BPRC @ 0x04078, RC, "8.19", "Broadcast packets received" {}
    MPRC @ 0x0407C, RC, "8.19", "Multicast packets received" {}
    GPTC @ 0x04080, RC, "8.19", "Good packets sent" {}
    GORCL @ 0x04088, RC, "8.19", "Good bytes received, low 32 bits" {}
    GORCH @ 0x0408C, RC, "8.19", "Good bytes received, high 32 bits" {}
    GOTCL @ 0x04090, RC, "8.19", "Good bytes sent, low 32 bits" {}
    GOTCH @ 0x04094, RC, "8.19", "Good bytes sent, high 32 bits" {}
    RNBC @ 0x040A0, RC, "8.19", "Times a packet found no descriptor" {}
    RUC @ 0x040A4, RC, "8.19", "Frames too short" {}
    RFC @ 0x040A8, RC, "8.19", "Fragments" {}
    ROC @ 0x040AC, RC, "8.19", "Frames too long" {}
    RJC @ 0x040B0, RC, "8.19", "Jabber" {}
    TORL @ 0x040C0, RC, "8.19", "All bytes received, low 32 bits" {}
    TORH @ 0x040C4, RC, "8.19", "All bytes received, high 32 bits" {}
    TOTL @ 0x040C8, RC, "8.19", "All bytes sent, low 32 bits" {}
    TOTH @ 0x040CC, RC, "8.19", "All bytes sent, high 32 bits" {}
    TPR @ 0x040D0, RC, "8.19", "All packets received" {}
    TPT @ 0x040D4, RC, "8.19", "All packets sent" {}
    PTC64 @ 0x040D8, RC, "8.19", "Sent, 64 bytes" {}
    PTC127 @ 0x040DC, RC, "8.19", "Sent, 65 to 127 bytes" {}
    PTC255 @ 0x040E0, RC, "8.19", "Sent, 128 to 255 bytes" {}
    PTC511 @ 0x040E4, RC, "8.19", "Sent, 256 to 511 bytes" {}
    PTC1023 @ 0x040E8, RC, "8.19", "Sent, 512 to 1023 bytes" {}
    PTC1522 @ 0x040EC, RC, "8.19", "Sent, 1024 bytes and more" {}
    MPTC @ 0x040F0, RC, "8.19", "Multicast packets sent" {}
    BPTC @ 0x040F4, RC, "8.19", "Broadcast packets sent" {}
    TSCTC @ 0x040F8, RC, "8.19", "Packets cut into segments" {}
}
