//! Bytes from anyone: no parser panics, and what a view accepts its accessors stand by.

use proptest::prelude::*;
use wire::ip::{Addresses, Protocol};
use wire::{
    Flow, Toeplitz, arp, dhcp, ethernet, icmpv4, icmpv6, ipv4, ipv6, ndp, tcp, tcp_option, udp, vlan,
};

/// Arbitrary bytes, with those that say version, length or option often made plausible.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let plausible = prop_oneof![Just(0x45u8), Just(0x4F), Just(0x60), Just(0x50), Just(0xF0), any::<u8>()];
    (prop::collection::vec(any::<u8>(), 0..120), plausible.clone(), plausible, any::<bool>()).prop_map(
        |(mut bytes, first, thirteenth, short)| {
            if let Some(byte) = bytes.get_mut(0) {
                *byte = first;
            }
            if let Some(byte) = bytes.get_mut(12) {
                *byte = thirteenth;
            }
            // A length of below 128, where IPv4, IPv6 and UDP have theirs.
            if short && bytes.len() > 5 {
                bytes[2] = 0;
                bytes[4] = 0;
                bytes[3] &= 0x7F;
                bytes[5] &= 0x7F;
            }
            bytes
        },
    )
}

/// A frame whose layers lead somewhere: every header may still be broken.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ethertype = prop_oneof![Just(0x0800u16), Just(0x86DD), Just(0x8100), Just(0x88A8), any::<u16>()];
    (any::<[u8; 12]>(), ethertype.clone(), any::<u16>(), ethertype, any::<bool>(), bytes()).prop_map(
        |(macs, first, control, second, tagged, rest)| {
            let mut frame = [&macs[..], &first.to_be_bytes()].concat();
            if tagged {
                frame.extend(control.to_be_bytes());
                frame.extend(second.to_be_bytes());
            }
            frame.extend(rest);
            frame
        },
    )
}

