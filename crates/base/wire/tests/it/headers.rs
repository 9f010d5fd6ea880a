//! The views over headers of a fixed length: every field read from bytes that all
//! differ, and written without a change to its neighbours; every offset and number
//! written down a second time; checksums that updates keep right.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::ethernet::EtherType;
use wire::ip::{Addresses, Ports, Protocol};
use wire::tcp::Flags;
use wire::{
    MacAddress, arp, checksum, encap_tag, ethernet, icmpv4, icmpv6, ip, ipv4, ipv4_option, ipv6, memcached,
    ndp, tcp, udp, vlan, wifi,
};

/// Bytes that all differ, from 0x10 on.
pub fn bytes<const N: usize>() -> [u8; N] {
    std::array::from_fn(|n| 0x10 + n as u8)
}

/// The places where bytes are no longer what they were.
pub fn changed(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|&n| bytes[n] != 0x10 + n as u8).collect()
}

/// What a setter changes in a header of these bytes.
macro_rules! sets {
    ($header:ty, $len:literal, $($set:ident($($value:expr),*) $places:expr),* $(,)?) => {$(
        let mut header = <$header>::new(bytes::<$len>());
        header.$set($($value),*);
        let places: Vec<usize> = $places.collect();
        assert_eq!(changed(&header.into_inner()), places, stringify!($set));
    )*};
}
pub(super) use sets;

#[test]
fn a_view_is_over_the_start_of_bytes() {
    let mut bytes = bytes::<10>();
    assert_eq!(udp::Header::of(&bytes).expect("long enough").src_port(), 0x1011);
    assert!(udp::Header::of(&bytes[..7]).is_none() && udp::Header::of_mut(&mut bytes[..7]).is_none());
    let mut header = udp::Header::of_mut(&mut bytes).expect("long enough");
    header.set_dst_port(0);
    assert_eq!(header.into_inner(), &[0x10, 0x11, 0, 0, 0x14, 0x15, 0x16, 0x17]);
    assert_eq!(udp::Header::zeroed().into_inner(), [0; 8]);
}

#[test]
fn the_tag_of_packets_to_encapsulate() {
    use encap_tag::{Tag, reason};
    let tag = Tag::new(bytes::<8>());
    assert_eq!((tag.network(), tag.packet_len(), tag.reason()), (0x1011, 0x1213, 0x14));
    sets!(Tag<_>, 8, set_network(0) 0..2, set_packet_len(0) 2..4, set_reason(0) 4..5);
    let reasons = [reason::NONE, reason::NETWORK, reason::KEY, reason::SHORT, reason::LONG];
    assert_eq!(reasons, [0, 1, 2, 3, 4]);

    let mut header = encap_tag::header(MacAddress([2; 6]), 0x0102);
    encap_tag::set_packet_len(&mut header, 3);
    let expected = [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0x88, 0xB6, 1, 2, 0, 3, 0, 0, 0, 0];
    assert_eq!(header, expected);
    let padded = [&header[..], &[7; 38]].concat();
    assert!(encap_tag::is_tagged(&padded) && !encap_tag::is_tagged(&padded[..13]));
    let (tag, packet) = encap_tag::split(&padded).expect("it is all there");
    assert_eq!((tag.network(), packet), (0x0102, &[7; 3][..]));
    for short in 0..25 {
        assert_eq!(encap_tag::split(&padded[..short]), Err(wire::Error::Truncated), "{short}");
    }
}

