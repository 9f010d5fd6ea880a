//! A virtual function's limits, and where it has its registers.

use port::{Feature, Reason};
use regs::igb::{self, EITR};
use regs::igbvf::*;
use regs::ixgbevf::VECTORS;

use crate::intel::vf::{Registers, Source};
use crate::intel::{ChipInfo, name_at};

/// Virtual functions of the 82576, and of the I350.
pub(super) static I82576: ChipInfo = info(|vendor, device| regs::igbvf::knows(vendor, device, DEVICE));
pub(super) static I350: ChipInfo = info(|vendor, device| regs::igbvf::knows(vendor, device, DEVICE_I350));

/// What is the same for all.
const fn info(knows: fn(u16, u16) -> bool) -> ChipInfo {
    ChipInfo {
        knows,
        known: super::DRIVES,
        register_name: |offset| name_at(table(), offset),
        window: TDWBAH::at(TDWBAH::COUNT - 1) + 4,
        rdt: RDT::REGISTER,
        tdt: TDT::REGISTER,
        features: &[
            Feature::RxChecksum,
            Feature::TxChecksum,
            Feature::Segmentation,
            Feature::UdpSegmentation,
            Feature::VlanInsert,
            Feature::VlanFilter,
            Feature::Scatter,
            Feature::Interrupts,
            Feature::HeadWriteback,
        ],
        vectors: 0..VECTORS - 1, // the last is the mailbox's
        ring: (64, 4096),
        queues: super::MOST_QUEUES,
        queues_limit: "the driver opens one of each kind",
        rss: (1, 1),
        longest: 9_720, // 9,728 with CRC and a tag
        longest_limit: "the limit can be set from 1,514 to 9,720 bytes",
        addresses: 16,
        sums: ["VFGPRC", "VFGORC", "VFGPTC", "VFGOTC"],
    }
}

/// Where it has its registers.
pub(super) static REGISTERS: Registers = Registers {
    ctrl: VTCTRL::REGISTER,
    status: VTSTATUS::REGISTER,
    link: VTSTATUS::REGISTER,
    mailbox: V2PMAILBOX::REGISTER,
    memory: VMBMEM::REGISTER,
    eicr: VTEICR::REGISTER,
    eims: VTEIMS::REGISTER,
    eimc: VTEIMC::REGISTER,
    eiac: VTEIAC::REGISTER,
    eiam: VTEIAM::REGISTER,
    ivar: VTIVAR::REGISTER,
    eitr: VTEITR::REGISTER,
    rdbal: RDBAL::REGISTER,
    rdbah: RDBAH::REGISTER,
    rdlen: RDLEN::REGISTER,
    srrctl: SRRCTL::REGISTER,
    rdh: RDH::REGISTER,
    rdt: RDT::REGISTER,
    rxdctl: RXDCTL::REGISTER,
    tdbal: TDBAL::REGISTER,
    tdbah: TDBAH::REGISTER,
    tdlen: TDLEN::REGISTER,
    tdh: TDH::REGISTER,
    tdt: TDT::REGISTER,
    txdctl: TXDCTL::REGISTER,
    tdwbal: TDWBAL::REGISTER,
    tdwbah: TDWBAH::REGISTER,
    interval: 16 << EITR::INTERVAL_SHIFT, // microseconds
    descriptors: igb::SRRCTL::DESCTYPE_ADV_ONE_BUFFER | igb::SRRCTL::DROP_EN,
    // Fetch eight ahead when one is there; report each as asked (WTHRESH = 0).
    thresholds: 8 << igb::TXDCTL::PTHRESH_SHIFT | 1 << igb::TXDCTL::HTHRESH_SHIFT,
    counters: &[
        Source::one("VFGPRC", VFGPRC::AT, "good frames received"),
        Source::one("VFGORC", VFGORC::AT, "bytes of good frames received"),
        Source::one("VFMPRC", VFMPRC::AT, "multicast frames received"),
        Source::one("VFGPTC", VFGPTC::AT, "good frames sent"),
        Source::one("VFGOTC", VFGOTC::AT, "bytes of good frames sent"),
        Source::one("VFGPRLBC", VFGPRLBC::AT, "good frames received from other functions"),
        Source::one("VFGORLBC", VFGORLBC::AT, "bytes of good frames received from other functions"),
        Source::one("VFGPTLBC", VFGPTLBC::AT, "good frames sent to other functions"),
        Source::one("VFGOTLBC", VFGOTLBC::AT, "bytes of good frames sent to other functions"),
        Source {
            bits: 16,
            clears: true,
            loss: Some(Reason::RxNoDescriptor),
            ..Source::one("RQDPC", RQDPC::at(0), "frames dropped because the queue had no descriptor")
        },
    ],
};
