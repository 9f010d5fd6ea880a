//! Changes of entries and of the underlay: what senders see of them, and when.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use overlay::{Error, InvalidTunnel, Layer, Network, Overlay, Port, Protocol, Received, Route, Sent, Tunnel};
use port::Reason;
use proptest::prelude::*;
use wire::MacAddress;

use crate::rig::{
    Buffers, MAC, NETWORK, PEER, decapsulate, encapsulate, ends, frame, port, reversed, table, tunnel, v4,
};

#[test]
fn the_way_decides() {
    let mut here = Overlay::new();
    here.add_network(NETWORK, Network::point_to_point(Layer::Ip)).unwrap();
    here.insert(NETWORK, 0, tunnel("ipip", false)).unwrap();
    let mut sender = here.encapsulator();
    let mut buffers = Buffers::new();
    let mut outcome = |here: &mut Overlay| {
        here.publish();
        let mut packet = buffers.packet(&v4(0, b"x"));
        let sent = encapsulate(&mut sender, &mut packet);
        (sent, packet.to_vec())
    };
    let (_, remote) = ends(false);
    let gateway: IpAddr = Ipv4Addr::new(198, 51, 100, 1).into();
    assert_eq!(outcome(&mut here).0, Sent::Drop(Reason::OverlayNoRoute));
    let network: IpAddr = Ipv4Addr::new(192, 0, 2, 0).into();
    here.set_route((network, 24), Some(Route { port: 1, gateway: Some(gateway) })).unwrap();
    assert_eq!(outcome(&mut here).0, Sent::Drop(Reason::OverlayLinkDown));
    here.set_port(1, Some(port()));
    assert_eq!(outcome(&mut here).0, Sent::Drop(Reason::OverlayNoNeighbor));
    assert_eq!(here.unresolved().collect::<Vec<_>>(), [(1, gateway)]);
    assert_eq!(here.problem(NETWORK, 0), Some(Reason::OverlayNoNeighbor));
    here.set_neighbor(1, gateway, Some(PEER));
    assert_eq!((here.unresolved().count(), here.problem(NETWORK, 0)), (0, None));
    let (sent, packet) = outcome(&mut here);
    assert_eq!((sent, &packet[..12]), (Sent::Port(1), &[PEER.0, MAC.0].concat()[..]));
    // The gateway has another address, the port too; a better route leads elsewhere, and
    // goes again; the port goes down.
    let (other, own) = (MacAddress([2, 0, 0, 0, 0, 9]), MacAddress([2, 0, 0, 0, 0, 8]));
    here.set_neighbor(1, gateway, Some(other));
    here.set_port(1, Some(Port { mac: own, ..port() }));
    let (sent, packet) = outcome(&mut here);
    assert_eq!((sent, &packet[..12]), (Sent::Port(1), &[other.0, own.0].concat()[..]));
    here.set_port(2, Some(port()));
    here.set_neighbor(2, remote, Some(PEER));
    here.set_route((remote, 32), Some(Route { port: 2, gateway: None })).unwrap();
    assert_eq!(outcome(&mut here).0, Sent::Port(2));
    here.set_route((remote, 32), None).unwrap();
    assert_eq!(outcome(&mut here).0, Sent::Port(1));
    here.set_port(1, Some(Port { is_up: false, ..port() }));
    assert_eq!(outcome(&mut here).0, Sent::Drop(Reason::OverlayLinkDown));
    here.set_port(1, Some(Port { mtu: 40, ..port() }));
    assert_eq!(outcome(&mut here).0, Sent::Drop(Reason::OverlayTooLong));
    here.set_port(1, None);
    assert_eq!(outcome(&mut here).0, Sent::Drop(Reason::OverlayLinkDown));
}

