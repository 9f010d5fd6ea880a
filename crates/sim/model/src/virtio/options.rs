//! What distinguishes one virtio network device from another.

use regs::virtio::feature::{self, net};
use regs::virtio::split;

use crate::{MAX_FRAME, MIN_FRAME};

/// When the device looks for buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Notify {
    /// In each step; the driver is asked not to notify.
    #[default]
    Polled,
    /// Once a queue has run empty, only after a notification: a driver that does
    /// not send it waits for ever, as with real devices.
    Wanted,
}

/// A device's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The device's Ethernet address.
    pub mac: [u8; 6],
    /// Queue pairs, 1 to [`Options::MOST_PAIRS`].
    pub pairs: u16,
    /// The most entries of a queue, 2 to 32,768; of a split one, the power of
    /// two that is not more.
    pub queue_size: u16,
    /// Longest frame without its Ethernet header.
    pub mtu: u16,
    /// The speed that the configuration tells, in Mbit/s.
    pub speed: u32,
    /// Features to offer: some of [`Options::ALL`].
    pub features: u64,
    /// When it looks for buffers.
    pub notify: Notify,
    /// Where the driver takes them (GUEST_CSUM), packets come with checksums
    /// that are still to be filled in, as from another guest of one machine.
    pub partial_checksums: bool,
}

impl Options {
    /// The most queue pairs.
    pub const MOST_PAIRS: u16 = 16;

    /// All features the device has.
    pub const ALL: u64 = feature::VERSION_1
        | feature::ACCESS_PLATFORM
        | feature::ANY_LAYOUT
        | feature::INDIRECT_DESC
        | feature::EVENT_IDX
        | feature::IN_ORDER
        | feature::RING_PACKED
        | feature::NOTIFICATION_DATA
        | feature::RING_RESET
        | net::CSUM
        | net::GUEST_CSUM
        | net::CTRL_GUEST_OFFLOADS
        | net::MTU
        | net::MAC
        | net::HOST_TSO4
        | net::HOST_TSO6
        | net::HOST_ECN
        | net::HOST_USO
        | net::MRG_RXBUF
        | net::STATUS
        | net::CTRL_VQ
        | net::CTRL_RX
        | net::CTRL_VLAN
        | net::CTRL_RX_EXTRA
        | net::MQ
        | net::RSS
        | net::HASH_REPORT
        | net::CTRL_MAC_ADDR
        | net::SPEED_DUPLEX;

    /// What it offers unless told otherwise: all but IN_ORDER, which changes how
    /// buffers are given back, and NOTIFICATION_DATA, which changes how it is
    /// notified. RING_PACKED is on: most drivers prefer it.
    pub const DEFAULT: u64 = Options::ALL & !(feature::IN_ORDER | feature::NOTIFICATION_DATA);

    /// As it can be: what is out of range is brought into it, and a feature
    /// without what it requires is not offered.
    pub(super) fn checked(mut self) -> Options {
        self.pairs = self.pairs.clamp(1, Options::MOST_PAIRS);
        self.queue_size = self.queue_size.clamp(2, split::MAX_SIZE);
        self.mtu = self.mtu.clamp(68, (MAX_FRAME - HEADERS) as u16);
        self.features &= Options::ALL;
        if self.pairs == 1 {
            self.features &= !(net::MQ | net::RSS);
        }
        for _ in 0..REQUIRES.len() {
            let lacking =
                |(feature, needed): &&(u64, u64)| self.features & feature != 0 && self.features & needed == 0;
            let Some((feature, _)) = REQUIRES.iter().find(lacking) else { break };
            self.features &= !feature;
        }
        self
    }

    /// The longest frame it receives.
    pub(super) fn longest(&self) -> usize {
        (usize::from(self.mtu) + HEADERS).clamp(MIN_FRAME, MAX_FRAME)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mac: [0x02, 0x49, 0x58, 0, 0, 1],
            pairs: 4,
            queue_size: 1024,
            mtu: 1500,
            speed: 10_000,
            features: Options::DEFAULT,
            notify: Notify::Polled,
            partial_checksums: false,
        }
    }
}

/// Bytes in front of the MTU: Ethernet's header and two tags.
const HEADERS: usize = 14 + 8;

/// Features and of which they require one (2.2, 5.1.3.1).
pub(super) const REQUIRES: &[(u64, u64)] = &[
    (net::GUEST_TSO4, net::GUEST_CSUM),
    (net::GUEST_TSO6, net::GUEST_CSUM),
    (net::HOST_TSO4, net::CSUM),
    (net::HOST_TSO6, net::CSUM),
    (net::HOST_USO, net::CSUM),
    (net::HOST_ECN, net::HOST_TSO4 | net::HOST_TSO6),
    (net::CTRL_RX, net::CTRL_VQ),
    (net::CTRL_RX_EXTRA, net::CTRL_VQ),
    (net::CTRL_VLAN, net::CTRL_VQ),
    (net::MQ, net::CTRL_VQ),
    (net::RSS, net::CTRL_VQ),
    (net::HASH_REPORT, net::CTRL_VQ),
    (net::CTRL_MAC_ADDR, net::CTRL_VQ),
    (net::CTRL_GUEST_OFFLOADS, net::CTRL_VQ),
    (feature::NOTIF_CONFIG_DATA, feature::NOTIFICATION_DATA),
];
