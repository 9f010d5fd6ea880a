//! The 82576's own counters (datasheet 8.19); losses are marked, so that the accounts
//! can be balanced.

use regs::igb as r;

use crate::intel::ring_registers::counters::CounterRegisters::{One, Pair, Sum};
use crate::intel::ring_registers::counters::counters;

counters! {
    CRCERRS One(r::CRCERRS::AT), RxCrc, "frames with a wrong CRC";
    ALGNERRC One(r::ALGNERRC::AT), RxAlignment, "frames out of alignment";
    SYMERRS One(r::SYMERRS::AT), info, "symbol errors";
    RXERRC One(r::RXERRC::AT), RxSymbol, "frames in which the PHY saw an error";
    MPC One(r::MPC::AT), RxFifoFull, "frames missed because the packet buffer was full";
    ECOL One(r::ECOL::AT), TxCollision, "frames not sent because of collisions";
    LATECOL One(r::LATECOL::AT), TxCollision, "late collisions";
    RLEC One(r::RLEC::AT), RxLengthField, "frames whose length field is wrong";
    XONRXC One(r::XONRXC::AT), info, "XON frames received";
    XONTXC One(r::XONTXC::AT), info, "XON frames sent";
    XOFFRXC One(r::XOFFRXC::AT), info, "XOFF frames received";
    XOFFTXC One(r::XOFFTXC::AT), info, "XOFF frames sent";
    FCRUC One(r::FCRUC::AT), info, "flow control frames not understood";
    PRC64 One(r::PRC64::AT), info, "frames received of 64 bytes";
    PRC127 One(r::PRC127::AT), info, "frames received of 65 to 127 bytes";
    PRC255 One(r::PRC255::AT), info, "frames received of 128 to 255 bytes";
    PRC511 One(r::PRC511::AT), info, "frames received of 256 to 511 bytes";
    PRC1023 One(r::PRC1023::AT), info, "frames received of 512 to 1023 bytes";
    PRC1522 One(r::PRC1522::AT), info, "frames received of 1024 bytes and more";
    GPRC One(r::GPRC::AT), info, "good frames received";
    BPRC One(r::BPRC::AT), info, "broadcast frames received";
    MPRC One(r::MPRC::AT), info, "multicast frames received";
    GPTC One(r::GPTC::AT), info, "good frames sent";
    GORC Pair(r::GORCL::AT, r::GORCH::AT), info, "bytes of good frames received";
    GOTC Pair(r::GOTCL::AT, r::GOTCH::AT), info, "bytes of good frames sent";
    RNBC One(r::RNBC::AT), info, "times a frame found no descriptor";
    RUC One(r::RUC::AT), info, "frames too short, which QEMU pads and the chip drops";
    RFC One(r::RFC::AT), RxFragment, "fragments";
    ROC One(r::ROC::AT), RxOversize, "frames too long";
    RJC One(r::RJC::AT), RxJabber, "jabber";
    TOR Pair(r::TORL::AT, r::TORH::AT), info, "bytes of all frames received";
    TOT Pair(r::TOTL::AT, r::TOTH::AT), info, "bytes of all frames sent";
    TPR One(r::TPR::AT), info, "all frames received";
    TPT One(r::TPT::AT), info, "all frames sent";
    PTC64 One(r::PTC64::AT), info, "frames sent of 64 bytes";
    PTC127 One(r::PTC127::AT), info, "frames sent of 65 to 127 bytes";
    PTC255 One(r::PTC255::AT), info, "frames sent of 128 to 255 bytes";
    PTC511 One(r::PTC511::AT), info, "frames sent of 256 to 511 bytes";
    PTC1023 One(r::PTC1023::AT), info, "frames sent of 512 to 1023 bytes";
    PTC1522 One(r::PTC1522::AT), info, "frames sent of 1024 bytes and more";
    MPTC One(r::MPTC::AT), info, "multicast frames sent";
    BPTC One(r::BPTC::AT), info, "broadcast frames sent";
    TSCTC One(r::TSCTC::AT), info, "packets cut into segments";
    RQDPC Sum(r::RQDPC::at(0), 0x40, 16), RxNoDescriptor, "frames dropped because a queue had no descriptor";
}
