//! Packets that wait for a checksum or a tag when they are put into a tunnel: a port that
//! can does the work, or it is done here, and what comes out at the far end is right.

use memory::{Packet, TxOffload};
use overlay::{Decapsulator, Encapsulator, Network, Received, Sent};
use port::{Capabilities, Feature, Features, Reason, Support};
use wire::checksum;
use wire::tcp::{self, Flags};

use crate::rig::{Buffers, NETWORK, decapsulate, encapsulate, frame, reversed, table, tunnel, v4};

const SUMS: u8 = TxOffload::UDP_CHECKSUM | TxOffload::IP_CHECKSUM;
const ASKED: TxOffload =
    TxOffload { flags: SUMS, l2_len: 14, l3_len: 20, l4_len: 8, segment_size: 0, vlan: 0 };
/// Where UDP's checksum stands in the frame.
const FIELD: usize = 14 + 20 + 6;

/// A frame whose checksums are left open, and the whole one.
fn open_and_whole() -> (Vec<u8>, Vec<u8>) {
    let mut open = frame(1, 0x0800, &v4(0, b"odd bytes"));
    let mut whole = open.clone();
    let header = wire::ipv4::Header::of(&open[14..]).unwrap();
    let pseudo = header.addresses().pseudo_header(wire::ip::Protocol::UDP, open.len() - 34);
    open[24..26].fill(0);
    open[FIELD..FIELD + 2].copy_from_slice(&pseudo.to_be_bytes());
    let sum = !checksum::combine(pseudo, checksum::sum(&whole[34..]));
    whole[FIELD..FIELD + 2].copy_from_slice(&sum.to_be_bytes());
    (open, whole)
}

/// Both ends of a tunnel of this protocol.
fn ends(protocol: &str, is_v6: bool) -> (Encapsulator, Decapsulator) {
    let (mut here, mut there) = (table(), table());
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.insert(NETWORK, 0x0200_0000_0101, tunnel(protocol, is_v6)).unwrap();
    there.add_network(8, Network::bridged()).unwrap();
    there.add_end(8, &reversed(&tunnel(protocol, is_v6)), false).unwrap();
    let ends = (here.encapsulator(), there.decapsulator());
    here.publish();
    there.publish();
    ends
}

fn asking(bytes: &[u8], asked: TxOffload) -> Packet {
    let mut packet = Buffers::new().packet(bytes);
    packet.set_tx_offload(asked);
    packet
}

fn capable(support: Support) -> Capabilities {
    let features = Features::from([(Feature::TunnelChecksum, support)]);
    Capabilities { features, ..Capabilities::default() }
}

#[test]
fn checksums_are_computed_here_for_a_port_that_cannot() {
    let (open, whole) = open_and_whole();
    for (protocol, is_v6) in [("vxlan", false), ("vxlan", true), ("gretap", false), ("geneve", true)] {
        let (mut sender, mut receiver) = ends(protocol, is_v6);
        sender.set_port(3, &capable(Support::Off));
        let mut packet = asking(&open, ASKED);
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3), "{protocol}");
        assert!(packet.tx_offload().is_empty(), "{protocol}");
        assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(8), "{protocol}");
        assert_eq!(packet[..], whole, "{protocol}");
    }
}

#[test]
fn checksums_are_left_to_a_port_that_can() {
    let (open, whole) = open_and_whole();
    for (protocol, headers) in [("vxlan", 14 + 20 + 8 + 8), ("gretap", 14 + 20 + 8)] {
        let (mut sender, mut receiver) = ends(protocol, false);
        sender.set_port(3, &capable(Support::On));
        let mut packet = asking(&open, ASKED);
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3), "{protocol}");
        assert_eq!(packet[headers..], open, "{protocol}");
        let left = TxOffload { flags: SUMS | TxOffload::TUNNEL, l2_len: headers as u8 + 14, ..ASKED };
        assert_eq!(packet.tx_offload(), left, "{protocol}");
        // What the port does then.
        assert!(port::software::fill_checksums(&mut packet));
        assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(8), "{protocol}");
        assert_eq!(packet[..], whole, "{protocol}");
        // A port that is opened anew without it.
        sender.set_port(3, &Capabilities::default());
        let mut packet = asking(&open, ASKED);
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3), "{protocol}");
        assert!(packet.tx_offload().is_empty() && packet[headers..] == whole, "{protocol}");
    }
}

/// The outer checksum is over the packet inside, which must be whole before.
#[test]
fn an_outer_checksum_is_over_finished_packets() {
    let (open, whole) = open_and_whole();
    let (mut sender, mut receiver) = ends("vxlan", true);
    sender.set_port(3, &capable(Support::On));
    let mut packet = asking(&open, ASKED);
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    assert!(packet.tx_offload().is_empty());
    assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(8), "the sum is right");
    assert_eq!(packet[..], whole);
}