/// Each change of the underlay makes the headers anew of the tunnels whose way it changes, and of
/// the groups that have one of these; those of all others are not touched, and go on.
#[test]
fn a_change_of_the_underlay_rewrites_exactly_the_tunnels_concerned() {
    const EACH: u8 = 40;
    let mut here = Overlay::new();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    let end = |port: u8, n: u8| IpAddr::from([198, 51, 100 + port, n]);
    let to = |port: u8, n: u8| Tunnel { remote: end(port, n), ..tunnel("vxlan", false) };
    for port_number in [1, 2] {
        here.set_port(port_number, Some(port()));
        let prefix = (end(port_number as u8, 0), 24);
        here.set_route(prefix, Some(Route { port: port_number, gateway: None })).unwrap();
        for n in 1..=EACH {
            here.set_neighbor(port_number, end(port_number as u8, n), Some(PEER));
            let station = u128::from(port_number) << 40 | u128::from(n);
            here.insert(NETWORK, station, to(port_number as u8, n)).unwrap();
        }
    }
    // A group on one port, which is made once, and one on both.
    here.set_group(2, &[to(1, 11), to(1, 12)]).unwrap();
    here.insert_as(overlay::Owner::Static, NETWORK, 10, overlay::Target::Group(2)).unwrap();
    here.set_group(1, &[to(1, 1), to(2, 1)]).unwrap();
    here.insert_as(overlay::Owner::Static, NETWORK, 9, overlay::Target::Group(1)).unwrap();
    assert_eq!(here.rewritten(), 0);
    let mut before = 0;
    let mut rewritten = |here: &Overlay| here.rewritten() - std::mem::replace(&mut before, here.rewritten());
    let problems = |here: &Overlay| here.entries_of(NETWORK).filter(|entry| entry.problem.is_some()).count();
    here.set_port(1, Some(Port { is_up: false, ..port() }));
    assert_eq!((rewritten(&here), problems(&here)), (u64::from(EACH) + 2, usize::from(EACH) + 1));
    assert!(
        here.entries_of(NETWORK).all(|entry| entry.problem.is_none_or(|why| why == Reason::OverlayLinkDown))
    );
    here.set_port(1, Some(Port { is_up: false, ..port() }));
    assert_eq!(rewritten(&here), 0, "it was down");
    here.set_port(1, Some(port()));
    assert_eq!((rewritten(&here), problems(&here)), (u64::from(EACH) + 2, 0));
    here.set_neighbor(1, end(1, 7), Some(MacAddress([2, 0, 0, 0, 0, 9])));
    assert_eq!(rewritten(&here), 1);
    here.set_neighbor(2, end(2, 1), None);
    assert_eq!((rewritten(&here), problems(&here)), (2, 1), "the tunnel and its group");
    here.set_neighbor(1, end(2, 3), Some(PEER));
    assert_eq!(rewritten(&here), 0, "nobody goes that way");
    // Eight addresses, of which one has no tunnel, get a better route to the same place but for
    // the port.
    here.set_route((end(2, 0), 29), Some(Route { port: 1, gateway: Some(end(1, 1)) })).unwrap();
    assert_eq!((rewritten(&here), problems(&here)), (8, 0), "seven tunnels, and the group");
    here.set_route((end(2, 0), 25), Some(Route { port: 2, gateway: None })).unwrap();
    assert_eq!(rewritten(&here), 0, "all of them go where they went");
    here.set_port(2, Some(Port { mtu: 1400, ..port() }));
    assert_eq!(rewritten(&here), u64::from(EACH) - 7);
}

#[test]
fn nothing_is_seen_before_it_is_published() {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    let mut sender = here.encapsulator();
    let mut buffers = Buffers::new();
    let mut outcome = || encapsulate(&mut sender, &mut buffers.packet(&frame(1, 0x0800, &v4(0, b"x"))));
    assert_eq!(outcome(), Sent::Drop(Reason::OverlayUnknownNetwork));
    here.publish();
    assert_eq!(outcome(), Sent::Drop(Reason::OverlayUnknownKey));
    here.insert(NETWORK, 0x0200_0000_0101, tunnel("vxlan", false)).unwrap();
    assert_eq!(outcome(), Sent::Drop(Reason::OverlayUnknownKey));
    here.publish();
    assert_eq!(outcome(), Sent::Port(3));
    assert_eq!(here.remove(NETWORK, 0x0200_0000_0101), Ok(true));
    assert_eq!(here.remove(NETWORK, 0x0200_0000_0101), Ok(false));
    assert_eq!(outcome(), Sent::Port(3));
    here.publish();
    assert_eq!((outcome(), here.tunnels()), (Sent::Drop(Reason::OverlayUnknownKey), 0));
}

