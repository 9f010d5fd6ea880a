//! Messages by which hosts learn of each other and of their network, byte by byte: ICMP, discovery of
//! neighbours and routers, DHCP; written from the standards a second time, as `headers.rs` is.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ip::Addresses;
use wire::{MacAddress, checksum, dhcp, icmpv4, icmpv6, ndp};

use super::headers::{bytes, changed, sets};

#[test]
fn icmp_fields() {
    let header = icmpv4::Header::new(bytes::<8>());
    assert_eq!((header.message_type(), header.code(), header.checksum()), (0x10, 0x11, 0x1213));
    assert_eq!((header.identifier(), header.sequence(), header.mtu()), (0x1415, 0x1617, 0x1617));
    sets!(icmpv4::Header<_>, 8,
        set_message_type(0) 0..1, set_code(0) 1..2, set_checksum(0) 2..4, set_identifier(0) 4..6,
        set_sequence(0) 6..8, set_gateway(Ipv4Addr::UNSPECIFIED) 4..8, set_pointer(0) 4..5,
        set_mtu(0) 6..8);
    let errors: Vec<u8> = (0..=255).filter(|kind| icmpv4::is_error(*kind)).collect();
    assert_eq!(errors, [3, 4, 5, 11, 12]);
    let numbered: Vec<u8> = (0..=255).filter(|kind| icmpv4::is_numbered(*kind)).collect();
    assert_eq!(numbered, [0, 8, 13, 14, 15, 16]);
    for (kind, len) in [(13, 20), (14, 20), (17, 12), (18, 12), (15, 8), (3, 8)] {
        assert_eq!(icmpv4::header_len(kind), len, "{kind}");
    }

    let header = icmpv6::Header::new(bytes::<8>());
    assert_eq!((header.message_type(), header.code(), header.checksum()), (0x10, 0x11, 0x1213));
    assert_eq!((header.identifier(), header.sequence(), header.mtu()), (0x1415, 0x1617, 0x1415_1617));
    sets!(icmpv6::Header<_>, 8,
        set_message_type(0) 0..1, set_code(0) 1..2, set_checksum(0) 2..4, set_identifier(0) 4..6,
        set_sequence(0) 6..8, set_mtu(0) 4..8, set_pointer(0) 4..8);
    assert!(icmpv6::is_error(127) && !icmpv6::is_error(128));

    let mut message = [8, 3, 0xE3, 0xC8, 0x12, 0x34, 0, 1, 1, 0xFF];
    assert!(checksum::verify(&message));
    icmpv4::Header::of_mut(&mut message).expect("long enough").update_to_reply();
    assert_eq!(message[..4], [0, 0, 0xEB, 0xCB]);
    assert!(checksum::verify(&message));
    message[2..4].fill(7);
    icmpv4::fill_checksum(&mut message);
    assert_eq!(message[..4], [0, 0, 0xEB, 0xCB]);
    let mut message = [128, 0, 0x6B, 0x85, 0x12, 0x34, 0, 1, 1, 0xFF];
    icmpv6::Header::of_mut(&mut message).expect("long enough").update_to_reply();
    let loopback = Ipv6Addr::LOCALHOST;
    let packet = icmpv6::Packet::new_checked(&message[..]).expect("long enough");
    assert!(packet.verify_checksum(Addresses::V6 { src: loopback, dst: loopback }));
    assert_eq!((packet.message_type(), packet.code()), (129, 0));
}

#[test]
fn neighbor_discovery() {
    let header = ndp::Header::new(bytes::<24>());
    assert_eq!((header.message_type(), header.code(), header.flags()), (0x10, 0x11, 0x14));
    assert_eq!(header.target().octets()[..], bytes::<24>()[8..]);
    let nobody = Ipv6Addr::UNSPECIFIED;
    sets!(ndp::Header<_>, 24, set_message_type(0) 0..1, set_flags(0) 4..5, set_target(nobody) 8..24);
    sets!(ndp::Redirect<_>, 40, set_target(nobody) 8..24, set_destination(nobody) 24..40);
    let mut option = ndp::AddressOption::new(bytes::<8>());
    assert_eq!(option.mac(), MacAddress([0x12, 0x13, 0x14, 0x15, 0x16, 0x17]));
    option.set_kind(ndp::TARGET_ADDRESS);
    option.set_mac(MacAddress([7; 6]));
    assert_eq!(option.into_inner(), [2, 1, 7, 7, 7, 7, 7, 7]);

    let mac = MacAddress([2, 0, 0, 0, 0, 9]);
    let two = [5, 1, 0, 0, 0, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 9];
    assert_eq!(ndp::address_in(&two, ndp::TARGET_ADDRESS), Some(mac));
    assert_eq!(ndp::address_in(&two, ndp::SOURCE_ADDRESS), None);
    assert_eq!(ndp::address_in(&two[..15], ndp::TARGET_ADDRESS), None, "cut");
    let no_length = [5, 0, 2, 1, 2, 0, 0, 0, 0, 9];
    assert_eq!(ndp::address_in(&no_length, ndp::TARGET_ADDRESS), None);
    assert!(ndp::are_options_whole(&two) && ndp::are_options_whole(&[]));
    assert!(
        [&two[..15], &two[..9], &two[..1], &no_length].iter().all(|bytes| !ndp::are_options_whole(bytes))
    );
    let address: Ipv6Addr = "2001:db8::a1b2:c3d4".parse().expect("an address");
    assert_eq!(ndp::solicited_group(address), "ff02::1:ffb2:c3d4".parse::<Ipv6Addr>().expect("an address"));
    assert!(ndp::is_solicited_group(ndp::solicited_group(address)));
    assert!(!ndp::is_solicited_group(ndp::ALL_NODES) && !ndp::is_solicited_group(address));
    assert_eq!(MacAddress::of_ipv6_group(address), MacAddress([0x33, 0x33, 0xA1, 0xB2, 0xC3, 0xD4]));
    let group = Ipv4Addr::new(239, 0xAA, 0xBB, 0xCC);
    assert_eq!(MacAddress::of_ipv4_group(group), MacAddress([1, 0, 0x5E, 0x2A, 0xBB, 0xCC]));
}

