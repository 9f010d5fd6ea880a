//! Who changes an entry, and what people are told of it.

use overlay::{Error, Layer, Network, Owner, Sent, Target, Unknown};
use port::Reason;

use crate::rig::{Buffers, NETWORK, encapsulate, frame, table, tunnel, v4};

const OWNERS: [Owner; 5] = Owner::ALL;

#[test]
fn an_entry_has_one_owner() {
    for owner in OWNERS {
        for other in OWNERS {
            let mut here = table();
            here.add_network(NETWORK, Network::bridged()).unwrap();
            here.insert_as(owner, NETWORK, 5, tunnel("vxlan", false)).unwrap();
            let taken = here.insert_as(other, NETWORK, 5, tunnel("geneve", false));
            let gives_way = owner == other || owner == Owner::Learned;
            match gives_way {
                true => assert_eq!(taken, Ok(())),
                false => assert_eq!(taken, Err(Error::Owned { network: NETWORK, key: 5, owner })),
            }
            let entry = here.entry(NETWORK, 5).unwrap();
            assert_eq!(entry.owner, if gives_way { other } else { owner });
            let expected = if gives_way { "geneve" } else { "vxlan" };
            assert_eq!(here.get(NETWORK, 5).unwrap().protocol.name, expected);
            // Only its owner removes it.
            let now = if gives_way { other } else { owner };
            for remover in OWNERS.into_iter().filter(|remover| *remover != now) {
                assert_eq!(here.remove_as(remover, NETWORK, 5), Ok(false));
            }
            assert_eq!(here.remove_as(now, NETWORK, 5), Ok(true));
            assert_eq!((here.entries(NETWORK), here.tunnels()), (0, 0));
        }
    }
}

/// Who decides between several owners' claims says whose an entry is; it goes on as it was.
#[test]
fn an_entry_is_handed_over_with_what_it_counted() {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.insert_as(Owner::Kernel, NETWORK, 0x0200_0000_0101, tunnel("vxlan", false)).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut packet = Buffers::new().packet(&frame(1, 0x0800, &v4(2, b"x")));
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    here.hand_over(NETWORK, 0x0200_0000_0101, Owner::Api).unwrap();
    here.hand_over(NETWORK, 7, Owner::Api).unwrap();
    assert_eq!((here.entries(NETWORK), here.tunnels()), (1, 1));
    assert_eq!(here.entry(NETWORK, 0x0200_0000_0101).unwrap().owner, Owner::Api);
    assert_eq!(here.usage(NETWORK, 0x0200_0000_0101).unwrap().count.packets, 1);
    assert_eq!(here.remove_as(Owner::Kernel, NETWORK, 0x0200_0000_0101), Ok(false));
    here.insert_as(Owner::Api, NETWORK, 0x0200_0000_0101, tunnel("geneve", false)).unwrap();
    assert_eq!(here.usage(NETWORK, 0x0200_0000_0101).unwrap().count.packets, 1);
    // A prefix likewise.
    here.add_network(9, Network::routed()).unwrap();
    let all = ("0.0.0.0".parse().unwrap(), 0);
    here.insert_prefix(Owner::Kernel, 9, all, tunnel("lisp", false)).unwrap();
    here.hand_over_prefix(9, all, Owner::Static).unwrap();
    assert_eq!(here.prefix_entry(9, all).unwrap().owner, Owner::Static);
    assert_eq!(here.remove_prefix(Owner::Static, 9, all), Ok(true));
    assert_eq!(here.tunnels(), 1);
}

#[test]
fn entries_are_shown_in_order() {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.add_network(NETWORK + 1, Network::bridged()).unwrap();
    for (identifier, owner) in [(9, Owner::Api), (2, Owner::Static), (5, Owner::Kernel)] {
        here.insert_as(owner, NETWORK, identifier, tunnel("vxlan", false)).unwrap();
        here.insert_as(owner, NETWORK + 1, identifier, tunnel("geneve", false)).unwrap();
    }
    let shown: Vec<_> =
        here.entries_of(NETWORK).map(|entry| (entry.identifier, entry.owner.name())).collect();
    assert_eq!(shown, [(2, "static"), (5, "kernel"), (9, "api")]);
    assert!(here.entries_of(NETWORK).all(|entry| *entry.target == Target::Tunnel(tunnel("vxlan", false))));
}

