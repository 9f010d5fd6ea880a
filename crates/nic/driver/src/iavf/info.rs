//! A virtual function's limits, and where its queues' doorbells are.

use port::Feature;
use regs::iavf::*;

use crate::intel::{ChipInfo, name_at};

/// Entries of the table that spreads flows.
pub(super) const RSS_TABLE: usize = 4 * VFQF_HLUT::COUNT;

/// A virtual function.
pub(super) static INFO: ChipInfo = ChipInfo {
    knows: super::knows,
    known: super::DRIVES,
    register_name: |offset| name_at(TABLE.iter(), offset),
    window: VFQF_HLUT::at(VFQF_HLUT::COUNT - 1) + 4,
    rdt: QRX_TAIL1::REGISTER,
    tdt: QTX_TAIL1::REGISTER,
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
    vectors: 1..VFINT_DYN_CTLN1::COUNT + 1,
    ring: (64, 4096),
    queues: super::MOST_QUEUES,
    queues_limit: "the driver opens 1 to 16, as many as the physical function gives",
    rss: (super::MOST_QUEUES, RSS_TABLE),
    longest: 9_716, // 9,728 with CRC and two tags
    longest_limit: "the limit can be set from 1,514 to 9,716 bytes",
    addresses: 17, // what one that is not trusted may have
    sums: ["PRC", "GORC", "PTC", "GOTC"],
};