#[test]
fn a_tag_is_of_the_frame_inside() {
    let (open, whole) = open_and_whole();
    for support in [Support::On, Support::No] {
        let (mut sender, mut receiver) = ends("vxlan", false);
        sender.set_port(3, &capable(support));
        let mut packet = asking(&open, TxOffload { flags: SUMS | TxOffload::VLAN, vlan: 7, ..ASKED });
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
        assert!(!packet.tx_offload().has(TxOffload::VLAN));
        assert!(port::software::fill_checksums(&mut packet));
        assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(8));
        assert_eq!(packet[..], [&whole[..12], &[0x81, 0, 0, 7], &whole[12..]].concat());
    }
}

/// A long TCP segment of this payload behind an Ethernet and an IP header, in several buffers, and
/// what it asks for.
fn long_segment(is_v6: bool, payload: &[u8]) -> Packet {
    const TCP: usize = 32; // with options
    let mut tcp = vec![0u8; TCP];
    let mut header = tcp::Header::of_mut(&mut tcp).unwrap();
    header.set_src_port(4000);
    header.set_dst_port(80);
    header.set_sequence(u32::MAX - 1500);
    header.set_header_len(TCP);
    header.set_flags(Flags::ACK | Flags::PSH | Flags::FIN | Flags::CWR);
    let segment = [&tcp[..], payload].concat();
    let (ip, ethertype) = match is_v6 {
        true => {
            let len = (segment.len() as u16).to_be_bytes();
            let start = [0x60, 0, 0, 0, len[0], len[1], 6, 64];
            ([&start[..], &[0xFD; 16], &[0xFE; 16]].concat(), 0x86DD)
        }
        false => {
            let (src, dst) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
            let repr = wire::ipv4::Repr::between(src, dst, wire::ip::Protocol::TCP, segment.len());
            let mut header = wire::ipv4::Packet::new_unchecked(vec![0; 20]);
            repr.emit(&mut header);
            (header.into_inner(), 0x0800)
        }
    };
    let l3_len = ip.len() as u8;
    let bytes = frame(1, ethertype, &[ip, segment].concat());
    let mut buffers = Buffers::new();
    let mut packet = buffers.packet(&bytes[..1501]);
    bytes[1501..].chunks(1777).for_each(|part| packet.append(buffers.packet(part)));
    let version = if is_v6 { TxOffload::IPV6 } else { TxOffload::IP_CHECKSUM };
    let flags = TxOffload::SEGMENT | TxOffload::TCP_CHECKSUM | version;
    let l4_len = TCP as u8;
    packet.set_tx_offload(TxOffload { flags, l2_len: 14, l3_len, l4_len, segment_size: 999, vlan: 0 });
    packet
}

/// RFC 9293, RFC 3168 (section 6.1.2): each piece is a segment with the tunnel's headers, and all
/// of them are what was sent.
#[test]
fn a_long_segment_is_cut_behind_the_tunnels_headers() {
    let payload: Vec<u8> = (0..5000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    for (protocol, is_v6) in
        [("vxlan", false), ("geneve", false), ("gretap", false), ("gretap", true), ("nvgre", false)]
    {
        for inner_v6 in [false, true] {
            let (mut sender, mut receiver) = ends(protocol, is_v6);
            let mut packet = long_segment(inner_v6, &payload);
            assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3), "{protocol}");
            let (mut pool, mut pieces) = (Buffers::new().0, Vec::new());
            let cut = port::software::cut(&packet, &mut pool, |_, piece| pieces.push(piece));
            assert_eq!((cut.pieces, cut.is_whole, pieces.len()), (6, true, 6), "{protocol}");
            let mut all = Vec::new();
            for (n, mut piece) in pieces.into_iter().enumerate() {
                assert!(piece.tx_offload().is_empty());
                assert_eq!(decapsulate(&mut receiver, &mut piece), Received::Network(8), "{protocol} {n}");
                let (ends, len) = match inner_v6 {
                    true => {
                        let ip = wire::ipv6::Packet::new_checked(&piece[14..]).unwrap();
                        (ip.header().addresses(), 40)
                    }
                    false => {
                        let ip = wire::ipv4::Packet::new_checked(&piece[14..]).unwrap();
                        assert!(ip.verify_checksum());
                        assert_eq!(ip.header().identification(), n as u16);
                        (ip.header().addresses(), 20)
                    }
                };
                let segment = tcp::Segment::new_checked(&piece[14 + len..]).unwrap();
                assert!(segment.verify_checksum(ends), "{protocol} {n}");
                assert_eq!(segment.header().sequence(), (u32::MAX - 1500).wrapping_add(n as u32 * 999));
                let flags = segment.header().flags();
                assert_eq!(flags.contains(Flags::CWR), n == 0);
                assert_eq!(flags.contains(Flags::FIN | Flags::PSH), n == 5);
                assert!(flags.contains(Flags::ACK) && (n == 5 || !flags.contains(Flags::FIN)));
                all.extend_from_slice(segment.payload());
            }
            assert!(all == payload, "{protocol}");
        }
    }
}

