//! What an X722 has inside in another way than an XL710: it tells more classes of packets apart, has
//! IPv4's addresses elsewhere in the field vector, and another port and firmware. What its firmware
//! has of its own is in `hash.rs`.
//!
//! It is what the drivers of Linux, FreeBSD and DPDK know of it. Not modelled: RDMA, and filters of
//! Flow Director that a FIN removes.

use regs::i40e::admin::link;
use regs::i40e::{Family, class, inset, vector};
use wire::MacAddress;
use wire::tcp::{self, Flags};

use super::rss::class_of;
use crate::headers::Headers;

/// What a port of the family is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Port {
    /// The type of the one medium there is, and the one speed.
    pub medium: u8,
    pub speed: u8,
    /// Versions of the firmware and of its interface: major and minor of each.
    pub firmware: [u16; 4],
    /// Bits of an entry of the hash's table.
    pub entry_bits: u32,
}

/// The port of a family's chip.
pub(super) fn port(family: Family) -> Port {
    match family {
        Family::Xl710 => Port {
            medium: link::PHY_40GBASE_SR4,
            speed: link::SPEED_40G,
            firmware: [6, 0, 1, 7],
            entry_bits: 6,
        },
        Family::X722 => Port {
            medium: link::PHY_10GBASE_SR,
            speed: link::SPEED_10G,
            firmware: [4, 1, 1, 7],
            entry_bits: 7,
        },
    }
}

/// The class by which a packet is hashed; `None` for what has none.
pub(super) fn hashed_class(family: Family, frame: &[u8], headers: &Headers) -> Option<u32> {
    let class = class_of(frame, headers)?;
    if family == Family::Xl710 {
        return Some(class);
    }
    let to_several = frame.first_chunk().is_some_and(|to| MacAddress(*to).is_multicast());
    Some(match class {
        class::IPV4_UDP if to_several => class::IPV4_UDP_MULTICAST,
        class::IPV4_UDP => class::IPV4_UDP_UNICAST,
        class::IPV4_TCP if is_first(frame, headers) => class::IPV4_TCP_SYN,
        class::IPV6_UDP if to_several => class::IPV6_UDP_MULTICAST,
        class::IPV6_UDP => class::IPV6_UDP_UNICAST,
        class::IPV6_TCP if is_first(frame, headers) => class::IPV6_TCP_SYN,
        class => class,
    })
}

/// Whether a packet of TCP is the first of its connection: SYN without ACK.
fn is_first(frame: &[u8], headers: &Headers) -> bool {
    let header = frame.get(headers.l4.into()..).and_then(tcp::Header::of);
    header.is_some_and(|header| header.flags().contains(Flags::SYN) && !header.flags().contains(Flags::ACK))
}

/// For which class Flow Director takes one: all of UDP is one, and all of TCP.
pub(super) fn directed_class(hashed: u32) -> u32 {
    match hashed {
        class::IPV4_UDP_UNICAST | class::IPV4_UDP_MULTICAST => class::IPV4_UDP,
        class::IPV4_TCP_SYN => class::IPV4_TCP,
        class::IPV6_UDP_UNICAST | class::IPV6_UDP_MULTICAST => class::IPV6_UDP,
        class::IPV6_TCP_SYN => class::IPV6_TCP,
        class => class,
    }
}

/// Where the words of an IPv4 header begin in the field vector: time to live and protocol, source,
/// destination.
pub(super) fn ipv4_words(family: Family) -> [usize; 3] {
    match family {
        Family::Xl710 => [vector::IPV4_PROTOCOL, vector::IPV4_SRC, vector::IPV4_DST],
        Family::X722 => [vector::X722_IPV4_PROTOCOL, vector::X722_IPV4_SRC, vector::X722_IPV4_DST],
    }
}

/// What is hashed of a class of packets unless the driver says otherwise: addresses, and ports where
/// there are any.
pub(super) fn default_inset(family: Family, hashed: u32) -> u64 {
    let v4 = match family {
        Family::Xl710 => inset::IPV4_SRC | inset::IPV4_DST,
        Family::X722 => inset::X722_IPV4_SRC | inset::X722_IPV4_DST,
    };
    let v6 = inset::IPV6_SRC | inset::IPV6_DST;
    let ports = inset::SRC_PORT | inset::DST_PORT;
    let has = |class: u32| family == Family::X722 || class == hashed;
    match directed_class(hashed) {
        class @ (class::IPV4_UDP | class::IPV4_TCP | class::IPV4_SCTP) if has(class) => v4 | ports,
        class::IPV4_OTHER | class::IPV4_FRAGMENT => v4,
        class @ (class::IPV6_UDP | class::IPV6_TCP | class::IPV6_SCTP) if has(class) => v6 | ports,
        class::IPV6_OTHER | class::IPV6_FRAGMENT => v6,
        _ => 0,
    }
}