#[test]
fn ethernet_and_tags() {
    let header = ethernet::Header::new(bytes::<14>());
    assert_eq!(header.dst(), MacAddress([0x10, 0x11, 0x12, 0x13, 0x14, 0x15]));
    assert_eq!(header.src(), MacAddress([0x16, 0x17, 0x18, 0x19, 0x1A, 0x1B]));
    assert_eq!(header.ethertype(), EtherType(0x1C1D));
    let nobody = MacAddress([0; 6]);
    sets!(ethernet::Header<_>, 14,
        set_dst(nobody) 0..6, set_src(nobody) 6..12, set_ethertype(EtherType(0)) 12..14);
    let between = ethernet::Header::between(MacAddress([1; 6]), MacAddress([2; 6]), EtherType::IPV6);
    assert_eq!(between.into_inner(), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x86, 0xDD]);

    let mut addresses = ethernet::Addresses::new(bytes::<12>());
    assert_eq!((addresses.dst(), addresses.src()), (header.dst(), header.src()));
    addresses.swap();
    assert_eq!((addresses.dst(), addresses.src()), (header.src(), header.dst()));

    let tag = vlan::Header::new([0xB1, 0x23, 0x86, 0xDD]);
    assert_eq!((tag.control(), tag.ethertype()), (0xB123, EtherType::IPV6));
    assert_eq!((tag.priority(), tag.drop_eligible(), tag.id()), (5, true, 0x123));
    sets!(vlan::Header<_>, 4, set_control(0) 0..2, set_ethertype(EtherType(0)) 2..4);
    let mut tagged = vlan::Tagged::new(bytes::<16>());
    assert_eq!((tagged.tag_type(), tagged.control()), (EtherType(0x1C1D), 0x1E1F));
    tagged.move_addresses_over_tag();
    assert_eq!(tagged.into_inner()[4..], bytes::<12>());
    sets!(vlan::Tagged<_>, 16, set_tag(EtherType(0), 0) 12..16, set_addresses([0; 12]) 0..12);
    let mut tagged = vlan::Tagged::new([0; 16]);
    tagged.set_tag(EtherType::SERVICE_VLAN, 0x6007);
    assert_eq!(tagged.into_inner()[12..], [0x88, 0xA8, 0x60, 0x07]);
}

#[test]
fn arp_of_any_kind() {
    let header = arp::Header::new([0, 6, 0x86, 0xDD, 6, 16, 0, 2]);
    assert_eq!((header.hardware(), header.protocol()), (6, EtherType::IPV6));
    assert_eq!((header.hardware_len(), header.protocol_len()), (6, 16));
    assert_eq!(header.operation(), arp::Operation::REPLY);
}