/// As long as an IP packet can be, and the tunnel's headers in front of that: no length in them begins
/// anew at zero, for a port that does not cut takes it as it is.
#[test]
fn the_longest_segment_has_no_short_lengths_in_front_of_it() {
    for (protocol, is_v6) in [("vxlan", false), ("vxlan", true), ("geneve", false), ("gretap", false)] {
        let (mut sender, _) = ends(protocol, is_v6);
        let mut packet = long_segment(false, &[3; 65_535 - 20 - 32]);
        if encapsulate(&mut sender, &mut packet) != Sent::Port(3) {
            assert!((protocol, is_v6) == ("vxlan", true), "{protocol}: a sum is over all of it");
            continue;
        }
        let outer = wire::ipv4::Header::of(&packet[14..]).unwrap();
        assert!(outer.total_len() > 65_000, "{protocol}: {}", outer.total_len());
        if protocol != "gretap" {
            let datagram = wire::udp::Header::of(&packet[34..]).unwrap();
            assert!(datagram.total_len() > 65_000, "{protocol}: {}", datagram.total_len());
        }
        let mut dropped = Buffers::new();
        let mut pieces = 0;
        let cut = port::software::cut(&packet, &mut dropped.0, |pool, piece| {
            pieces += 1;
            pool.free(piece);
        });
        assert_eq!((cut.is_whole, pieces), (true, 66), "{protocol}");
    }
}

#[test]
fn what_cannot_be_cut_is_left_and_says_so() {
    let cut = |packet: &Packet, buffers: &mut Buffers| {
        let mut pieces = 0;
        let cut = port::software::cut(packet, &mut buffers.0, |pool, piece| {
            pieces += 1;
            pool.free(piece);
        });
        assert_eq!(cut.pieces, pieces);
        (cut.pieces, cut.is_whole)
    };
    let payload = [1; 3000];
    let whole = |change: fn(&mut TxOffload)| {
        let mut packet = long_segment(false, &payload);
        let mut asked = packet.tx_offload();
        change(&mut asked);
        packet.set_tx_offload(asked);
        packet
    };
    let mut buffers = Buffers::new();
    assert_eq!(cut(&whole(|_| {}), &mut buffers), (4, true));
    assert_eq!(cut(&whole(|asked| asked.flags = 0), &mut buffers), (0, false));
    assert_eq!(cut(&whole(|asked| asked.segment_size = 0), &mut buffers), (0, false));
    assert_eq!(cut(&whole(|asked| asked.l4_len = 20), &mut buffers), (0, false));
    assert_eq!(cut(&whole(|asked| asked.l3_len = 24), &mut buffers), (0, false));
    assert_eq!(cut(&whole(|asked| asked.l2_len = 200), &mut buffers), (0, false));
    assert_eq!(cut(&whole(|asked| asked.flags |= TxOffload::TUNNEL), &mut buffers), (0, false));
    // The buffers end before the packet does.
    let mut held: Vec<Packet> = std::iter::from_fn(|| buffers.0.alloc()).collect();
    held.drain(..2).for_each(|packet| buffers.0.free(packet));
    let mut pieces = Vec::new();
    let cut = port::software::cut(&whole(|_| {}), &mut buffers.0, |_, piece| pieces.push(piece));
    assert_eq!((cut.pieces, cut.is_whole), (2, false));
}

#[test]
fn what_nobody_does_is_refused_by_name() {
    let (open, _) = open_and_whole();
    let (mut sender, _) = ends("vxlan", false);
    sender.set_port(3, &capable(Support::On));
    // What is cut may have no checksum over it in front, which each piece would have to have anew.
    let cut = TxOffload { flags: SUMS | TxOffload::SEGMENT, segment_size: 100, ..ASKED };
    let (mut summing, _) = ends("vxlan", true);
    assert_eq!(encapsulate(&mut summing, &mut asking(&open, cut)), Sent::Drop(Reason::OverlayOffload));
    let long = TxOffload { segment_size: 1600, ..cut };
    assert_eq!(encapsulate(&mut sender, &mut asking(&open, long)), Sent::Drop(Reason::OverlayTooLong));
    sender.set_port(3, &Capabilities::default());
    let far = TxOffload { l3_len: 200, ..ASKED };
    assert_eq!(encapsulate(&mut sender, &mut asking(&open, far)), Sent::Drop(Reason::OverlayOffload));
    assert_eq!((sender.drops().of(Reason::OverlayOffload), sender.drops().total()), (1, 2));
}
