//! What a port can do, as one typed table: an application asks before it relies on
//! something, `ixora info` prints it.

use std::fmt;

/// Something a port may be able to do. Each can be asked for by an option or by a
/// packet, as [`Feature::asked_by`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// The device verifies IPv4, TCP and UDP checksums of received packets.
    RxChecksum,
    /// The device fills in checksums of packets that ask for it.
    TxChecksum,
    /// The device fills in checksums of the packet inside a tunnel's that asks for it.
    TunnelChecksum,
    /// The device cuts a packet into TCP segments.
    Segmentation,
    /// The device cuts a packet into UDP datagrams.
    UdpSegmentation,
    /// The device takes VLAN tags off received frames.
    VlanStrip,
    /// The device puts a VLAN tag into a packet that asks for it.
    VlanInsert,
    /// The device lets only chosen VLANs through.
    VlanFilter,
    /// The device spreads flows over its receive queues.
    Rss,
    /// Received packets carry their flow's hash.
    RssHash,
    /// The table by which flows are spread is changed while packets come.
    RssTable,
    /// Frames longer than a buffer are received and sent in several.
    Scatter,
    /// The port wakes a thread that sleeps.
    Interrupts,
    /// The device reports sent packets by its head index in memory.
    HeadWriteback,
    /// The device leads chosen flows to a queue, or drops them.
    FlowFilter,
    /// The device tells the time at which each frame arrived. Of the NICs driven here the X550 and the X553 do; the
    /// 82599, X540 and 82576 keep the time of one packet in a register until it is read, and these
    /// and the XL710 of PTP's packets alone, so that none of them has this.
    Timestamps,
    /// The device tells the time at which event messages of PTP (IEEE 1588, version 2) arrived, of no
    /// others. The XL710 and its like do, of four that wait to be received.
    PtpTimestamps,
    /// The kernel tells the time at which it got a frame.
    KernelTimestamps,
    /// The port's queues are joined into rings of fixed buffers.
    FixedBuffers,
    /// The device puts packets into tunnels by a table of its own. Of device models that are told
    /// to have one; no NIC has it.
    EncapOffload,
}

impl Feature {
    /// All of them, in the order of the table.
    pub const ALL: [Feature; 20] = [
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
        Feature::FlowFilter,
        Feature::Timestamps,
        Feature::PtpTimestamps,
        Feature::KernelTimestamps,
        Feature::FixedBuffers,
        Feature::EncapOffload,
    ];

    /// Its stable name, as `ixora info --json` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::RxChecksum => "rx-checksum",
            Feature::TxChecksum => "tx-checksum",
            Feature::TunnelChecksum => "tunnel-checksum",
            Feature::Segmentation => "tso",
            Feature::UdpSegmentation => "uso",
            Feature::VlanStrip => "vlan-strip",
            Feature::VlanInsert => "vlan-insert",
            Feature::VlanFilter => "vlan-filter",
            Feature::Rss => "rss",
            Feature::RssHash => "rss-hash",
            Feature::RssTable => "rss-table",
            Feature::Scatter => "scatter",
            Feature::Interrupts => "interrupts",
            Feature::HeadWriteback => "head-writeback",
            Feature::FlowFilter => "flow-filter",
            Feature::Timestamps => "timestamps",
            Feature::PtpTimestamps => "ptp-timestamps",
            Feature::KernelTimestamps => "kernel-timestamps",
            Feature::FixedBuffers => "fixed-buffers",
            Feature::EncapOffload => "encap-offload",
        }
    }

    /// How it is asked for: the option of the command line and of [`crate::Options`],
    /// or what a packet says.
    pub const fn asked_by(self) -> &'static str {
        match self {
            Feature::RxChecksum => "--checksums (Options::rx_checksum)",
            Feature::TxChecksum => "--checksums (Options::tx_checksum), then a packet's TxOffload",
            Feature::TunnelChecksum => {
                "--checksums (Options::tx_checksum), then a packet's TxOffload::TUNNEL"
            }
            Feature::Segmentation => "--checksums (Options::tx_checksum), then a packet's TxOffload::SEGMENT",
            Feature::UdpSegmentation => {
                "--checksums (Options::tx_checksum), then TxOffload::SEGMENT with UDP_CHECKSUM"
            }
            Feature::VlanStrip => "--vlan-strip (Options::vlan_strip)",
            Feature::VlanInsert => "pktgen --vlan, or a packet's TxOffload::VLAN",
            Feature::VlanFilter => "VLAN_FILTER of FromDevice (Options::vlan_filter), then Filters::set_vlan",
            Feature::Rss => "--queues (Options::rss)",
            Feature::RssHash => "--queues (Options::rss)",
            Feature::RssTable => "--queues (Options::rss), then Port::set_flow_queues",
            Feature::Scatter => "--max-frame (Options::max_frame)",
            Feature::Interrupts => "--interrupts (Options::interrupts)",
            Feature::HeadWriteback => "--head-writeback (Options::completion)",
            Feature::FlowFilter => "Filters::add_flow",
            Feature::Timestamps | Feature::PtpTimestamps | Feature::KernelTimestamps => {
                "pcap (Options::timestamps)"
            }
            Feature::FixedBuffers => "fwd --fixed-buffers (Options::fixed_buffers)",
            Feature::EncapOffload => "offload = \"nic\" of an overlay's underlay (Port::encap_offload)",
        }
    }
}

