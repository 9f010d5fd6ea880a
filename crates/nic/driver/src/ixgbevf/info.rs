//! A virtual function's limits, and where its queues' doorbells are.

use port::Feature;
use regs::ixgbevf::message::RETA_ENTRIES;
use regs::ixgbevf::*;

use crate::intel::{ChipInfo, name_at};

/// Addresses beside its own that are asked for.
pub(super) const ADDRESSES: usize = 16;

/// A virtual function.
pub(super) static INFO: ChipInfo = ChipInfo {
    knows: super::knows,
    known: super::DRIVES,
    register_name: |offset| name_at(TABLE.iter(), offset),
    window: VFTDWBAH::at(VFTDWBAH::COUNT - 1) + 4,
    rdt: VFRDT::REGISTER,
    tdt: VFTDT::REGISTER,
    features: &[
        Feature::RxChecksum,
        Feature::TxChecksum,
        Feature::TunnelChecksum,
        Feature::Segmentation,
        Feature::VlanStrip,
        Feature::VlanInsert,
        Feature::VlanFilter,
        Feature::Rss,
        Feature::RssHash,
        Feature::Scatter,
        Feature::Interrupts,
        Feature::HeadWriteback,
    ],
    vectors: 0..VECTORS - 1, // the last is the mailbox's
    ring: (64, 4096),
    queues: super::MOST_QUEUES,
    queues_limit: "the driver opens 1 to 4, as many as the physical function gives",
    rss: (super::MOST_QUEUES, RETA_ENTRIES),
    longest: 9_724, // 9,728 with CRC, as the physical functions' drivers allow
    longest_limit: "the limit can be set from 1,514 to 9,724 bytes",
    addresses: ADDRESSES,
    sums: ["VFGPRC", "VFGORC", "VFGPTC", "VFGOTC"],
};
