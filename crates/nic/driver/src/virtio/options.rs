//! What an application may choose when it opens a virtio port.

use crate::{Error, Result};

/// Which of its two interfaces a PCI device is driven by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interface {
    /// The modern one, if the device has it.
    #[default]
    Auto,
    /// The modern one.
    Modern,
    /// The legacy one, of legacy and transitional devices.
    Legacy,
}

/// How a port is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Pairs of a receive and a transmit queue.
    pub queue_pairs: usize,
    /// Entries wanted in each receive queue, a power of two from 16 to 32,768.
    /// The device may have fewer; a legacy device's number is its own.
    pub rx_ring: usize,
    /// Entries wanted in each transmit queue, likewise.
    pub tx_ring: usize,
    /// Largest frame in bytes, without VLAN tag: 1514 to 15,500. Above 2 KiB,
    /// frames come in several buffers, which the device must offer (MRG_RXBUF).
    pub max_frame: usize,
    /// Receive everything, not only what is addressed to the port.
    pub promiscuous: bool,
    /// Take verdicts on checksums, and packets whose checksum is not filled in
    /// (GUEST_CSUM): the driver does that. Costs a look at each packet's header.
    pub rx_checksum: bool,
    /// Let the device fill in TCP and UDP checksums and cut segments (CSUM,
    /// HOST_TSO4, HOST_TSO6). Without it the driver fills checksums in, and the
    /// device need not look at headers.
    pub tx_checksum: bool,
    /// Let only chosen VLANs through (CTRL_VLAN).
    pub vlan_filter: bool,
    /// Have the device report a hash with each packet, and spread flows by it
    /// where there are several queues (HASH_REPORT, RSS).
    pub rss: bool,
    /// Wire each receive queue's interrupt to an eventfd.
    pub interrupts: bool,
    /// Take EVENT_IDX with packed rings too. QEMU's back end then loses a kick when it
    /// was busy: it asks to be told at a place that it has gone past, and waits for
    /// ever. Split rings are not concerned.
    pub packed_event_index: bool,
    /// The address to use where the device has none or lets it be changed.
    pub mac: Option<[u8; 6]>,
    /// The interface to use.
    pub interface: Interface,
    /// Features that may be taken; for tests and comparisons.
    pub features: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            queue_pairs: 1,
            rx_ring: 256,
            tx_ring: 256,
            max_frame: 1514,
            promiscuous: true,
            rx_checksum: false,
            tx_checksum: false,
            vlan_filter: false,
            rss: false,
            interrupts: false,
            packed_event_index: false,
            mac: None,
            interface: Interface::Auto,
            features: u64::MAX,
        }
    }
}

impl Options {
    /// The most queue pairs: their number doubled and the control queue's fit the
    /// doorbell's 16 bits.
    pub const MAX_PAIRS: usize = 0x4000;

    pub(super) fn check(&self) -> Result<()> {
        let ring = |option, value: usize| {
            let fits = value.is_power_of_two() && (16..=32768).contains(&value);
            let limit = "a ring has a power of two of entries, from 16 to 32,768";
            fits.then_some(()).ok_or(Error::Option { option, value, limit })
        };
        ring("the receive ring", self.rx_ring)?;
        ring("the transmit ring", self.tx_ring)?;
        if !(1..=Self::MAX_PAIRS).contains(&self.queue_pairs) {
            let limit = "a device has 1 to 16,384";
            return Err(Error::Option {
                option: "the number of queue pairs",
                value: self.queue_pairs,
                limit,
            });
        }
        if !(1514..=15_500).contains(&self.max_frame) {
            let limit = "the limit can be set from 1,514 to 15,500 bytes";
            return Err(Error::Option { option: "the largest frame", value: self.max_frame, limit });
        }
        Ok(())
    }

    /// Bytes of the largest frame with the two VLAN tags it may carry.
    pub(super) fn frame_bytes(&self) -> usize {
        self.max_frame + 8
    }
}