const NOBODY: Addresses =
    Addresses::V4 { src: std::net::Ipv4Addr::UNSPECIFIED, dst: std::net::Ipv4Addr::UNSPECIFIED };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn link_layers(bytes in bytes()) {
        if let Ok(frame) = ethernet::Frame::new_checked(&bytes) {
            prop_assert!(ethernet::Repr::parse(&frame).is_ok());
            prop_assert_eq!(frame.payload().len() + 14, bytes.len());
        }
        if let Ok(tag) = vlan::Tag::new_checked(&bytes) {
            prop_assert_eq!(vlan::Repr::parse(&tag).expect("checked").control(), tag.control());
            prop_assert_eq!(tag.payload().len() + 4, bytes.len());
        }
        if let Ok(packet) = arp::Packet::new_checked(&bytes) {
            prop_assert!(arp::Repr::parse(&packet).is_ok());
        }
    }

    #[test]
    fn internet_layers(bytes in bytes(), first: u8) {
        if let Ok(packet) = ipv4::Packet::new_checked(&bytes) {
            let _ = ipv4::Repr::parse(&packet);
            let parts = 20 + packet.options().len() + packet.payload().len();
            prop_assert_eq!(parts, packet.total_len());
            let mut packet = ipv4::Packet::new_checked(bytes.clone()).expect("checked before");
            packet.fill_checksum();
            prop_assert!(ipv4::Repr::parse(&packet).is_ok());
        }
        if let Ok(packet) = ipv6::Packet::new_checked(&bytes) {
            prop_assert!(ipv6::Repr::parse(&packet).is_ok());
            if let Ok(upper) = packet.upper_layer() {
                prop_assert!(upper.offset <= packet.payload().len());
            }
        }
        if let Ok(upper) = ipv6::upper_layer(Protocol(first), &bytes) {
            prop_assert!(upper.offset <= bytes.len());
        }
    }

    #[test]
    fn upper_layers(bytes in bytes()) {
        if let Ok(segment) = tcp::Segment::new_checked(&bytes) {
            let _ = tcp::Repr::parse(&segment);
            let _ = segment.verify_checksum(NOBODY);
            prop_assert_eq!(segment.header_len() + segment.payload().len(), bytes.len());
        }
        if let Ok(datagram) = udp::Datagram::new_checked(&bytes) {
            prop_assert!(udp::Repr::parse(&datagram).is_ok());
            let _ = datagram.verify_checksum(NOBODY);
            prop_assert_eq!(datagram.payload().len() + 8, datagram.total_len());
        }
        if let Ok(packet) = icmpv4::Packet::new_checked(&bytes) {
            let _ = (icmpv4::Repr::parse(&packet), packet.verify_checksum());
        }
        if let Ok(packet) = icmpv6::Packet::new_checked(&bytes) {
            let _ = (icmpv6::Repr::parse(&packet), packet.verify_checksum(NOBODY));
        }
    }

    #[test]
    fn options_end(bytes: Vec<u8>) {
        // Each option takes at least two bytes.
        prop_assert!(tcp_option::Options::new(&bytes).count() <= bytes.len() / 2 + 1);
        let _ = tcp_option::sack_blocks(&bytes).count();
    }

    /// Answers of DHCP with any options, also in the fields for names; options of neighbor discovery.
    #[test]
    fn configurations(names: [[u8; 32]; 6], overload in 0_u8..4, options: Vec<u8>) {
        let fixed = [&[2, 1, 6, 0][..], &[0; 40], &names.concat(), &dhcp::COOKIE.to_be_bytes()].concat();
        let message = [&fixed[..], &[52, 1, overload, 53, 1, 2], &options].concat();
        let reply = dhcp::Reply::parse(&message);
        prop_assert!(reply.is_ok(), "{reply:?}");
        prop_assert!(dhcp::Options::new(&options).count() <= options.len() / 2 + 1);
        let total: usize = ndp::options(&options).map(<[u8]>::len).sum();
        prop_assert!(total <= options.len());
        for option in ndp::options(&options) {
            let _ = (ndp::PrefixOption::of(option).map(|it| it.prefix()), ndp::MtuOption::of(option));
        }
    }

    #[test]
    fn flows(frame in frame()) {
        if let Ok(flow) = Flow::of(&frame) {
            prop_assert!(flow.end <= frame.len());
            prop_assert!(flow.payload_range().start <= flow.payload_range().end);
            prop_assert_eq!(flow.ports.is_some(), flow.l4_len != 0);
            Toeplitz::new(&wire::toeplitz::MICROSOFT_KEY).hash(flow.rss_input().as_ref());
        }
    }

    #[test]
    fn texts(text in ".{0,20}") {
        let _ = text.parse::<wire::MacAddress>();
    }
}

/// A header for more bytes than its length can tell does not tell of fewer than there are headers.
#[test]
fn lengths_that_do_not_fit_do_not_begin_anew() {
    let (v4, v6) = (std::net::Ipv4Addr::LOCALHOST, std::net::Ipv6Addr::LOCALHOST);
    for payload_len in [65_508, 65_516, 65_528, 65_536, 65_600, 1 << 20, usize::MAX] {
        let udp = wire::udp::Repr { src_port: 1, dst_port: 2, payload_len };
        assert!(udp.header().total_len() >= 65_516.min(payload_len), "{payload_len}");
        let mut header = wire::ipv4::Header::zeroed();
        wire::ipv4::Repr::between(v4, v4, wire::ip::Protocol::UDP, payload_len).write(&mut header);
        assert!(header.total_len() >= 65_528, "{payload_len}");
        let repr = wire::ipv6::Repr {
            src: v6,
            dst: v6,
            next_header: wire::ip::Protocol::UDP,
            hop_limit: 1,
            traffic_class: 0,
            flow_label: 0,
            payload_len,
        };
        assert_eq!(repr.header().payload_len(), payload_len.min(0xFFFF));
    }
}
