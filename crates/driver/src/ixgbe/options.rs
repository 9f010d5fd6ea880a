//! What an application may choose when it opens a port.

use bus::Bar;
use memory::DATA_ROOM;
use regs::ixgbe::{HLREG0, MAXFRS, RXCSUM};

use super::rss::{self, Rss};
use crate::{Error, Result};

/// How the device tells that packets were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completion {
    /// A bit in every 32nd descriptor or so.
    #[default]
    Report,
    /// Its head index, written to memory.
    Head,
}

/// How a port is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Receive queues, 1 to 128; RSS reaches the first 16 of them.
    pub rx_queues: usize,
    /// Transmit queues, 1 to 128; zero means as many as receive queues.
    pub tx_queues: usize,
    /// Descriptors in each receive ring, a power of two from 64 to 4096.
    pub rx_ring: usize,
    /// Descriptors in each transmit ring, likewise.
    pub tx_ring: usize,
    /// Largest frame in bytes, without CRC and VLAN tag: 1514 to 15,500. Above
    /// 2 KiB, frames come in several buffers.
    pub max_frame: usize,
    /// Receive everything, not only what is addressed to the port.
    pub promiscuous: bool,
    /// Sum up IP payloads too (RXCSUM.IPPCSE). Verdicts on IPv4, TCP and UDP
    /// checksums come in any case: the device has no switch for them.
    pub rx_checksum: bool,
    /// Have the device take VLAN tags off into the metadata.
    pub vlan_strip: bool,
    /// How flows spread over the receive queues; used when there are several.
    pub rss: Rss,
    /// How sent packets are reported.
    pub completion: Completion,
    /// Wire each receive queue's interrupt to an eventfd.
    pub interrupts: bool,
    /// Wait this long for a link when opening; zero does not wait.
    pub link_wait_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            rx_queues: 1,
            tx_queues: 1,
            rx_ring: 512,
            tx_ring: 512,
            max_frame: 1514,
            promiscuous: true,
            rx_checksum: true,
            vlan_strip: false,
            rss: Rss::default(),
            completion: Completion::Report,
            interrupts: false,
            link_wait_ms: 10_000,
        }
    }
}

impl Options {
    /// The most queues of either kind.
    pub const MAX_QUEUES: usize = 128;

    /// The options with defaults filled in, or what is wrong with them.
    pub(super) fn checked(mut self) -> Result<Options> {
        if self.tx_queues == 0 {
            self.tx_queues = self.rx_queues;
        }
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<()> {
        let ring = |option, value: usize| {
            (value.is_power_of_two() && (64..=4096).contains(&value)).then_some(()).ok_or(Error::Option {
                option,
                value,
                limit: "a ring has a power of two of descriptors, from 64 to 4096",
            })
        };
        let range = |option, value, low, high, limit| {
            (low..=high).contains(&value).then_some(()).ok_or(Error::Option { option, value, limit })
        };
        ring("the receive ring", self.rx_ring)?;
        ring("the transmit ring", self.tx_ring)?;
        range(
            "the number of receive queues",
            self.rx_queues,
            1,
            Self::MAX_QUEUES,
            "the device has 1 to 128",
        )?;
        range(
            "the number of transmit queues",
            self.tx_queues,
            1,
            Self::MAX_QUEUES,
            "the device has 1 to 128",
        )?;
        range(
            "the largest frame",
            self.max_frame,
            1514,
            15_500,
            "the limit can be set from 1,514 to 15,500 bytes",
        )
    }

    /// Programs the features that are not on every driver's path; receive must
    /// be off.
    pub(super) fn enable_features(&self, bar: &Bar) {
        if self.max_frame > 1514 {
            let with_crc = self.max_frame as u32 + 4;
            bar.write32(MAXFRS::AT, with_crc << MAXFRS::MFS_SHIFT);
            bar.set32(HLREG0::AT, HLREG0::JUMBOEN);
        }
        // PCSD gives the hash the place that a fragment's checksum would take
        // (8.2.3.7.5), whether checksums are wanted or not.
        let checksums = if self.rx_checksum { RXCSUM::IPPCSE } else { 0 };
        bar.set32(RXCSUM::AT, RXCSUM::PCSD | checksums);
        rss::program(bar, &self.rss, self.rx_queues);
    }

    /// Whether a frame may need more than one buffer. The CRC is stripped; a
    /// VLAN tag or two may stay.
    pub(super) fn scatters(&self) -> bool {
        self.max_frame + 8 > DATA_ROOM
    }
}