/// Whether a port has a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Support {
    /// The device or its driver cannot do it.
    #[default]
    No,
    /// It can, and the port was opened without it.
    Off,
    /// It can, and does.
    On,
}

impl Support {
    /// [`On`](Support::On) or [`Off`](Support::Off).
    pub fn on_if(on: bool) -> Support {
        if on { Support::On } else { Support::Off }
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Support::No => "no",
            Support::Off => "off",
            Support::On => "on",
        })
    }
}

/// The most that a device and its driver can do. Zero where it has no such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Receive queues that can be opened.
    pub rx_queues: usize,
    /// Transmit queues that can be opened.
    pub tx_queues: usize,
    /// Receive queues that flows can be spread over.
    pub rss_queues: usize,
    /// Entries of the table that spreads them.
    pub rss_table: usize,
    /// The smallest and the largest ring, in descriptors.
    pub ring: (usize, usize),
    /// The longest frame in bytes, without CRC and VLAN tag.
    pub max_frame: usize,
    /// Buffers of one packet that is sent.
    pub tx_segments: usize,
    /// Unicast addresses that are received beside the port's own ([`crate::Filters`]).
    pub unicast_addresses: usize,
    /// Flows that are led to a queue or dropped ([`crate::Filters::add_flow`]).
    pub flow_filters: usize,
    /// Interrupt vectors that the driver can use.
    pub vectors: usize,
}

/// What a driver offers on the device that has the most, known without one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offers {
    /// The most that its ports can do; zero of what depends on the device, too.
    pub limits: Limits,
    /// What they can do, if the device can.
    pub features: Vec<Feature>,
    /// The names of their counters.
    pub counters: Vec<&'static str>,
}

/// What a port can do, so that an application can ask before it relies on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// The driver or medium: `ixgbe`, `pcap`, …
    pub driver: String,
    /// Receive queues that were opened.
    pub rx_queues: usize,
    /// Transmit queues that were opened.
    pub tx_queues: usize,
    /// Largest frame in bytes, without CRC, that the port was opened for.
    pub max_frame: usize,
    /// The most it can do.
    pub limits: Limits,
    /// What of all that can be done it does.
    pub features: Features,
    /// What the device's firmware tells of itself, by name; empty where it has none that does.
    pub firmware: Vec<(&'static str, String)>,
}

impl Capabilities {
    /// Whether the port has a feature.
    pub fn support(&self, feature: Feature) -> Support {
        self.features.0[feature as usize]
    }

    /// Whether it has it, and it is on.
    pub fn has(&self, feature: Feature) -> bool {
        self.support(feature) == Support::On
    }
}

/// The support of each feature; [`Support::No`] of those that were not named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features([Support; Feature::ALL.len()]);

impl<const N: usize> From<[(Feature, Support); N]> for Features {
    fn from(named: [(Feature, Support); N]) -> Features {
        named.into_iter().collect()
    }
}

impl FromIterator<(Feature, Support)> for Features {
    fn from_iter<I: IntoIterator<Item = (Feature, Support)>>(named: I) -> Features {
        let mut features = Features::default();
        for (feature, support) in named {
            features.0[feature as usize] = support;
        }
        features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_feature_at_its_place() {
        for (n, feature) in Feature::ALL.into_iter().enumerate() {
            assert_eq!(feature as usize, n);
            assert!(Feature::ALL[..n].iter().all(|other| other.name() != feature.name()));
            let features = Features::from([(feature, Support::On)]);
            let one = Capabilities { features, ..Capabilities::default() };
            let on = Feature::ALL.into_iter().filter(|f| one.has(*f));
            assert_eq!(on.collect::<Vec<_>>(), [feature]);
        }
    }
}
