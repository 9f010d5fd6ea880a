//! A virtual function's limits, and where its queues' doorbells are.

use port::Feature;
use regs::ixgbe::{SRRCTL, TXDCTL};
use regs::ixgbevf::message::RETA_ENTRIES;
use regs::ixgbevf::*;

use crate::intel::vf::{Registers, Source};
use crate::intel::{ChipInfo, name_at};

/// Addresses beside its own that are asked for.
const ADDRESSES: usize = 16;

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
        Feature::UdpSegmentation,
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

/// Where it has its registers. What had no descriptor is counted by the physical function alone.
pub(super) static REGISTERS: Registers = Registers {
    ctrl: VFCTRL::REGISTER,
    status: VFSTATUS::REGISTER,
    link: VFLINKS::REGISTER,
    mailbox: VFMAILBOX::REGISTER,
    memory: VFMBMEM::REGISTER,
    eicr: VTEICR::REGISTER,
    eims: VTEIMS::REGISTER,
    eimc: VTEIMC::REGISTER,
    eiac: VTEIAC::REGISTER,
    eiam: VTEIAM::REGISTER,
    ivar: VTIVAR::REGISTER,
    eitr: VTEITR::REGISTER,
    rdbal: VFRDBAL::REGISTER,
    rdbah: VFRDBAH::REGISTER,
    rdlen: VFRDLEN::REGISTER,
    srrctl: VFSRRCTL::REGISTER,
    rdh: VFRDH::REGISTER,
    rdt: VFRDT::REGISTER,
    rxdctl: VFRXDCTL::REGISTER,
    tdbal: VFTDBAL::REGISTER,
    tdbah: VFTDBAH::REGISTER,
    tdlen: VFTDLEN::REGISTER,
    tdh: VFTDH::REGISTER,
    tdt: VFTDT::REGISTER,
    txdctl: VFTXDCTL::REGISTER,
    tdwbal: VFTDWBAL::REGISTER,
    tdwbah: VFTDWBAH::REGISTER,
    interval: 8 << 3, // 2.048 µs units in bits 11:3 (8.2.3.5.12)
    descriptors: SRRCTL::DESCTYPE_ADV_ONE_BUFFER | SRRCTL::DROP_EN,
    thresholds: 36 << TXDCTL::PTHRESH_SHIFT | 8 << TXDCTL::HTHRESH_SHIFT,
    counters: &[
        Source::one("VFGPRC", VFGPRC::AT, "good frames received"),
        Source {
            high: Some(VFGORC_MSB::AT),
            bits: 36,
            ..Source::one("VFGORC", VFGORC_LSB::AT, "bytes of good frames received")
        },
        Source::one("VFMPRC", VFMPRC::AT, "multicast frames received"),
        Source::one("VFGPTC", VFGPTC::AT, "good frames sent"),
        Source {
            high: Some(VFGOTC_MSB::AT),
            bits: 36,
            ..Source::one("VFGOTC", VFGOTC_LSB::AT, "bytes of good frames sent")
        },
    ],
};