#[test]
fn router_discovery() {
    let header = ndp::RouterAdvertisement::new(bytes::<16>());
    assert_eq!((header.message_type(), header.code(), header.lifetime_s()), (0x10, 0x11, 0x1617));
    sets!(ndp::RouterAdvertisement<_>, 16, set_kind() 0..1, set_lifetime_s(0) 6..8);
    let option = ndp::PrefixOption::new(bytes::<32>());
    assert_eq!((option.bits(), option.flags()), (0x12, 0x13));
    assert_eq!((option.valid_s(), option.preferred_s()), (0x1415_1617, 0x1819_1A1B));
    assert_eq!(option.prefix().octets()[..], bytes::<32>()[16..]);
    let mut option = ndp::PrefixOption::zeroed();
    option.set_prefix("2001:db8:1::".parse().expect("an address"), 64, ndp::ON_LINK | ndp::AUTONOMOUS);
    option.set_lifetimes_s(0x0102_0304, 0x0506_0708);
    let [kind, len, bits, flags, times @ .., _, _, _, _] = &option.into_inner()[..16] else { panic!("cut") };
    assert_eq!((*kind, *len, *bits, *flags, times), (3, 4, 64, 0xC0, &[1, 2, 3, 4, 5, 6, 7, 8][..]));
    assert_eq!(option.into_inner()[16..22], [0x20, 1, 0xD, 0xB8, 0, 1]);
    let mut option = ndp::MtuOption::zeroed();
    option.set_mtu(0x0102_0304);
    assert_eq!((option.into_inner(), option.mtu()), ([5, 1, 0, 0, 1, 2, 3, 4], 0x0102_0304));

    let row = [1, 1, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0, 0, 5, 0xDC, 3, 4];
    let kinds: Vec<u8> = ndp::options(&row).map(|option| option[0]).collect();
    assert_eq!(kinds, [1, 5], "the last one is cut");
    assert_eq!(ndp::options(&[3, 0, 3, 0]).count(), 0, "no length");
}

/// What a server answers, as RFC 2131's figure 1 and RFC 2132 have it.
fn dhcp_reply(options: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..4].copy_from_slice(&[2, 1, 6, 0]);
    message[4..8].copy_from_slice(&[0xA, 0xB, 0xC, 0xD]);
    message[16..20].copy_from_slice(&[10, 0, 0, 9]);
    message[28..34].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    message.extend([0x63, 0x82, 0x53, 0x63]);
    message.extend(options);
    message
}

