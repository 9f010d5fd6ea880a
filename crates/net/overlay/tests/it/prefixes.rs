//! Networks whose entries are prefixes.

use std::net::{IpAddr, Ipv4Addr};

use overlay::{Encapsulator, Error, Layer, Match, Network, Overlay, Owner, Sent, Tunnel, Unknown};
use port::Reason;
use proptest::prelude::*;
use wire::ipv4;

use crate::rig::{Buffers, NETWORK, PEER, encapsulate, table, tunnel, v4, v6};

/// A tunnel whose far end says by its last byte which one it is.
fn to(n: u8) -> Tunnel {
    Tunnel { remote: Ipv4Addr::new(192, 0, 2, n).into(), ..tunnel("lisp", false) }
}

fn routed() -> (Overlay, Encapsulator) {
    let mut here = table();
    here.add_network(NETWORK, Network::routed()).unwrap();
    let sender = here.encapsulator();
    (here, sender)
}

fn packet_to(dst: [u8; 4]) -> Vec<u8> {
    let mut packet = v4(0, b"x");
    packet[16..20].copy_from_slice(&dst);
    packet
}

/// By which tunnel a packet goes.
fn way(sender: &mut Encapsulator, bytes: &[u8]) -> Result<u8, Sent> {
    let mut packet = Buffers::new().packet(bytes);
    match encapsulate(sender, &mut packet) {
        Sent::Port(3) => {
            let IpAddr::V4(dst) = ipv4::Header::of(&packet[14..]).unwrap().addresses().dst() else {
                unreachable!()
            };
            Ok(dst.octets()[3])
        }
        other => Err(other),
    }
}

fn prefix(text: &str) -> (IpAddr, u8) {
    let (address, len) = text.split_once('/').unwrap();
    (address.parse().unwrap(), len.parse().unwrap())
}