#[test]
fn ipv4_fields() {
    let header = ipv4::Header::new(bytes::<20>());
    assert_eq!((header.version(), header.header_len(), header.traffic_class()), (1, 0, 0x11));
    assert_eq!((header.total_len(), header.identification()), (0x1213, 0x1415));
    assert_eq!((header.fragment_word(), header.ttl()), (0x1617, 0x18));
    assert_eq!((header.protocol(), header.checksum()), (Protocol(0x19), 0x1A1B));
    assert_eq!(header.src(), Ipv4Addr::new(0x1C, 0x1D, 0x1E, 0x1F));
    assert_eq!(header.dst(), Ipv4Addr::new(0x20, 0x21, 0x22, 0x23));
    assert_eq!(header.addresses(), Addresses::V4 { src: header.src(), dst: header.dst() });
    let pseudo = checksum::pseudo_header_v4(header.src(), header.dst(), 0x19, 9);
    assert_eq!(header.pseudo_header(9), pseudo);
    let nobody = Ipv4Addr::UNSPECIFIED;
    sets!(ipv4::Header<_>, 20,
        set_header_len(24) 0..1, set_traffic_class(0) 1..2, set_total_len(0) 2..4,
        set_identification(0) 4..6, set_fragment_word(0) 6..8, set_fragment(true, false, 0) 6..8,
        set_ttl(0) 8..9, set_protocol(Protocol(0)) 9..10, set_checksum(0) 10..12,
        set_src(nobody) 12..16, set_dst(nobody) 16..20, swap_addresses() 12..20);
    let mut header = header;
    header.swap_addresses();
    assert_eq!(u32::from(header.src()), 0x2021_2223);
    assert_eq!(u32::from(header.dst()), 0x1C1D_1E1F);
    assert_eq!((ipv4::version(0x6F), ipv4::header_len(0x6F), ipv4::version_and_len(60)), (6, 60, 0x4F));
    assert_eq!(ipv4::version_and_len(64), 0x40, "too long for its four bits");

    for (word, is, later, more, forbidden, offset) in [
        (0x4000, false, false, false, true, 0),
        (0x2000, true, false, true, false, 0),
        (0x1FFF, true, true, false, false, 0xFFF8),
        (0x8000, false, false, false, false, 0),
    ] {
        header.set_fragment_word(word);
        assert_eq!((header.is_fragment(), header.is_later_fragment()), (is, later), "{word:04x}");
        assert_eq!((header.more_fragments(), header.dont_fragment()), (more, forbidden), "{word:04x}");
        assert_eq!(header.fragment_offset(), offset);
    }
    header.set_fragment(true, true, 16);
    assert_eq!(header.fragment_word(), 0x6002);
    for (kind, is) in [(131, true), (137, true), (7, false), (68, false)] {
        assert_eq!(ipv4_option::is_source_route(kind), is);
    }
    let repr = ipv4::Repr::between([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), Protocol::TCP, 7);
    let mut packet = ipv4::Packet::new_unchecked([0xEE; 27]);
    repr.emit(&mut packet);
    let expected = [0x45, 0, 0, 27, 0, 0, 0, 0, 64, 6, 0x6A, 0xCA, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(packet.header().into_inner(), &expected);
}

#[test]
fn ipv6_fields() {
    let header = ipv6::Header::new(bytes::<40>());
    assert_eq!((header.version(), header.traffic_class(), header.flow_label()), (1, 0x01, 0x1_1213));
    assert_eq!((header.payload_len(), header.next_header()), (0x1415, Protocol(0x16)));
    assert_eq!(header.hop_limit(), 0x17);
    assert_eq!(header.src().octets()[..], bytes::<40>()[8..24]);
    assert_eq!(header.dst().octets()[..], bytes::<40>()[24..]);
    assert_eq!(header.addresses(), Addresses::V6 { src: header.src(), dst: header.dst() });
    let nobody = Ipv6Addr::UNSPECIFIED;
    sets!(ipv6::Header<_>, 40,
        set_version(0xFF, 0xF_FFFF) 0..4, set_payload_len(0) 4..6, set_next_header(Protocol(0)) 6..7,
        set_hop_limit(0) 7..8, set_src(nobody) 8..24, set_dst(nobody) 24..40, swap_addresses() 8..40);
    let mut swapped = header;
    swapped.swap_addresses();
    assert_eq!((swapped.src(), swapped.dst()), (header.dst(), header.src()));
    let mut labelled = ipv6::Header::new([0xFF; 40]);
    labelled.set_flow_label(0x12345);
    assert_eq!(labelled.into_inner()[..5], [0xFF, 0xF1, 0x23, 0x45, 0xFF]);
    let mut filled = ipv6::Header::new([0xEE; 40]);
    let addresses = filled.fill(header.src(), header.dst(), Protocol::UDP, 0x1234, 9);
    assert_eq!(addresses, header.addresses());
    assert_eq!(filled.into_inner()[..8], [0x60, 0, 0, 0, 0x12, 0x34, 17, 9]);
    assert_eq!(filled.into_inner()[8..], bytes::<40>()[8..]);
    let mut start = [0x6F, 0xFF];
    ipv6::set_dscp(&mut start, 0);
    assert_eq!(start, [0x60, 0x3F], "version and ECN stay");
    ipv6::set_dscp(&mut start, 0x2E);
    assert_eq!(start, [0x6B, 0xBF]);
}

#[test]
fn extension_headers_count_in_units_of_eight() {
    let extension = ipv6::Extension::new([17, 2]);
    assert_eq!((extension.next_header(), extension.header_len()), (Protocol(17), 24));
}

#[test]
fn upper_layer_fields() {
    let mut ports = Ports::new(bytes::<4>());
    assert_eq!((ports.src(), ports.dst()), (0x1011, 0x1213));
    ports.swap();
    assert_eq!(ports.into_inner(), [0x12, 0x13, 0x10, 0x11]);
    sets!(Ports<_>, 4, set_src(0) 0..2, set_dst(0) 2..4);

    let udp = udp::Header::new(bytes::<8>());
    assert_eq!((udp.src_port(), udp.dst_port()), (0x1011, 0x1213));
    assert_eq!((udp.total_len(), udp.checksum()), (0x1415, 0x1617));
    sets!(udp::Header<_>, 8,
        set_src_port(0) 0..2, set_dst_port(0) 2..4, set_total_len(0) 4..6, set_checksum(0) 6..8);

    let tcp = tcp::Header::new(bytes::<20>());
    assert_eq!((tcp.src_port(), tcp.dst_port()), (0x1011, 0x1213));
    assert_eq!((tcp.sequence(), tcp.acknowledgement()), (0x1415_1617, 0x1819_1A1B));
    assert_eq!((tcp.header_len(), tcp.flags()), (4, Flags(0x1D)));
    assert_eq!((tcp.window(), tcp.checksum(), tcp.urgent()), (0x1E1F, 0x2021, 0x2223));
    sets!(tcp::Header<_>, 20,
        set_src_port(0) 0..2, set_dst_port(0) 2..4, set_sequence(0) 4..8, set_acknowledgement(0) 8..12,
        set_header_len(20) 12..13, replace_header_len(20) 12..13, set_flags(Flags(0)) 13..14,
        set_window(0) 14..16, set_checksum(0) 16..18, set_urgent(0) 18..20);
    let mut tcp = tcp;
    tcp.replace_header_len(60);
    assert_eq!(tcp.into_inner()[12], 0xFC, "the reserved bits stay");
    tcp.set_header_len(24);
    assert_eq!(tcp.into_inner()[12], 0x60, "they become zero");
    assert_eq!((tcp::header_len(0xAF), tcp::data_offset(40)), (40, 0xA0));
    let quoted = tcp::Quoted::new(bytes::<8>());
    assert_eq!((quoted.src_port(), quoted.dst_port(), quoted.sequence()), (0x1011, 0x1213, 0x1415_1617));
    assert_eq!((Flags::SYN | Flags::FIN | Flags::ACK).without(Flags::FIN), Flags(0x12));
}

/// The offsets once more, in the order of the headers' fields.
#[test]
fn offsets_are_those_of_the_standards() {
    use ethernet::offset as e;
    assert_eq!([e::DST, e::SRC, e::ETHERTYPE, ethernet::ADDRESSES_LEN], [0, 6, 12, 12]);
    assert_eq!([vlan::TAGGED_LEN, arp::HEADER_LEN], [16, 8]);
    use arp::offset as a;
    assert_eq!([a::OPERATION, a::SENDER_MAC, a::SENDER_IP, a::TARGET_MAC, a::TARGET_IP], [6, 8, 14, 18, 24]);
    use ipv4::offset as i;
    assert_eq!([i::VERSION, i::TRAFFIC_CLASS, i::TOTAL_LEN, i::IDENTIFICATION, i::FRAGMENT], [0, 1, 2, 4, 6]);
    assert_eq!([i::TTL, i::PROTOCOL, i::CHECKSUM, i::SRC, i::DST], [8, 9, 10, 12, 16]);
    use ipv6::offset as s;
    assert_eq!(
        [s::VERSION, s::PAYLOAD_LEN, s::NEXT_HEADER, s::HOP_LIMIT, s::SRC, s::DST],
        [0, 4, 6, 7, 8, 24]
    );
    use udp::offset as u;
    assert_eq!([u::SRC_PORT, u::DST_PORT, u::LEN, u::CHECKSUM], [0, 2, 4, 6]);
    use tcp::offset as t;
    assert_eq!([t::SRC_PORT, t::DST_PORT, t::SEQUENCE, t::ACKNOWLEDGEMENT, t::DATA_OFFSET], [0, 2, 4, 8, 12]);
    assert_eq!([t::FLAGS, t::WINDOW, t::CHECKSUM, t::URGENT], [13, 14, 16, 18]);
    use icmpv4::offset as c;
    assert_eq!([c::TYPE, c::CODE, c::CHECKSUM, c::IDENTIFIER, c::SEQUENCE, c::MTU], [0, 1, 2, 4, 6, 6]);
    use icmpv6::offset as x;
    assert_eq!([x::TYPE, x::CODE, x::CHECKSUM, x::IDENTIFIER, x::SEQUENCE], [0, 1, 2, 4, 6]);
    use ndp::offset as n;
    assert_eq!([n::FLAGS, n::TARGET, n::DESTINATION, ndp::REDIRECT_LEN], [4, 8, 24, 40]);
    assert_eq!([n::ROUTER_LIFETIME, n::PREFIX_BITS, n::PREFIX_FLAGS, n::VALID_LIFETIME], [6, 2, 3, 4]);
    assert_eq!([n::PREFERRED_LIFETIME, n::PREFIX, n::MTU, ndp::ROUTER_SOLICITATION_LEN], [8, 16, 4, 8]);
    for (protocol, at) in [(6, 16), (17, 6), (136, 6), (33, 6), (1, 2), (58, 2)] {
        assert_eq!(ip::checksum_offset(Protocol(protocol)), Some(at), "{protocol}");
    }
    assert_eq!(ip::checksum_offset(Protocol::SCTP), None);
    assert_eq!((ip::DCCP_HEADER_LEN, icmpv4::LEAST_QUOTED), (12, 28));
    assert_eq!((ip::SCTP_HEADER_LEN, ip::SCTP_CHECKSUM), (12, 8));
}

/// The numbers once more, as IANA lists them.
#[test]
fn numbers_are_those_of_iana() {
    type P = Protocol;
    let protocols = [P::HOP_BY_HOP, P::ICMP, P::IGMP, P::IPV4, P::TCP, P::UDP, P::DCCP, P::IPV6, P::ROUTING];
    assert_eq!(protocols.map(|p| p.0), [0, 1, 2, 4, 6, 17, 33, 41, 43]);
    let protocols = [P::FRAGMENT, P::GRE, P::ESP, P::AUTHENTICATION, P::ICMPV6, P::DESTINATION];
    assert_eq!(protocols.map(|p| p.0), [44, 47, 50, 51, 58, 60]);
    let protocols = [P::SCTP, P::MOBILITY, P::UDP_LITE, P::HOST_IDENTITY, P::SHIM6];
    assert_eq!(protocols.map(|p| p.0), [132, 135, 136, 139, 140]);
    type E = EtherType;
    let types = [
        E::IPV4,
        E::ARP,
        E::TRAILERS,
        E::VLAN,
        E::IPV6,
        E::MAC_CONTROL,
        E::SERVICE_VLAN,
        E::PTP,
        E::LOCAL_EXPERIMENT,
        E::LOCAL_EXPERIMENT_2,
    ];
    assert_eq!(
        types.map(|t| t.0),
        [0x800, 0x806, 0x1000, 0x8100, 0x86DD, 0x8808, 0x88A8, 0x88F7, 0x88B5, 0x88B6]
    );
    use icmpv4 as i;
    assert_eq!(
        [i::ECHO_REPLY, i::UNREACHABLE, i::SOURCE_QUENCH, i::REDIRECT, i::ECHO_REQUEST],
        [0, 3, 4, 5, 8]
    );
    assert_eq!([i::ROUTER_ADVERTISEMENT, i::ROUTER_SOLICITATION, i::TIME_EXCEEDED], [9, 10, 11]);
    assert_eq!([i::PARAMETER_PROBLEM, i::TIMESTAMP, i::TIMESTAMP_REPLY, i::INFORMATION], [12, 13, 14, 15]);
    assert_eq!([i::INFORMATION_REPLY, i::MASK, i::MASK_REPLY], [16, 17, 18]);
    assert_eq!([i::PROTOCOL_UNREACHABLE, i::PORT_UNREACHABLE, i::NEEDS_FRAGMENTS], [2, 3, 4]);
    use icmpv6 as s;
    assert_eq!([s::TOO_BIG, s::PARAMETER_PROBLEM, s::UNKNOWN_OPTION, s::REDIRECT], [2, 4, 2, 137]);
    assert_eq!([s::NEIGHBOR_SOLICITATION, s::NEIGHBOR_ADVERTISEMENT], [135, 136]);
    assert_eq!([ndp::SOURCE_ADDRESS, ndp::TARGET_ADDRESS, ndp::HOP_LIMIT], [1, 2, 255]);
    assert_eq!([ndp::ROUTER, ndp::SOLICITED, ndp::OVERRIDE], [0x80, 0x40, 0x20]);
    assert_eq!([s::ROUTER_SOLICITATION, s::ROUTER_ADVERTISEMENT], [133, 134]);
    assert_eq!([ndp::PREFIX, ndp::MTU, ndp::ON_LINK, ndp::AUTONOMOUS], [3, 5, 0x80, 0x40]);
    assert_eq!(ndp::ALL_NODES.to_string(), "ff02::1");
    assert_eq!(ndp::ALL_ROUTERS.to_string(), "ff02::2");
    assert_eq!([ip::port::ECHO, ip::port::DISCARD], [7, 9]);
    use ipv4_option as o;
    assert_eq!([o::END, o::NO_OPERATION, o::RECORD_ROUTE, o::TIMESTAMP, o::COPIED], [0, 1, 7, 68, 0x80]);
    use wire::tcp_option::kind as k;
    assert_eq!([k::END, k::NO_OPERATION, k::MAX_SEGMENT, k::WINDOW_SCALE], [0, 1, 2, 3]);
    assert_eq!([k::SACK_PERMITTED, k::SACK, k::TIMESTAMPS], [4, 5, 8]);
    type A = arp::Operation;
    let operations = [A::REVERSE_REQUEST, A::REVERSE_REPLY, A::INVERSE_REQUEST, A::INVERSE_REPLY];
    assert_eq!(operations.map(|o| o.0), [3, 4, 8, 9]);
}

#[test]
fn sums_of_parts() {
    let mut partial = checksum::Partial::new(0xFFFF);
    partial.add(&[1, 2, 3]);
    partial.add(&[4]);
    assert_eq!((partial.sum(), partial.checksum()), (0x0406, !0x0406));
    assert_eq!((checksum::never_zero(0), checksum::never_zero(7)), (0xFFFF, 7));
    assert!(checksum::is_right(0xFFFF) && !checksum::is_right(0));
    assert!(checksum::verify(&[0x12, 0x34, 0xED, 0xCB]) && !checksum::verify(&[0x12, 0x34, 0xED, 0xCA]));
}

/// A way to change a header, and to fill its checksum anew.
type Change = fn(&mut ipv4::Header<[u8; 20]>, u32);

proptest! {
    #[test]
    fn parts_sum_up_to_the_whole(bytes: Vec<u8>, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut partial = checksum::Partial::default();
        cuts.windows(2).for_each(|cut| partial.add(&bytes[cut[0]..cut[1]]));
        prop_assert_eq!(partial.sum(), checksum::sum(&bytes));
    }

    #[test]
    fn updates_keep_checksums_right(bytes: [u8; 20], to: u32) {
        let changes: [(Change, Change); 6] = [
            (|h, to| h.update_src(to.into()), |h, to| h.set_src(to.into())),
            (|h, to| h.update_dst(to.into()), |h, to| h.set_dst(to.into())),
            (|h, to| h.update_ttl(to as u8), |h, to| h.set_ttl(to as u8)),
            (|h, to| h.update_traffic_class(to as u8), |h, to| h.set_traffic_class(to as u8)),
            (|h, to| h.update_total_len(to as u16), |h, to| h.set_total_len(to as u16)),
            (|h, to| h.update_fragment_word(to as u16), |h, to| h.set_fragment_word(to as u16)),
        ];
        for (update, set) in changes {
            let mut updated = ipv4::Header::new(bytes);
            updated.set_header_len(20); // a header is never all zeros
            updated.fill_checksum();
            prop_assert!(checksum::verify(&updated.into_inner()));
            let mut anew = updated;
            update(&mut updated, to);
            set(&mut anew, to);
            anew.fill_checksum();
            prop_assert_eq!(updated.into_inner(), anew.into_inner());
        }
        let mut header = bytes.to_vec();
        ipv4::fill_checksum(&mut header);
        prop_assert!(checksum::verify(&header));
        prop_assert_eq!((&header[..10], &header[12..]), (&bytes[..10], &bytes[12..]));
    }
}

#[test]
fn memcached_s_binary_protocol() {
    let header = memcached::Header::new(bytes::<24>());
    assert_eq!((header.magic(), header.opcode(), header.key_len()), (0x10, 0x11, 0x1213));
    assert_eq!((header.extras_len(), header.status(), header.body_len()), (0x14, 0x1617, 0x1819_1A1B));
    assert_eq!((header.opaque(), header.cas()), (0x1C1D_1E1F, 0x2021_2223_2425_2627));
    sets!(memcached::Header<_>, 24,
        set_kind(0, 0) 0..2, set_lens(0, 0, 0) [2, 3, 4, 8, 9, 10, 11].into_iter(), set_status(0) 6..8,
        set_opaque(0) 12..16, set_cas(0) 16..24);
    let mut header = memcached::Header::zeroed();
    header.set_lens(4, 5, 6);
    assert_eq!((header.extras_len(), header.key_len(), header.body_len()), (4, 5, 15));
    use memcached::{magic, opcode, status};
    assert_eq!((magic::REQUEST, magic::RESPONSE), (0x80, 0x81));
    assert_eq!(
        (opcode::GET, opcode::GETQ, opcode::STAT, opcode::PREPENDQ, opcode::GATKQ),
        (0, 9, 16, 26, 36)
    );
    assert_eq!((status::ITEM_NOT_STORED, status::UNKNOWN_COMMAND, status::OUT_OF_MEMORY), (5, 0x81, 0x82));
}

#[test]
fn wifi_data_frames() {
    let header = wifi::Header::new(bytes::<24>());
    let address = |first: u8| MacAddress(std::array::from_fn(|n| first + n as u8));
    assert_eq!(header.addresses(), [address(0x14), address(0x1A), address(0x20)]);
    assert_eq!((header.direction(), header.sequence()), (wifi::Direction::To, (0x272, 6)));
    assert!(!header.is_data() && !header.is_control() && !header.is_retry());
    let (src, dst, bssid) = (address(0x20), address(0x30), address(0x40));
    let mut header = wifi::Header::new(bytes::<24>());
    header.fill(wifi::Direction::From, src, dst, bssid);
    assert_eq!(header.into_inner(), *[&[8, 2, 0, 0][..], &dst.0, &bssid.0, &src.0, &[0, 0]].concat());
    for (first, second, is_data, len) in
        [(0x08, 0, true, 24), (0x88, 0x48, true, 26), (0x88, 3, true, 32), (0xB4, 4, false, 24)]
    {
        let mut bytes = [0; 24];
        (bytes[0], bytes[1]) = (first, second);
        let header = wifi::Header::new(bytes);
        assert_eq!((header.is_data(), header.is_control(), header.header_len()), (is_data, !is_data, len));
        let flags = (header.is_retry(), header.more_fragments(), header.is_protected());
        assert_eq!(flags, (second == 0x48, second == 4, second == 0x48));
    }
}

#[test]
fn memcached_s_frame_of_datagrams() {
    let frame = memcached::Frame::new(bytes::<8>());
    assert_eq!((frame.request(), frame.sequence(), frame.total()), (0x1011, 0x1213, 0x1415));
    sets!(memcached::Frame<_>, 8, set_request(0) 0..2, set_sequence(0, 0) 2..6);
}
