//! What an application may choose when it opens a port.

use memory::DATA_ROOM;

use super::chip::Facts;
use super::rss::Rss;
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
    /// Receive queues, 1 to 128 (82576: 16); RSS reaches the first 16 of them.
    pub rx_queues: usize,
    /// Transmit queues, 1 to 128 (82576: 16); zero means as many as receive queues.
    pub tx_queues: usize,
    /// Descriptors in each receive ring, a power of two from 64 to 4096.
    pub rx_ring: usize,
    /// Descriptors in each transmit ring, likewise.
    pub tx_ring: usize,
    /// Largest frame in bytes, without CRC and VLAN tag: 1514 to 15,500
    /// (82576: 9,716). Above 2 KiB, frames come in several buffers.
    pub max_frame: usize,
    /// Receive everything, not only what is addressed to the port.
    pub promiscuous: bool,
    /// Have the device verify checksums. The 82599 has no switch for IPv4, TCP
    /// and UDP: their verdicts come in any case, and this is for IP payloads
    /// (RXCSUM.IPPCSE).
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
    /// The most queues of either kind that any chip has.
    pub const MAX_QUEUES: usize = 128;

    /// The options with defaults filled in, or what is wrong with them.
    pub(crate) fn checked(mut self, facts: &Facts) -> Result<Options> {
        if self.tx_queues == 0 {
            self.tx_queues = self.rx_queues;
        }
        self.check(facts)?;
        Ok(self)
    }

    fn check(&self, facts: &Facts) -> Result<()> {
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
        let queues = (facts.queues, facts.queues_limit);
        range("the number of receive queues", self.rx_queues, 1, queues.0, queues.1)?;
        range("the number of transmit queues", self.tx_queues, 1, queues.0, queues.1)?;
        range("the largest frame", self.max_frame, 1514, facts.longest, facts.longest_limit)
    }

    /// Whether a frame may need more than one buffer. The CRC is stripped; a
    /// VLAN tag or two may stay.
    pub(crate) fn scatters(&self) -> bool {
        self.max_frame + 8 > DATA_ROOM
    }
}
