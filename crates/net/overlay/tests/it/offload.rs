//! Packets that wait for a checksum or a tag when they are put into a tunnel: a port that
//! can does the work, or it is done here, and what comes out at the far end is right.

use memory::{Packet, TxOffload};
use overlay::{Decapsulator, Encapsulator, Network, Reason, Received, Sent};
use port::{Capabilities, Feature, Features, Support};
use wire::checksum;

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

#[test]
fn what_nobody_does_is_refused_by_name() {
    let (open, _) = open_and_whole();
    let (mut sender, _) = ends("vxlan", false);
    sender.set_port(3, &capable(Support::On));
    let cut = TxOffload { flags: SUMS | TxOffload::SEGMENT, segment_size: 100, ..ASKED };
    assert_eq!(encapsulate(&mut sender, &mut asking(&open, cut)), Sent::Drop(Reason::Offload));
    sender.set_port(3, &Capabilities::default());
    let far = TxOffload { l3_len: 200, ..ASKED };
    assert_eq!(encapsulate(&mut sender, &mut asking(&open, far)), Sent::Drop(Reason::Offload));
    assert_eq!(sender.drops().of(Reason::Offload), 2);
}
