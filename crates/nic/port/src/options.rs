//! How a port is opened: the one set of options of all drivers. A driver refuses
//! what its device cannot do ([`OptionError`]); what has no meaning for a device is
//! ignored there, and the option says so.

use crate::OptionError;

/// How the device tells that packets were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completion {
    /// A bit in every 32nd descriptor or so.
    #[default]
    Report,
    /// Its head index, written to memory (Intel's NICs).
    Head,
}

/// Whether a port takes work from the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offload {
    /// If that costs the driver nothing per packet.
    #[default]
    WhereFree,
    /// Yes, whatever it costs.
    On,
    /// No, even where it is free.
    Off,
}

impl Offload {
    /// Whether it is wanted, where it costs the driver nothing.
    pub fn where_free(self) -> bool {
        self != Offload::Off
    }

    /// Whether it is wanted, where it costs the driver something.
    pub fn at_a_cost(self) -> bool {
        self == Offload::On
    }
}

/// How flows spread over the receive queues: a Toeplitz hash over addresses and
/// ports picks an entry of a table, and the entry a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rss {
    /// The hash key.
    pub key: [u8; 40],
    /// A queue for each of 128 table entries; `None` deals them out in turn.
    pub table: Option<Box<[u8; 128]>>,
    /// Hash TCP and UDP ports too, not only addresses.
    pub ports: bool,
    /// Have the hash reported where it costs the driver something (virtio), with
    /// one queue too.
    pub report: bool,
}

impl Rss {
    /// The key of Microsoft's verification suite, for which vendors publish test
    /// vectors.
    pub const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
}

impl Default for Rss {
    fn default() -> Rss {
        Rss { key: Rss::KEY, table: None, ports: true, report: false }
    }
}

/// Which of its two interfaces a virtio device on PCI is driven by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VirtioInterface {
    /// The modern one, if the device has it.
    #[default]
    Auto,
    /// The modern one.
    Modern,
    /// The legacy one, of legacy and transitional devices.
    Legacy,
}

/// What only virtio devices know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtioOptions {
    /// The interface to use.
    pub interface: VirtioInterface,
    /// Features that may be taken; for tests and comparisons.
    pub features: u64,
    /// Take EVENT_IDX with packed rings too. QEMU's back end then loses a kick when
    /// it was busy: it asks to be told at a place that it has gone past, and waits
    /// for ever. Split rings are not concerned.
    pub packed_event_index: bool,
}

impl Default for VirtioOptions {
    fn default() -> VirtioOptions {
        VirtioOptions { interface: VirtioInterface::Auto, features: u64::MAX, packed_event_index: false }
    }
}

/// How a port is opened, whatever drives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How many receive queues are opened.
    pub rx_queues: usize,
    /// Transmit queues; zero means as many as receive queues. All but Intel's NICs
    /// have them in pairs.
    pub tx_queues: usize,
    /// Entries of each receive ring, a power of two from 64 to 4096 (virtio: 16 to
    /// 32,768; the device may have fewer).
    pub rx_ring: usize,
    /// Entries of each transmit ring, likewise.
    pub tx_ring: usize,
    /// Largest frame in bytes, without CRC and VLAN tag: from 1514 to 15,500, less
    /// on some devices. Above 2 KiB, frames come in several buffers.
    pub max_frame: usize,
    /// Receive everything, not only what is addressed to the port.
    pub promiscuous: bool,
    /// The address to use where the device has none or lets it be changed (virtio).
    pub mac: Option<[u8; 6]>,
    /// Have the device verify checksums. For virtio that costs a look at each
    /// packet's header, and packets whose checksum is not filled in come too: the
    /// driver does it then.
    pub rx_checksum: Offload,
    /// Let the device fill in checksums and cut segments. Intel's NICs can in any
    /// case; for virtio it costs a look at each packet's header.
    pub tx_checksum: Offload,
    /// Have the device take VLAN tags off into the metadata (Intel's NICs).
    pub vlan_strip: bool,
    /// Let only untagged frames and chosen VLANs through;
    /// [`set_vlan`](crate::Filters::set_vlan) chooses them.
    pub vlan_filter: bool,
    /// How flows spread over the receive queues; used when there are several.
    pub rss: Rss,
    /// How sent packets are reported.
    pub completion: Completion,
    /// Wire each receive queue's interrupt to an eventfd.
    pub interrupts: bool,
    /// Have packets carry the time at which they were received, in their annotations: where
    /// the device ([`Feature::Timestamps`](crate::Feature), and of messages of PTP
    /// [`Feature::PtpTimestamps`](crate::Feature)) or the kernel
    /// ([`Feature::KernelTimestamps`](crate::Feature)) takes it; zero of a packet of which it is not
    /// known. A device's costs the driver about as much for each packet as a frame of several
    /// buffers does.
    pub timestamps: bool,
    /// Open the port for fixed buffers: its one receive queue and one transmit queue are given
    /// to nobody, but joined with other ports' by the driver (82599: `driver::ixgbe::FixedRing`),
    /// and sent packets are reported by head write-back.
    pub fixed_buffers: bool,
    /// Bring the port up, but let no frame in before [`Port::start`](crate::Port::start): whoever
    /// opens several receive queues fills their rings first, so that no frame finds a queue whose
    /// thread is late without descriptors. Intel's physical functions; ignored by all other ports
    /// and with [`fixed_buffers`](Options::fixed_buffers), which receive at once: virtual functions
    /// and virtio devices have no switch for all receive queues, and for interfaces the kernel keeps
    /// frames.
    pub deferred_start: bool,
    /// Wait this long for a link when opening; zero does not wait.
    pub link_wait_ms: u64,
    /// What only virtio devices know.
    pub virtio: VirtioOptions,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            rx_queues: 1,
            tx_queues: 0,
            rx_ring: 512,
            tx_ring: 512,
            max_frame: 1514,
            promiscuous: true,
            mac: None,
            rx_checksum: Offload::default(),
            tx_checksum: Offload::default(),
            vlan_strip: false,
            vlan_filter: false,
            rss: Rss::default(),
            completion: Completion::default(),
            interrupts: false,
            timestamps: false,
            fixed_buffers: false,
            deferred_start: false,
            link_wait_ms: 10_000,
            virtio: VirtioOptions::default(),
        }
    }
}