/// RFC 9300, section 5: the longest prefix of the inner destination says which locator it is.
#[test]
fn the_longest_prefix_decides() {
    let (mut here, mut sender) = routed();
    for (text, n) in [("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("10.1.2.3/32", 3), ("::/0", 4), ("fe00::/8", 5)]
    {
        here.insert_prefix(Owner::Fpm, NETWORK, prefix(text), to(n)).unwrap();
    }
    assert_eq!(way(&mut sender, &packet_to([10, 1, 2, 3])), Err(Sent::Drop(Reason::OverlayUnknownNetwork)));
    here.publish();
    let (mut trial, mut tried) = (here.trial_encapsulator(), Buffers::new());
    here.publish();
    let packets = [([10, 9, 9, 9], 1), ([10, 1, 9, 9], 2), ([10, 1, 2, 3], 3)];
    for (dst, n) in packets {
        assert_eq!(way(&mut sender, &packet_to(dst)), Ok(n));
        let told = here.explain(&mut trial, NETWORK, &mut tried.packet(&packet_to(dst)));
        assert_eq!((told.tunnel.unwrap().1, told.prefix.unwrap().owner), (&to(n), Owner::Fpm));
    }
    assert_eq!(way(&mut sender, &v6(0, b"x")), Ok(5), "to fefe::");
    assert_eq!(way(&mut sender, &packet_to([11, 0, 0, 1])), Err(Sent::Drop(Reason::OverlayUnknownKey)));
    assert_eq!(way(&mut sender, &[0x55; 40]), Err(Sent::Drop(Reason::OverlayNoIp)));
    let told = here.explain(&mut trial, NETWORK, &mut tried.packet(&[0x55; 40]));
    assert_eq!((told.sent, told.prefix), (Sent::Drop(Reason::OverlayNoIp), None));
    // A batch of both versions, in any order.
    let mut buffers = Buffers::new();
    let mut batch =
        [buffers.packet(&v6(0, b"x")), buffers.packet(&packet_to([10, 1, 2, 3])), buffers.packet(&[1])];
    let mut sent = [Sent::Punt; 3];
    sender.encapsulate(NETWORK, &mut batch, &mut sent);
    assert_eq!(sent, [Sent::Port(3), Sent::Port(3), Sent::Drop(Reason::OverlayNoIp)]);
    assert_eq!((batch[0][33], batch[1][33]), (5, 3));
    assert_eq!(here.remove_prefix(Owner::Fpm, NETWORK, prefix("10.1.2.3/32")), Ok(true));
    here.publish();
    assert_eq!(way(&mut sender, &packet_to([10, 1, 2, 3])), Ok(2));
}

#[test]
fn changes_of_the_underlay_reach_prefixes() {
    let (mut here, mut sender) = routed();
    here.insert_prefix(Owner::Static, NETWORK, prefix("0.0.0.0/0"), to(9)).unwrap();
    here.publish();
    assert_eq!(way(&mut sender, &packet_to([1, 2, 3, 4])), Ok(9));
    here.set_route((to(9).remote, 32), Some(overlay::Route { port: 3, gateway: None })).unwrap();
    here.publish();
    assert_eq!(way(&mut sender, &packet_to([1, 2, 3, 4])), Err(Sent::Drop(Reason::OverlayNoNeighbor)));
    assert_eq!(here.prefixes_of(NETWORK).next().unwrap().problem, Some(Reason::OverlayNoNeighbor));
    here.set_neighbor(3, to(9).remote, Some(PEER));
    here.publish();
    assert_eq!(way(&mut sender, &packet_to([1, 2, 3, 4])), Ok(9));
    let packet = [packet_to([1, 2, 3, 4]), vec![0; 2000]].concat();
    let mut packet = Buffers::new().packet(&packet);
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Drop(Reason::OverlayTooLong));
    assert!(!sender.answer(NETWORK, &mut packet, std::time::Duration::ZERO), "it may be fragmented");
}

#[test]
fn prefixes_and_identifiers_keep_apart() {
    let (mut here, mut sender) = routed();
    let all = prefix("0.0.0.0/0");
    assert_eq!(here.insert(NETWORK, 0, to(1)), Err(Error::Matching(NETWORK)));
    here.add_network(9, Network::point_to_point(Layer::Ip)).unwrap();
    assert_eq!(here.insert_prefix(Owner::Api, 9, all, to(1)), Err(Error::Matching(9)));
    assert_eq!(here.insert_prefix(Owner::Api, 10, all, to(1)), Err(Error::NoNetwork(10)));
    let frames = Network { matching: Match::LongestPrefix, ..Network::bridged() };
    assert_eq!(here.add_network(11, frames), Err(Error::Matching(11)));
    here.insert_prefix(Owner::Api, NETWORK, all, to(1)).unwrap();
    let owned = Error::OwnedPrefix { network: NETWORK, prefix: all, owner: Owner::Api };
    assert_eq!(here.insert_prefix(Owner::Kernel, NETWORK, all, to(2)), Err(owned));
    assert_eq!(here.remove_prefix(Owner::Kernel, NETWORK, all), Ok(false));
    here.insert_prefix(Owner::Api, NETWORK, all, to(2)).unwrap();
    assert_eq!((here.tunnels(), here.entries(NETWORK)), (1, 1));
    assert!(matches!(
        here.insert_prefix(Owner::Api, NETWORK, prefix("10.0.0.1/8"), to(3)),
        Err(Error::Table(_))
    ));
    assert_eq!(here.tunnels(), 1);
    here.publish();
    assert_eq!(way(&mut sender, &packet_to([1, 2, 3, 4])), Ok(2));
    // A network of the same number that comes later has nothing of the one before.
    here.remove_network(NETWORK).unwrap();
    assert_eq!(here.tunnels(), 0);
    here.publish();
    assert_eq!(way(&mut sender, &packet_to([1, 2, 3, 4])), Err(Sent::Drop(Reason::OverlayUnknownNetwork)));
    here.add_network(NETWORK, Network { unknown: Unknown::Punt, ..Network::routed() }).unwrap();
    here.publish();
    assert_eq!(way(&mut sender, &packet_to([1, 2, 3, 4])), Err(Sent::Punt));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Against a list that is searched from the longest prefix on.
    #[test]
    fn as_a_list_of_prefixes_says(
        routes in prop::collection::btree_map((any::<u16>(), 0..=16u8), 1..250u8, 0..40),
        asked in prop::collection::vec(any::<u16>(), 1..60),
    ) {
        let (mut here, mut sender) = routed();
        let mut list = Vec::new();
        for ((bits, len), n) in routes {
            let bits = bits & u16::MAX.checked_shl(16 - u32::from(len)).unwrap_or(0);
            here.insert_prefix(Owner::Static, NETWORK, (Ipv4Addr::from(u32::from(bits) << 16).into(), len), to(n)).unwrap();
            list.retain(|(other, _)| *other != (bits, len));
            list.push(((bits, len), n));
        }
        list.sort_by_key(|((_, len), _)| std::cmp::Reverse(*len));
        here.publish();
        for bits in asked {
            let [a, b] = bits.to_be_bytes();
            let covers = |(bits_, len): (u16, u8)| (bits ^ bits_).checked_shr(16 - u32::from(len)).unwrap_or(0) == 0;
            let expected = list.iter().find(|(route, _)| covers(*route)).map(|(_, n)| *n);
            prop_assert_eq!(way(&mut sender, &packet_to([a, b, 7, 7])).ok(), expected);
        }
    }
}
