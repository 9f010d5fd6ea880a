//! What the end of a tunnel has to know of the packet that it puts into one: a number by
//! which its flow is told from others, its traffic class, and where its IP header is.

use crate::ethernet::{self, EtherType};
use crate::flow::MAX_TAGS;
use crate::ip::{Ports, Protocol};
use crate::{ipv4, ipv6, vlan};

/// What is known of a packet that a tunnel carries. Nothing is verified, and whatever the
/// bytes are there is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inner {
    /// A number that is the same for all packets of a flow: of addresses, protocol and ports,
    /// of a fragment without ports; of a frame without IP, of its Ethernet addresses. As
    /// with [`flow::hash`](crate::flow::hash), of which this is a faster variant with other
    /// numbers, it keeps nobody out.
    pub hash: u32,
    /// Where the IP header begins; `None` without one.
    pub network_offset: Option<u16>,
    /// Whether the IP header is one of version 6.
    pub is_v6: bool,
    /// The IP header's traffic class; 0 without one.
    pub traffic_class: u8,
    /// Whether routers must not fragment the packet: always true of IPv6.
    pub dont_fragment: bool,
}

/// Odd numbers with bits everywhere (the fractions of the golden ratio and of the roots of
/// two and three).
const MULTIPLIERS: [u64; 3] = [0x9E37_79B9_7F4A_7C15, 0x6A09_E667_F3BC_C909, 0xBB67_AE85_84CA_A73B];

#[inline(always)]
fn mix(state: u64, word: u64, multiplier: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(multiplier);
    product ^ product >> 32
}

impl Inner {
    /// Of an Ethernet frame. Up to [`MAX_TAGS`] VLAN tags are skipped.
    #[inline]
    pub fn of_frame(frame: &[u8]) -> Inner {
        Inner::look_at_frame::<true>(frame)
    }

    /// Of an IP packet of either version.
    #[inline]
    pub fn of_packet(packet: &[u8]) -> Inner {
        Inner::look_at_packet::<true>(packet)
    }

    /// As [`of_frame`](Inner::of_frame) but for the hash, which is 0: for who tells nobody of
    /// flows.
    #[inline]
    pub fn of_frame_unhashed(frame: &[u8]) -> Inner {
        Inner::look_at_frame::<false>(frame)
    }

    /// As [`of_packet`](Inner::of_packet) but for the hash, which is 0.
    #[inline]
    pub fn of_packet_unhashed(packet: &[u8]) -> Inner {
        Inner::look_at_packet::<false>(packet)
    }

    #[inline(always)]
    fn look_at_frame<const HASHED: bool>(frame: &[u8]) -> Inner {
        let Some(header) = ethernet::Header::of(frame) else { return Inner::default() };
        let (mut at, mut ethertype) = (ethernet::HEADER_LEN, header.ethertype());
        for _ in 0..MAX_TAGS {
            if !ethertype.is_tag() {
                break;
            }
            let Some(tag) = frame.get(at..).and_then(vlan::Header::of) else { break };
            ethertype = tag.ethertype();
            at += vlan::HEADER_LEN;
        }
        let packet = frame.get(at..).unwrap_or_default();
        let inner = match ethertype {
            EtherType::IPV4 => Inner::of_v4::<HASHED>(packet, at),
            EtherType::IPV6 => Inner::of_v6::<HASHED>(packet, at),
            _ => None,
        };
        inner.unwrap_or_else(|| {
            if !HASHED {
                return Inner::default();
            }
            let word = |bytes: [u8; 6]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            let state = mix(word(header.dst().0), u64::from(ethertype.0) << 48, MULTIPLIERS[0]);
            Inner { hash: mix(state, word(header.src().0), MULTIPLIERS[1]) as u32, ..Inner::default() }
        })
    }

    #[inline(always)]
    fn look_at_packet<const HASHED: bool>(packet: &[u8]) -> Inner {
        let inner = match packet.first().map(|first| ipv4::version(*first)) {
            Some(4) => Inner::of_v4::<HASHED>(packet, 0),
            Some(6) => Inner::of_v6::<HASHED>(packet, 0),
            _ => None,
        };
        inner.unwrap_or_default()
    }

    #[inline(always)]
    fn of_v4<const HASHED: bool>(packet: &[u8], at: usize) -> Option<Inner> {
        let header = ipv4::Header::of(packet)?;
        let inner = Inner {
            hash: 0,
            network_offset: u16::try_from(at).ok(),
            is_v6: false,
            traffic_class: header.traffic_class(),
            dont_fragment: header.dont_fragment(),
        };
        if !HASHED {
            return Some(inner);
        }
        let pair = u64::from(header.src().to_bits()) << 32 | u64::from(header.dst().to_bits());
        let state = mix(MULTIPLIERS[1], pair, MULTIPLIERS[0]);
        let upper = if header.is_fragment() { None } else { packet.get(header.header_len()..) };
        Some(Inner { hash: with_ports(state, header.protocol(), upper), ..inner })
    }

    #[inline(always)]
    fn of_v6<const HASHED: bool>(packet: &[u8], at: usize) -> Option<Inner> {
        let header = ipv6::Header::of(packet)?;
        let inner = Inner {
            hash: 0,
            network_offset: u16::try_from(at).ok(),
            is_v6: true,
            traffic_class: header.traffic_class(),
            dont_fragment: true,
        };
        if !HASHED {
            return Some(inner);
        }
        let [src, dst] = [header.src().to_bits(), header.dst().to_bits()];
        let mut state = mix(MULTIPLIERS[1], (src >> 64) as u64, MULTIPLIERS[0]);
        for word in [src as u64, (dst >> 64) as u64, dst as u64] {
            state = mix(state, word, MULTIPLIERS[0]);
        }
        // The way through extension headers is not worth its cost: the label tells flows apart
        // where there are any (RFC 6437).
        let state = mix(state, header.flow_label().into(), MULTIPLIERS[1]);
        let upper = packet.get(ipv6::HEADER_LEN..);
        Some(Inner { hash: with_ports(state, header.next_header(), upper), ..inner })
    }
}