#[test]
fn what_cannot_be_is_refused() {
    let (mut here, vxlan) = (table(), tunnel("vxlan", false));
    assert_eq!(here.insert(NETWORK, 1, vxlan.clone()), Err(Error::NoNetwork(NETWORK)));
    here.add_network(NETWORK, Network::bridged()).unwrap();
    assert_eq!(here.add_network(NETWORK, Network::bridged()), Err(Error::NetworkExists(NETWORK)));
    let key = Error::Key { network: NETWORK, key: 1 << 48, bits: 48 };
    assert_eq!(here.insert(NETWORK, 1 << 48, vxlan.clone()), Err(key));
    let payload = Error::Payload { protocol: "ipip", network: NETWORK };
    assert_eq!(here.insert(NETWORK, 1, tunnel("ipip", false)), Err(payload.clone()));
    assert_eq!(here.set_flood(NETWORK, &[vxlan.clone(), tunnel("ipip", false)]), Err(payload));
    let mut refused = |change: fn(&mut Tunnel)| {
        let mut tunnel = vxlan.clone();
        change(&mut tunnel);
        match here.insert(NETWORK, 1, tunnel) {
            Err(Error::Tunnel(invalid)) => invalid.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        refused(|tunnel| tunnel.identifier = Some(1 << 24)),
        "the identifier 16777216 of vxlan must be below 2^24"
    );
    assert_eq!(
        refused(|tunnel| tunnel.identifier = None),
        "vxlan needs the identifier of the virtual network at the far end"
    );
    assert_eq!(
        refused(|tunnel| tunnel.remote = ends(true).1),
        "the ends 192.0.2.1 and 2001:db8::2 of a tunnel must both be IPv4 or both be IPv6 addresses"
    );
    assert_eq!(
        refused(|tunnel| tunnel.remote = Ipv4Addr::new(239, 0, 0, 1).into()),
        "239.0.0.1 is not an address of one host, as the end of a tunnel must be"
    );
    assert_eq!(refused(|tunnel| tunnel.gre_checksum = true), "vxlan has no GRE checksum");
    assert_eq!(refused(|tunnel| tunnel.ttl = 0), "packets of a tunnel with a TTL of 0 go nowhere");
    assert_eq!(
        refused(|tunnel| tunnel.dscp = overlay::Dscp::Fixed(64)),
        "64 is too much for the code point, which is at most 63"
    );
    assert_eq!(refused(|tunnel| tunnel.segments = vec![[1; 16].into()]), "vxlan has no segments");
    assert_eq!((here.tunnels(), here.entries(NETWORK)), (0, 0), "nothing is left of them");
    let gtpu = Tunnel { protocol: Protocol::named("ipip").unwrap(), ..vxlan };
    assert!(matches!(gtpu.check(), Err(InvalidTunnel::Presence { has: false, .. })));
}

/// RFC 7348, section 5: the port is one that can be configured.
#[test]
fn ends_at_udp_ports_of_their_own() {
    let mut there = table();
    there.add_network(NETWORK, Network::bridged()).unwrap();
    let at = |port: u16, protocol: &str| Tunnel { port: Some(port), ..tunnel(protocol, false) };
    let (own, usual) = (at(8472, "vxlan"), tunnel("vxlan", false));
    let sent_by = |tunnel: &Tunnel| {
        let mut here = table();
        here.add_network(NETWORK, Network::point_to_point(Layer::Ethernet)).unwrap();
        here.insert(NETWORK, 0, tunnel.clone()).unwrap();
        let mut sender = here.encapsulator();
        here.publish();
        let mut packet = Buffers::new().packet(&frame(1, 0x0800, &v4(0, b"x")));
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
        packet.to_vec()
    };
    let mut receiver = there.decapsulator();
    let mut comes = |there: &mut Overlay, tunnel: &Tunnel| {
        there.publish();
        decapsulate(&mut receiver, &mut Buffers::new().packet(&sent_by(tunnel)))
    };
    assert_eq!(comes(&mut there, &own), Received::Other);
    there.add_end(NETWORK, &reversed(&own), false).unwrap();
    assert_eq!(comes(&mut there, &own), Received::Network(NETWORK));
    assert_eq!(comes(&mut there, &usual), Received::Drop(Reason::OverlayUnknownEnd), "another port");
    assert_eq!(comes(&mut there, &at(8473, "vxlan")), Received::Other);
    // A port is one protocol's, its own ones too; the same protocol may have more ends there.
    let taken = |port, protocol| Err(Error::Port { port, protocol });
    assert_eq!(there.add_end(NETWORK, &reversed(&at(8472, "geneve")), false), taken(8472, "vxlan"));
    assert_eq!(there.add_end(NETWORK, &reversed(&at(4789, "geneve")), false), taken(4789, "vxlan"));
    let more = reversed(&at(8472, "vxlan").with_identifier(101));
    there.add_end(NETWORK, &more, false).unwrap();
    assert_eq!(there.remove_end(&reversed(&own)), Ok(true));
    assert_eq!(comes(&mut there, &own), Received::Drop(Reason::OverlayUnknownEnd));
    assert_eq!(there.remove_end(&more), Ok(true));
    assert_eq!(comes(&mut there, &own), Received::Other, "the port is nobody's again");
    there.add_end(NETWORK, &reversed(&at(8472, "geneve")), false).unwrap();
    assert_eq!(comes(&mut there, &at(8472, "geneve")), Received::Network(NETWORK));
    there.remove_network(NETWORK).unwrap();
    assert_eq!(comes(&mut there, &at(8472, "geneve")), Received::Other);
}

#[test]
fn ends_and_networks_go_whole() {
    let mut here = table();
    for number in [1, 2] {
        here.add_network(number, Network::bridged()).unwrap();
        here.insert(number, 7, tunnel("vxlan", false)).unwrap();
        here.set_flood(number, &[tunnel("vxlan", false), tunnel("geneve", false)]).unwrap();
    }
    let end = reversed(&tunnel("vxlan", false));
    here.add_end(1, &end, false).unwrap();
    assert_eq!(here.add_end(2, &end, false), Err(Error::EndExists(1)));
    assert_eq!((here.remove_end(&end), here.remove_end(&end)), (Ok(true), Ok(false)));
    let payload = Error::Payload { protocol: "ipip", network: 1 };
    assert_eq!(here.add_end(1, &reversed(&tunnel("ipip", false)), false), Err(payload));
    let tap = reversed(&tunnel("gretap", false));
    here.add_end(1, &tap, false).unwrap();
    let nvgre = reversed(&tunnel("nvgre", false));
    assert_eq!(here.add_end(1, &nvgre, false), Err(Error::Ambiguous(nvgre.local)));
    assert_eq!((here.remove_end(&tap), here.add_end(1, &nvgre, false)), (Ok(true), Ok(())));
    here.add_end(2, &end, false).unwrap();
    assert_eq!(here.tunnels(), 4, "each network has its own");
    here.remove_network(1).unwrap();
    assert_eq!((here.remove_network(1), here.get(1, 7)), (Err(Error::NoNetwork(1)), None));
    assert_eq!((here.get(2, 7), here.tunnels()), (Some(&tunnel("vxlan", false)), 2));
    here.remove_network(2).unwrap();
    assert_eq!((here.tunnels(), here.remove_end(&end)), (0, Ok(false)));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, u8),
    Remove(u8),
    /// A prefix of these bits of an address, by a port, with a gateway or without.
    Route(u8, u8, Option<(u16, Option<u8>)>),
    Neighbor(u16, u8, Option<u8>),
    Port(u16, Option<bool>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop::sample::select(vec![0u8, 30, 31, 32]);
    let route = prop::option::weighted(0.7, (0..3u16, prop::option::of(0..8u8)));
    let step = prop_oneof![
        3 => (0..6u8, 0..8u8).prop_map(|(key, remote)| Step::Insert(key, remote)),
        1 => (0..6u8).prop_map(Step::Remove),
        3 => (0..8u8, len, route).prop_map(|(address, len, route)| Step::Route(address, len, route)),
        4 => (0..3u16, 0..8u8, prop::option::weighted(0.8, 1..9u8)).prop_map(|(port, address, mac)| Step::Neighbor(port, address, mac)),
        2 => (0..3u16, prop::option::weighted(0.9, any::<bool>())).prop_map(|(port, up)| Step::Port(port, up)),
    ];
    prop::collection::vec(step, 1..120)
}

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

/// What is told, in lists that are searched from end to end.
#[derive(Default)]
struct Told {
    entries: HashMap<u8, u8>,
    routes: HashMap<(u8, u8), (u16, Option<u8>)>,
    neighbors: HashMap<(u16, u8), u8>,
    ports: HashMap<u16, bool>,
}

impl Told {
    /// The port and the last byte of the next hop's Ethernet address for an entry.
    fn expected(&self, key: u8) -> Result<(u16, u8), Reason> {
        let remote = *self.entries.get(&key).ok_or(Reason::OverlayUnknownKey)?;
        let covers = |(prefix, len): &&(u8, u8)| {
            let mask = 0xFFu32 << (32 - u32::from(*len)).min(8);
            u32::from(*prefix) & mask & 0xFF == u32::from(remote) & mask & 0xFF
        };
        let best =
            self.routes.keys().filter(covers).max_by_key(|(_, len)| *len).ok_or(Reason::OverlayNoRoute)?;
        let (port, gateway) = self.routes[best];
        if !self.ports.get(&port).copied().unwrap_or(false) {
            return Err(Reason::OverlayLinkDown);
        }
        let mac = self.neighbors.get(&(port, gateway.unwrap_or(remote))).ok_or(Reason::OverlayNoNeighbor)?;
        Ok((port, *mac))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the order in which layers tell of changes, each entry's headers are those of
    /// the way as it is.
    #[test]
    fn headers_follow_the_underlay(steps in steps()) {
        let mut here = Overlay::new();
        here.add_network(NETWORK, Network::bridged()).unwrap();
        let mut sender = here.encapsulator();
        let mut buffers = Buffers::new();
        let mut told = Told::default();
        let to = |last: u8| Tunnel { remote: address(last).into(), ..tunnel("vxlan", false) };
        for step in steps {
            match step {
                Step::Insert(key, remote) => {
                    here.insert(NETWORK, 0x0200_0000_0100 | u128::from(key), to(remote)).unwrap();
                    told.entries.insert(key, remote);
                }
                Step::Remove(key) => {
                    let is_there = told.entries.remove(&key).is_some();
                    prop_assert_eq!(here.remove(NETWORK, 0x0200_0000_0100 | u128::from(key)), Ok(is_there));
                }
                Step::Route(last, len, route) => {
                    // The prefix's bits alone.
                    let last = if len == 0 { 0 } else { last & (0xFF << (32 - len)) };
                    let gateway = |(port, gateway): (u16, Option<u8>)| Route { port, gateway: gateway.map(|last| address(last).into()) };
                    let prefix = if len == 0 { Ipv4Addr::UNSPECIFIED } else { address(last) };
                    here.set_route((prefix.into(), len), route.map(gateway)).unwrap();
                    match route {
                        Some(route) => { told.routes.insert((last, len), route); }
                        None => { told.routes.remove(&(last, len)); }
                    }
                }
                Step::Neighbor(port, last, mac) => {
                    here.set_neighbor(port, address(last).into(), mac.map(|mac| MacAddress([2, 0, 0, 0, 0, mac])));
                    match mac {
                        Some(mac) => { told.neighbors.insert((port, last), mac); }
                        None => { told.neighbors.remove(&(port, last)); }
                    }
                }
                Step::Port(number, up) => {
                    here.set_port(number, up.map(|is_up| Port { is_up, ..port() }));
                    match up {
                        Some(up) => { told.ports.insert(number, up); }
                        None => { told.ports.remove(&number); }
                    }
                }
            }
            here.publish();
            for key in 0..6 {
                let mut packet = buffers.packet(&frame(key, 0x0800, &v4(0, b"x")));
                let outcome = match encapsulate(&mut sender, &mut packet) {
                    Sent::Port(port) => Ok((port, packet[5])),
                    Sent::Drop(reason) => Err(reason),
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(outcome, told.expected(key));
                if outcome.is_ok() {
                    prop_assert_eq!(packet[33], told.entries[&key], "the outer destination");
                }
            }
            let different: HashSet<_> = told.entries.values().collect();
            prop_assert_eq!((here.tunnels(), here.entries(NETWORK)), (different.len(), told.entries.len()));
        }
    }
}

/// Each packet leaves with the headers of one moment: never with parts of two.
#[test]
fn no_sender_sees_half_of_a_change() {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    let (_, remote) = ends(false);
    // The VNI and the neighbour's address are of the same round, told by one publication.
    let tell = |here: &mut Overlay, round: u8| {
        here.set_neighbor(3, remote, Some(MacAddress([2, 0, 0, 0, 0, round])));
        let tunnel = tunnel("vxlan", false).with_identifier(round.into());
        here.insert(NETWORK, 0x0200_0000_0101, tunnel).unwrap();
        here.publish();
    };
    tell(&mut here, 0);
    let sender = here.encapsulator();
    std::thread::scope(|scope| {
        let mut senders = Vec::new();
        for _ in 0..2 {
            let mut sender = sender.clone();
            senders.push(scope.spawn(move || {
                let (mut buffers, mut seen) = (Buffers::new(), HashSet::new());
                for _ in 0..50_000_000 {
                    if seen.len() > 20 {
                        return;
                    }
                    let mut packet = buffers.packet(&frame(1, 0x0800, &v4(0, b"x")));
                    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
                    assert_eq!(packet[5], packet[48], "one moment's headers");
                    seen.insert(packet[5]);
                }
                panic!("{} changes came while packets were sent", seen.len());
            }));
        }
        let mut round = 0u8;
        while senders.iter().any(|sender| !sender.is_finished()) {
            round = round.wrapping_add(1).max(1);
            tell(&mut here, round);
        }
    });
}
