//! Where the 82599 has what Intel's NICs have in common, and the features that
//! are not on every driver's path.

use port::{Feature, Options};
use regs::ixgbe::*;

use super::device::Chip;
use super::stats::SOURCES;
use crate::intel::ring_registers::rss;
use crate::intel::{ChipInfo, Registers, name_at};

/// The 82599 and its relatives.
pub(super) static INFO: ChipInfo = ChipInfo {
    knows: super::knows,
    known: super::DRIVES,
    register_name: |offset| name_at(TABLE.iter(), offset),
    window: 128 << 10, // 9.3.6.1
    rdt: RDT::REGISTER,
    tdt: TDT::REGISTER,
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
        Feature::RssTable,
        Feature::Scatter,
        Feature::Interrupts,
        Feature::HeadWriteback,
        Feature::Timestamps,
        Feature::FixedBuffers,
        Feature::EncapOffload,
    ],
    vectors: 0..64,
    ring: (64, 4096),
    queues: super::MOST_QUEUES,
    queues_limit: "the device has 1 to 128",
    rss: (rss::QUEUES, rss::TABLE),
    longest: 15_500, // MAXFRS, 8.2.3.22.13: 15.5 KiB in practice
    longest_limit: "the limit can be set from 1,514 to 15,500 bytes",
    addresses: RAL::COUNT - 1,
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
    rss_addresses: MRQC::MRQE_RSS | MRQC::RSS_FIELD_IPV4 | MRQC::RSS_FIELD_IPV6,
    rss_ports: MRQC::RSS_FIELD_IPV4_TCP
        | MRQC::RSS_FIELD_IPV4_UDP
        | MRQC::RSS_FIELD_IPV6_TCP
        | MRQC::RSS_FIELD_IPV6_UDP,
    eims: EIMS_EX::REGISTER,
    eimc: EIMC_EX::REGISTER,
    counters: SOURCES,
};

impl Chip {
    /// Programs the features that are not on every driver's path; receive must
    /// be off.
    pub(super) fn enable_features(&self, options: &Options) {
        let bar = &self.bar;
        if options.max_frame > 1514 {
            let with_crc = options.max_frame as u32 + 4;
            bar.write32(MAXFRS::AT, with_crc << MAXFRS::MFS_SHIFT);
            bar.set32(HLREG0::AT, HLREG0::JUMBOEN);
        }
        if options.vlan_filter {
            bar.set32(VLNCTRL::AT, VLNCTRL::VFE);
        }
        // PCSD gives the hash the place that a fragment's checksum would take
        // (8.2.3.7.5), whether checksums are wanted or not.
        let checksums = if options.rx_checksum.where_free() { RXCSUM::IPPCSE } else { 0 };
        bar.set32(RXCSUM::AT, RXCSUM::PCSD | checksums);
        rss::program(bar, &REGISTERS, &options.rss, options.rx_queues);
        if options.timestamps {
            self.start_timestamps();
        }
    }
}
