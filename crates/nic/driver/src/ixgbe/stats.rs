//! The 82599's own counters (datasheet 8.2.3.23); losses are marked, so that the
//! accounts can be balanced.

use regs::ixgbe as r;

use crate::intel::ring_registers::counters::CounterRegisters::{One, Pair, Queue, Sum};
use crate::intel::ring_registers::counters::counters;

counters! {
    CRCERRS One(r::CRCERRS::AT), RxCrc, "frames with a wrong CRC";
    ILLERRC One(r::ILLERRC::AT), info, "illegal symbols";
    ERRBC One(r::ERRBC::AT), info, "error bytes";
    MLFC One(r::MLFC::AT), info, "faults of this MAC";
    MRFC One(r::MRFC::AT), info, "faults of the other MAC";
    RXMPC Sum(r::RXMPC::at(0), 4, 8), RxFifoFull, "frames missed because the packet buffer was full";
    RLEC One(r::RLEC::AT), RxLengthField, "frames whose length field is wrong";
    LXONTXC One(r::LXONTXC::AT), info, "XON frames sent";
    LXONRXCNT One(r::LXONRXCNT::AT), info, "XON frames received";
    LXOFFTXC One(r::LXOFFTXC::AT), info, "XOFF frames sent";
    LXOFFRXCNT One(r::LXOFFRXCNT::AT), info, "XOFF frames received";
    PRC64 One(r::PRC64::AT), info, "frames received of 64 bytes";
    PRC127 One(r::PRC127::AT), info, "frames received of 65 to 127 bytes";
    PRC255 One(r::PRC255::AT), info, "frames received of 128 to 255 bytes";
    PRC511 One(r::PRC511::AT), info, "frames received of 256 to 511 bytes";
    PRC1023 One(r::PRC1023::AT), info, "frames received of 512 to 1023 bytes";
    PRC1522 One(r::PRC1522::AT), info, "frames received of 1024 bytes and more";
    BPRC One(r::BPRC::AT), info, "broadcast frames received";
    MPRC One(r::MPRC::AT), info, "multicast frames received";
    GPRC One(r::GPRC::AT), info, "good frames received";
    GORC Pair(r::GORCL::AT, r::GORCH::AT), info, "bytes of good frames received";
    GPTC One(r::GPTC::AT), info, "good frames sent";
    GOTC Pair(r::GOTCL::AT, r::GOTCH::AT), info, "bytes of good frames sent";
    RNBC Sum(r::RNBC::at(0), 4, 8), info, "times a frame found no descriptor";
    RUC One(r::RUC::AT), RxUndersize, "frames too short";
    RFC One(r::RFC::AT), RxFragment, "fragments";
    ROC One(r::ROC::AT), RxOversize, "frames too long";
    RJC One(r::RJC::AT), RxJabber, "jabber";
    TOR Pair(r::TORL::AT, r::TORH::AT), info, "bytes of all frames received";
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
    XEC One(r::XEC::AT), info, "frames with a wrong checksum, delivered";
    QPRC Queue(r::QPRC::at(0), 0x40, 16), info, "frames received into queues";
    QPRDC Queue(r::QPRDC::at(0), 0x40, 16), RxNoDescriptor, "frames dropped because a queue had no descriptor";
    QPTC Sum(r::QPTC::at(0), 4, 16), info, "frames sent from queues";
}
