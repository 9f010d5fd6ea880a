//! The XL710's limits, and where its queues' doorbells are.

use port::Feature;
use regs::i40e::*;

use crate::intel::{ChipInfo, name_at};

/// Entries of the table that spreads flows.
pub(super) const RSS_TABLE: usize = 512;

/// Filters of the card's table that the function may use, a pair each of an address and a VLAN: for
/// all its VSIs together. Linux's driver reckons with 3,072 of the whole card
/// (`I40E_MAX_MACVLAN_PER_HW`), which its ports share: with two, so many. Whether a card of four ports
/// gives one more than 768 is known to its firmware alone, which answers ENOSPC when it does not.
pub(super) const FILTERS: usize = 1536;

/// What is known of the XL710 before one is opened.
pub(super) static INFO: ChipInfo = ChipInfo {
    knows: super::knows,
    known: super::DRIVES,
    register_name: |offset| name_at(TABLE.iter(), offset),
    window: GLV_BPRCH::at(GLV_BPRCH::COUNT - 1) + 4,
    rdt: QRX_TAIL::REGISTER,
    tdt: QTX_TAIL::REGISTER,
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
        Feature::FlowFilter,
        Feature::PtpTimestamps,
        Feature::EncapOffload,
    ],
    vectors: 1..PFINT_DYN_CTLN::COUNT + 1,
    ring: (64, 4096),
    queues: super::MOST_QUEUES,
    queues_limit: "the driver opens 1 to 64",
    rss: (super::MOST_QUEUES, RSS_TABLE),
    longest: 9_716, // 9,728 with CRC and two tags
    longest_limit: "the limit can be set from 1,514 to 9,716 bytes",
    addresses: FILTERS - 2, // the port's own and broadcast have one each
    sums: ["PRC", "GORC", "PTC", "GOTC"],
};