#[test]
fn dhcp_messages() {
    let header = dhcp::Header::new(bytes::<240>());
    assert_eq!((header.exchange(), header.your_address()), (0x1415_1617, Ipv4Addr::new(32, 33, 34, 35)));
    assert_eq!(header.client_mac().0[..], bytes::<240>()[28..34]);
    let nobody = Ipv4Addr::UNSPECIFIED;
    sets!(dhcp::Header<_>, 240,
        set_exchange(0) 4..8, set_seconds(0) 8..10, set_client_address(nobody) 12..16,
        set_your_address(nobody) 16..20, set_client_mac(MacAddress([0; 6])) 28..34,
        set_kind(true) (0..3).chain(236..240));
    use dhcp::offset as d;
    assert_eq!([d::OPERATION, d::HARDWARE, d::EXCHANGE, d::SECONDS, d::CLIENT_ADDRESS], [0, 1, 4, 8, 12]);
    assert_eq!([d::YOUR_ADDRESS, d::CLIENT_MAC, d::SERVER_NAME, d::FILE, d::COOKIE], [16, 28, 44, 108, 236]);
    use dhcp::option as o;
    assert_eq!([o::PAD, o::SUBNET_MASK, o::ROUTER, o::MTU, o::REQUESTED_ADDRESS], [0, 1, 3, 26, 50]);
    assert_eq!([o::LEASE_TIME, o::OVERLOAD, o::MESSAGE_TYPE, o::SERVER, o::PARAMETERS], [51, 52, 53, 54, 55]);
    assert_eq!([o::LONGEST, o::RENEWAL, o::REBINDING, o::CLIENT, o::END], [57, 58, 59, 61, 255]);
    type M = dhcp::MessageType;
    let types = [M::DISCOVER, M::OFFER, M::REQUEST, M::DECLINE, M::ACK, M::NAK, M::RELEASE, M::INFORM];
    assert_eq!(types.map(|message_type| message_type.0), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!([dhcp::SERVER_PORT, dhcp::CLIENT_PORT], [67, 68]);

    let options = [
        &[53, 1, 5, 0, 54, 4, 10, 0, 0, 1, 1, 4, 255, 255, 255, 0, 3, 8, 10, 0, 0, 2, 10, 0, 0, 3][..],
        &[26, 2, 5, 120, 51, 4, 0, 0, 14, 16, 58, 4, 0, 0, 7, 8, 59, 4, 0, 0, 12, 78, 255, 3, 4, 1, 2],
    ]
    .concat();
    let reply = dhcp::Reply::parse(&dhcp_reply(&options)).expect("a reply");
    let told = dhcp::Reply {
        message_type: M::ACK,
        exchange: 0x0A0B_0C0D,
        client_mac: MacAddress([2, 0, 0, 0, 0, 9]),
        address: Ipv4Addr::new(10, 0, 0, 9),
        server: Some(Ipv4Addr::new(10, 0, 0, 1)),
        mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
        router: Some(Ipv4Addr::new(10, 0, 0, 2)),
        mtu: Some(1400),
        lease_s: Some(3600),
        renewal_s: Some(1800),
        rebinding_s: Some(3150),
    };
    assert_eq!(reply, told);
    // Options in the fields for names, the file's first.
    let mut message = dhcp_reply(&[52, 1, 3, 53, 1, 2, 255]);
    message[108..115].copy_from_slice(&[51, 4, 0, 0, 0, 60, 255]);
    message[44..56].copy_from_slice(&[51, 4, 0, 0, 0, 70, 54, 4, 10, 0, 0, 1]);
    let reply = dhcp::Reply::parse(&message).expect("a reply");
    assert_eq!((reply.message_type, reply.lease_s, reply.server), (M::OFFER, Some(60), told.server));
    message[242] = 0;
    assert_eq!(dhcp::Reply::parse(&message).expect("a reply").lease_s, None, "no overload, only a name");
    // Not of a server, no cookie, no type, cut short; an option whose length leads beyond the end.
    for (place, value) in [(0, 1), (236, 0), (245, 0), (2, 8)] {
        let mut message = dhcp_reply(&[51, 0, 53, 1, 5, 255]);
        message[place] = value;
        assert!(dhcp::Reply::parse(&message).is_err() != (place == 245), "{place}");
    }
    assert!(dhcp::Reply::parse(&dhcp_reply(&[])).is_err() && dhcp::Reply::parse(&[2; 239]).is_err());
    assert!(dhcp::Reply::parse(&dhcp_reply(&[51, 200, 53, 1, 5])).is_err());
}

#[test]
fn dhcp_requests_are_as_the_standard_has_them() {
    let mut request = dhcp::Request {
        message_type: dhcp::MessageType::REQUEST,
        exchange: 0x0102_0304,
        seconds: 7,
        client_mac: MacAddress([2, 0, 0, 0, 0, 9]),
        client_address: Ipv4Addr::UNSPECIFIED,
        requested: Some(Ipv4Addr::new(10, 0, 0, 9)),
        server: Some(Ipv4Addr::new(10, 0, 0, 1)),
    };
    let message = request.message();
    assert_eq!(message[..12], [1, 1, 6, 0, 1, 2, 3, 4, 0, 7, 0, 0]);
    assert_eq!((&message[12..28], &message[28..34]), (&[0; 16][..], &[2, 0, 0, 0, 0, 9][..]));
    assert!(message[34..236].iter().all(|byte| *byte == 0));
    let options = [
        &[0x63, 0x82, 0x53, 0x63, 53, 1, 3, 61, 7, 1, 2, 0, 0, 0, 0, 9, 50, 4, 10, 0, 0, 9][..],
        &[54, 4, 10, 0, 0, 1, 57, 2, 5, 192, 55, 6, 1, 3, 26, 51, 58, 59, 255],
    ]
    .concat();
    assert_eq!(message[236..236 + options.len()], options);
    assert!(message[236 + options.len()..].iter().all(|byte| *byte == 0));
    request.message_type = dhcp::MessageType::DECLINE;
    let codes: Vec<u8> = dhcp::Options::new(&request.message()[240..]).map(|(code, _)| code).collect();
    assert_eq!(codes, [53, 61, 50, 54]);
}