/// What is told of a packet is what becomes of it.
#[test]
fn a_packet_is_explained_as_it_is_sent() {
    let mut here = table();
    let unknown = Network { unknown: Unknown::Flood, ..Network::bridged() };
    here.add_network(NETWORK, unknown).unwrap();
    here.insert(NETWORK, 0x0200_0000_0101, tunnel("vxlan", true)).unwrap();
    here.add_network(8, Network::point_to_point(Layer::Ip)).unwrap();
    let (mut sender, mut trial) = (here.encapsulator(), here.trial_encapsulator());
    here.publish();
    let mut buffers = Buffers::new();
    let long = frame(1, 0x0800, &[0; 1600]);
    for bytes in [frame(1, 0x0800, &v4(2, b"told")), frame(2, 0x0800, &v4(2, b"told")), long, vec![1, 2, 3]] {
        let (mut packet, mut tried) = (buffers.packet(&bytes), buffers.packet(&bytes));
        let sent = encapsulate(&mut sender, &mut packet);
        let told = here.explain(&mut trial, NETWORK, &mut tried);
        assert_eq!(told.sent, sent);
        assert_eq!(tried[..], packet[..]);
        assert_eq!(
            told.entry.map(|entry| entry.owner),
            (bytes.len() > 3 && bytes[5] == 1).then_some(Owner::Static)
        );
    }
    let mut outcome =
        |network, bytes: &[u8]| here.explain(&mut trial, network, &mut buffers.packet(bytes)).sent;
    assert_eq!(outcome(8, &v4(0, b"x")), Sent::Drop(Reason::OverlayUnknownKey));
    assert_eq!(outcome(99, &[]), Sent::Drop(Reason::OverlayUnknownNetwork));
    // What is tried is no usage of an entry.
    assert_eq!(here.usage(NETWORK, 0x0200_0000_0101).unwrap().count.packets, 1);
}

/// RFC 8300, section 2.2.
#[test]
fn a_hop_of_a_service_path_is_counted() {
    let mut here = table();
    here.add_network(NETWORK, Network::service_path()).unwrap();
    here.insert(NETWORK, 7 << 8 | 9, tunnel("vxlan-gpe", false)).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let service = wire::tunnel::nsh::type_1(7, 9, wire::tunnel::nsh::next_protocol::IPV4);
    let long = [&service[..], &v4(0, b"x"), &[0; 1700]].concat();
    let mut packet = Buffers::new().packet(&long);
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Drop(Reason::OverlayTooLong));
    assert_eq!(packet[..], long, "a hop that is not made is not counted");
    for (came, goes) in [(63, Some(62)), (2, Some(1)), (1, None), (0, Some(63))] {
        let mut service = wire::tunnel::nsh::type_1(7, 9, wire::tunnel::nsh::next_protocol::IPV4);
        wire::tunnel::nsh::Header::of_mut(&mut service).unwrap().set_ttl(came);
        let bytes = [&service[..], &v4(0, b"x")].concat();
        let mut packet = Buffers::new().packet(&bytes);
        let sent = encapsulate(&mut sender, &mut packet);
        match goes {
            Some(ttl) => {
                assert_eq!(sent, Sent::Port(3));
                let at = packet.len() - bytes.len();
                let header = wire::tunnel::nsh::Header::of(&packet[at..]).unwrap();
                assert_eq!(header.ttl(), ttl);
                assert_eq!(packet[at + 2..], bytes[2..], "nothing else is different");
            }
            None => {
                assert_eq!((sent, &packet[..]), (Sent::Drop(Reason::OverlayServiceTtl), &bytes[..]));
                assert_eq!(sender.drops().of(Reason::OverlayServiceTtl), 1);
            }
        }
    }
}