/// The number of a flow of this protocol, with its ports where it has them.
#[inline(always)]
fn with_ports(state: u64, protocol: Protocol, upper: Option<&[u8]>) -> u32 {
    let has_ports = matches!(
        protocol,
        Protocol::TCP | Protocol::UDP | Protocol::SCTP | Protocol::DCCP | Protocol::UDP_LITE
    );
    let ports = upper.filter(|_| has_ports).and_then(Ports::of);
    let ports = ports.map_or(0, |ports| u64::from(ports.src()) << 16 | u64::from(ports.dst()));
    mix(state, u64::from(protocol.0) << 32 | ports, MULTIPLIERS[2]) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet of UDP with these fragment bits and ports, in a frame.
    fn v4(fragment: u16, ports: [u8; 4], last: u8) -> Vec<u8> {
        let [high, low] = fragment.to_be_bytes();
        let ip = [0x45, 0xB9, 0, 40, 0, 7, high, low, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, last];
        [&[2; 12][..], &[8, 0], &ip, &ports, &[0; 8]].concat()
    }

    fn v6(label: u8, next: u8, ports: [u8; 4]) -> Vec<u8> {
        let ip = [&[0x6B, 0x90, 0, label, 0, 12, next, 64][..], &[0xFD; 32]].concat();
        [&[2; 12][..], &[0x86, 0xDD], &ip, &ports, &[0; 8]].concat()
    }

    #[test]
    fn flows_have_numbers() {
        let hash = |frame: Vec<u8>| Inner::of_frame(&frame).hash;
        let first = hash(v4(0x4000, [0, 1, 0, 2], 2));
        assert_eq!(first, hash(v4(0, [0, 1, 0, 2], 2)), "the same flow");
        assert_ne!(first, hash(v4(0, [0, 1, 0, 3], 2)), "another port");
        assert_ne!(first, hash(v4(0, [0, 1, 0, 2], 3)), "another address");
        let fragment = hash(v4(0x2000, [0, 1, 0, 2], 2));
        assert_eq!(fragment, hash(v4(0x00B9, [9, 9, 9, 9], 2)), "fragments have no ports");
        let sixth = hash(v6(0, 17, [0, 1, 0, 2]));
        assert_ne!(sixth, hash(v6(0, 17, [0, 1, 0, 3])));
        assert_ne!(sixth, hash(v6(9, 17, [0, 1, 0, 2])));
        assert_eq!(
            hash(v6(9, 44, [0, 1, 0, 2])),
            hash(v6(9, 44, [0, 1, 0, 3])),
            "no ports behind other headers"
        );
        let arp = |last: u8| [&[2; 11][..], &[last, 8, 6], &[0; 46]].concat();
        assert_ne!(hash(arp(2)), hash(arp(3)));
    }

    #[test]
    fn what_else_is_read() {
        let frame = v4(0x4000, [0, 1, 0, 2], 2);
        let inner = Inner::of_frame(&frame);
        let expected = Inner {
            hash: inner.hash,
            network_offset: Some(14),
            is_v6: false,
            traffic_class: 0xB9,
            dont_fragment: true,
        };
        assert_eq!(inner, expected);
        let packet = Inner::of_packet(&frame[14..]);
        assert_eq!(packet, Inner { network_offset: Some(0), ..expected });
        let tagged = [&frame[..12], &[0x88, 0xA8, 0, 1, 0x81, 0, 0, 2], &frame[12..]].concat();
        assert_eq!(Inner::of_frame(&tagged), Inner { network_offset: Some(22), ..expected });
        let sixth = Inner::of_frame(&v6(0, 17, [0; 4]));
        assert_eq!((sixth.traffic_class, sixth.is_v6, sixth.dont_fragment), (0xB9, true, true));
        assert_eq!(Inner::of_packet(&[0x50; 40]), Inner::default());
    }

    /// Flows that differ by little spread over the ports that they are told apart by.
    #[test]
    fn numbers_spread() {
        let mut ports = std::collections::HashSet::new();
        for n in 0..1024u16 {
            let [high, low] = n.to_be_bytes();
            let frame = v4(0, [0x80, 0, 0, 80], low);
            ports.insert(crate::flow::source_port(Inner::of_frame(&frame).hash));
            let frame = v4(0, [high, low, 0, 80], 2);
            ports.insert(crate::flow::source_port(Inner::of_frame(&frame).hash));
        }
        // 1,280 different flows over 16,384 ports: about 1,231 of them are different.
        assert!(ports.len() > 1_150, "{}", ports.len());
    }

    proptest! {
        #[test]
        fn bytes_from_anyone(bytes: Vec<u8>, first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()]) {
            let unhashed = Inner::of_frame_unhashed(&bytes);
            prop_assert_eq!(unhashed, Inner { hash: 0, ..Inner::of_frame(&bytes) });
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let inner = Inner::of_packet(&bytes);
            prop_assert_eq!(Inner::of_packet_unhashed(&bytes), Inner { hash: 0, ..inner });
            prop_assert!(inner.network_offset.is_none_or(|at| at == 0));
        }
    }
}
