//! What the generations of the chip have in different ways: XL710 with X710 and XXV710, and X722,
//! which came later.
//!
//! It is what the drivers of Linux, FreeBSD and DPDK do differently with an X722. Packet types,
//! descriptors, contexts, filters and statistics are the same.

use regs::i40e::{Family, class, device, inset};

/// What a generation has in its own way.
#[derive(Debug)]
pub(crate) struct Generation {
    /// The firmware sets key and table of the hash, of each VSI. Else they are registers.
    pub hash_by_commands: bool,
    /// Registers that packets are hashed and matched by are accessed by commands, so that the device
    /// is not disturbed under load. Else directly: the X722's firmware has no such command.
    pub receive_by_commands: bool,
    /// It stamps messages of PTP over UDP, whatever its firmware.
    pub stamps_udp: bool,
    /// Classes of packets over IPv4 and over IPv6 that have ports, of those that are hashed.
    with_ports: [&'static [u32]; 2],
    /// Both addresses of IPv4, among what can be hashed and compared.
    ///
    /// CONTRADICTION: DPDK's driver has those of the X722 for either, Linux's for what is hashed alone.
    ipv4: u64,
}

/// The XL710 and its like.
pub(crate) static XL710: Generation = Generation {
    hash_by_commands: false,
    receive_by_commands: true,
    stamps_udp: false,
    with_ports: [&[class::IPV4_UDP, class::IPV4_TCP], &[class::IPV6_UDP, class::IPV6_TCP]],
    ipv4: inset::IPV4_SRC | inset::IPV4_DST,
};

/// The X722, which tells UDP to one and to several hosts apart, and the first packet of a
/// connection of TCP.
pub(crate) static X722: Generation = Generation {
    hash_by_commands: true,
    receive_by_commands: false,
    stamps_udp: true,
    with_ports: [
        &[
            class::IPV4_UDP_UNICAST,
            class::IPV4_UDP_MULTICAST,
            class::IPV4_UDP,
            class::IPV4_TCP_SYN,
            class::IPV4_TCP,
        ],
        &[
            class::IPV6_UDP_UNICAST,
            class::IPV6_UDP_MULTICAST,
            class::IPV6_UDP,
            class::IPV6_TCP_SYN,
            class::IPV6_TCP,
        ],
    ],
    ipv4: inset::X722_IPV4_SRC | inset::X722_IPV4_DST,
};

/// Both addresses of IPv6, likewise.
const IPV6: u64 = inset::IPV6_SRC | inset::IPV6_DST;

/// Classes without ports that are hashed.
const WITHOUT_PORTS: [u32; 4] =
    [class::IPV4_OTHER, class::IPV4_FRAGMENT, class::IPV6_OTHER, class::IPV6_FRAGMENT];

impl Generation {
    /// The generation of a device, by its PCI device id; one of another family has none, and is not
    /// attached.
    pub fn of(id: u16) -> &'static Generation {
        match device(id).map(|device| device.family) {
            Some(Family::X722) => &X722,
            Some(Family::Xl710) | None => &XL710,
        }
    }

    /// Classes that are hashed and have ports.
    pub fn with_ports(&self) -> impl Iterator<Item = u32> {
        self.with_ports.into_iter().flatten().copied()
    }

    /// All classes that are hashed, a bit each: all of IP but SCTP, of which the device hashes more
    /// than ports.
    pub fn hashed(&self) -> u64 {
        self.with_ports().chain(WITHOUT_PORTS).fold(0, |bits, n| bits | 1 << n)
    }

    /// The addresses of a class of packets, among what can be hashed and compared.
    pub fn addresses(&self, class: u32) -> u64 {
        if class <= class::IPV4_FRAGMENT { self.ipv4 } else { IPV6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_has_its_classes_and_addresses() {
        assert_eq!(XL710.hashed(), 0x6A1A_8000_0000);
        assert_eq!(X722.hashed(), 0x6F9B_E000_0000, "as Linux's driver expands them, without SCTP");
        assert_eq!(Generation::of(0x37D2).addresses(class::IPV4_TCP_SYN), 0x0006_0600_0000_0000);
        assert_eq!(Generation::of(0x1583).addresses(class::IPV4_TCP), 0x0001_8018_0000_0000);
        assert_eq!(X722.addresses(class::IPV6_UDP_UNICAST), XL710.addresses(class::IPV6_UDP));
    }
}