impl Options {
    /// The options with as many transmit queues as are wanted, never zero for want
    /// of a number.
    #[must_use]
    pub fn filled_in(mut self) -> Options {
        if self.tx_queues == 0 {
            self.tx_queues = self.rx_queues;
        }
        self
    }

    /// How many queues of each kind, for a device that has them in pairs.
    ///
    /// # Errors
    /// When the numbers differ, or are not from 1 to `most`.
    pub fn queue_pairs(&self, most: usize, limit: &'static str) -> Result<usize, OptionError> {
        let differ = self.tx_queues != 0 && self.tx_queues != self.rx_queues;
        if differ {
            let (option, value) = ("the number of transmit queues", self.tx_queues);
            let limit = "this device has its queues in pairs: as many as receive queues";
            return Err(OptionError { option, value, limit });
        }
        in_range("the number of queue pairs", self.rx_queues, 1, most, limit)?;
        Ok(self.rx_queues)
    }

    /// Checks that both rings are powers of two in a range.
    ///
    /// # Errors
    /// When one is not.
    pub fn check_rings(&self, low: usize, high: usize, limit: &'static str) -> Result<(), OptionError> {
        for (option, value) in [("the receive ring", self.rx_ring), ("the transmit ring", self.tx_ring)] {
            if !value.is_power_of_two() || !(low..=high).contains(&value) {
                return Err(OptionError { option, value, limit });
            }
        }
        Ok(())
    }

    /// Checks the largest frame against the device's.
    ///
    /// # Errors
    /// When it is longer, or shorter than Ethernet's.
    pub fn check_frame(&self, most: usize, limit: &'static str) -> Result<(), OptionError> {
        in_range("the largest frame", self.max_frame, 1514, most, limit)
    }

    /// Checks the numbers of queues of a device that has no pairs.
    ///
    /// # Errors
    /// When one is zero or beyond `most`.
    pub fn check_queues(&self, most: usize, limit: &'static str) -> Result<(), OptionError> {
        in_range("the number of receive queues", self.rx_queues, 1, most, limit)?;
        in_range("the number of transmit queues", self.tx_queues, 1, most, limit)
    }
}

fn in_range(
    option: &'static str,
    value: usize,
    low: usize,
    high: usize,
    limit: &'static str,
) -> Result<(), OptionError> {
    (low..=high).contains(&value).then_some(()).ok_or(OptionError { option, value, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_pairs() {
        let pairs = |rx_queues, tx_queues| {
            let options = Options { rx_queues, tx_queues, ..Options::default() };
            options.queue_pairs(8, "1 to 8").map_err(|error| error.option)
        };
        assert_eq!((pairs(3, 0), pairs(3, 3)), (Ok(3), Ok(3)));
        assert_eq!(pairs(3, 2), Err("the number of transmit queues"));
        assert_eq!(
            (pairs(0, 0), pairs(9, 9)),
            (Err("the number of queue pairs"), Err("the number of queue pairs"))
        );
        assert_eq!(Options::default().filled_in().tx_queues, 1);
    }

    #[test]
    fn rings_and_frames_have_their_limits() {
        let ring = |rx_ring| Options { rx_ring, ..Options::default() }.check_rings(64, 4096, "").is_ok();
        assert_eq!(
            [64, 4096, 63, 96, 32, 8192, 0].map(ring),
            [true, true, false, false, false, false, false]
        );
        let frame = |max_frame| Options { max_frame, ..Options::default() }.check_frame(9000, "").is_ok();
        assert_eq!([1514, 9000, 1513, 9001].map(frame), [true, true, false, false]);
    }
}
