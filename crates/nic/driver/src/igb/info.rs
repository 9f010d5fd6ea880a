//! Where the 82576 has what Intel's NICs have in common.

use port::Feature;
use regs::igb::*;

use super::stats::SOURCES;
use crate::intel::ring_registers::rss;
use crate::intel::{ChipInfo, Registers, name_at};

/// What the 82576 is, and its limits.
pub(super) static INFO: ChipInfo = ChipInfo {
    knows: super::knows,
    known: super::DRIVES,
    register_name: |offset| name_at(table(), offset),
    window: 128 << 10, // as the 82599's
    rdt: RDT::REGISTER,
    tdt: TDT::REGISTER,
    features: &[
        Feature::RxChecksum,
        Feature::TxChecksum,
        Feature::Segmentation,
        Feature::UdpSegmentation,
        Feature::VlanStrip,
        Feature::VlanInsert,
        Feature::VlanFilter,
        Feature::Rss,
        Feature::RssHash,
        Feature::RssTable,
        Feature::Scatter,
        Feature::Interrupts,
        Feature::HeadWriteback,
    ],
    vectors: 0..EITR::COUNT,
    ring: (64, 4096),
    queues: super::MOST_QUEUES,
    queues_limit: "the device has 1 to 16",
    rss: (rss::QUEUES, rss::TABLE),
    longest: 9_716, // RLPML's most is 9,728, with CRC and two tags
    longest_limit: "the limit can be set from 1,514 to 9,716 bytes",
    addresses: RAH::COUNT - 1,
    sums: ["GPRC", "GORC", "GPTC", "GOTC"],
};

/// Where it has them.
pub(super) static REGISTERS: Registers = Registers {
    ral: RAL::REGISTER,
    rah: RAH::REGISTER,
    mta: MTA::REGISTER,
    vfta: VFTA::REGISTER,
    rxdctl: RXDCTL::REGISTER,
    reta: RETA::REGISTER,
    rssrk: RSSRK::REGISTER,
    mrqc: MRQC::REGISTER,
    rss_addresses: MRQC::ENABLE_RSS | MRQC::RSS_FIELD_IPV4 | MRQC::RSS_FIELD_IPV6,
    // TCP over IPv6 with the fields of extension headers is the same hash for a
    // packet without them, and the only one that QEMU computes.
    rss_ports: MRQC::RSS_FIELD_IPV4_TCP
        | MRQC::RSS_FIELD_IPV4_UDP
        | MRQC::RSS_FIELD_IPV6_TCP
        | MRQC::RSS_FIELD_IPV6_TCP_EX
        | MRQC::RSS_FIELD_IPV6_UDP,
    eims: EIMS::REGISTER,
    eimc: EIMC::REGISTER,
    counters: SOURCES,
};
