//! Addresses that are learned from received frames.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use overlay::{
    Decapsulator, Encapsulator, Error, Learning, Network, Observation, Overlay, Owner, Received, Sent, Tunnel,
};
use port::Reason;

use crate::rig::{Buffers, NETWORK, decapsulate, encapsulate, frame, reversed, table, tunnel, v4};

const AGE: Duration = Duration::from_secs(300);

fn far(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, n).into()
}

/// A table that learns no more than this many stations.
fn learning(limit: usize) -> (Overlay, Encapsulator, Decapsulator) {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    let end = tunnel("vxlan", false);
    here.add_end(NETWORK, &end, false).unwrap();
    here.set_learning(NETWORK, Some(Learning { tunnels: vec![end], limit, age: AGE })).unwrap();
    let (sender, receiver) = (here.encapsulator(), here.decapsulator());
    here.publish();
    (here, sender, receiver)
}

/// A frame from a station behind a far end, as it comes by the tunnel.
fn comes(receiver: &mut Decapsulator, end: u8, station: [u8; 6]) {
    let mut there = table();
    there.add_network(NETWORK, Network::bridged()).unwrap();
    let back = Tunnel { local: far(end), ..reversed(&tunnel("vxlan", false)) };
    there.insert(NETWORK, 0x0200_0000_0101, back).unwrap();
    let mut sender = there.encapsulator();
    there.publish();
    let mut bytes = frame(1, 0x0800, &v4(0, b"hello"));
    bytes[6..12].copy_from_slice(&station);
    let mut buffers = Buffers::new();
    let mut packet = buffers.packet(&bytes);
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    let mut packet = buffers.packet(&packet);
    assert_eq!(decapsulate(receiver, &mut packet), Received::Network(NETWORK));
}

fn station(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, n]
}

fn observed(receiver: &mut Decapsulator) -> Vec<Observation> {
    let mut all = Vec::new();
    receiver.observed(&mut all);
    all
}

/// The far end that packets to a station go to.
fn way(here: &mut Overlay, sender: &mut Encapsulator, n: u8) -> Result<IpAddr, Sent> {
    here.publish();
    let mut packet = Buffers::new().packet(&frame(n, 0x0800, &v4(0, b"x")));
    match encapsulate(sender, &mut packet) {
        Sent::Port(3) => Ok(wire::ipv4::Header::of(&packet[14..]).unwrap().addresses().dst()),
        other => Err(other),
    }
}

/// RFC 7348, section 4.1: the outer source of a frame is where its sender is.
#[test]
fn who_sends_is_found_behind_its_tunnel() {
    let (mut here, mut sender, mut receiver) = learning(10);
    let unknown = Err(Sent::Drop(Reason::OverlayUnknownKey));
    assert_eq!(way(&mut here, &mut sender, 5), unknown);
    comes(&mut receiver, 20, station(5));
    comes(&mut receiver, 20, station(5));
    comes(&mut receiver, 20, [3, 0, 0, 0, 1, 5]); // a group sends nothing
    comes(&mut receiver, 20, [0; 6]);
    let notes = observed(&mut receiver);
    assert_eq!(notes, [Observation { network: NETWORK, station: 0x0200_0000_0105, remote: far(20) }]);
    assert_eq!(way(&mut here, &mut sender, 5), unknown, "nothing is learned unless it is asked for");
    assert!(notes.iter().all(|note| here.learn(note, Duration::ZERO)));
    assert!(!here.learn(&notes[0], Duration::ZERO), "it is known");
    assert_eq!(way(&mut here, &mut sender, 5), Ok(far(20)));
    // It moves, and is found there.
    comes(&mut receiver, 21, station(5));
    assert!(observed(&mut receiver).iter().all(|note| here.learn(note, AGE / 2)));
    assert_eq!(way(&mut here, &mut sender, 5), Ok(far(21)));
    // What is heard of stays, what is not goes.
    here.age(AGE + AGE / 4);
    assert_eq!(way(&mut here, &mut sender, 5), Ok(far(21)));
    here.age(AGE * 2);
    assert_eq!(way(&mut here, &mut sender, 5), unknown);
    let counts = here.learning(NETWORK);
    assert_eq!((counts.learned, counts.moved, counts.aged, counts.refused), (1, 1, 1, 0));
    assert_eq!((here.entries(NETWORK), here.tunnels()), (0, 0));
}

/// What a stranger can fill is bounded, and who was heard of last stays.
#[test]
fn a_flood_of_stations_fills_no_more_than_the_limit() {
    let (mut here, _, mut receiver) = learning(100);
    for n in 0..5000u64 {
        let note = Observation { network: NETWORK, station: 0x0200_0000_0000 | n, remote: far(20) };
        here.learn(&note, Duration::from_millis(n));
        // One that is heard of again and again.
        here.learn(&Observation { station: 0x0200_0000_0000, ..note }, Duration::from_millis(n));
        assert!(here.entries(NETWORK) <= 100);
    }
    assert_eq!(here.entries(NETWORK), 100);
    assert!(
        here.entry(NETWORK, 0x0200_0000_0000).is_some() && here.entry(NETWORK, 0x0200_0000_0001).is_none()
    );
    assert_eq!(here.learning(NETWORK).evicted, 4900);
    // A receiver that nobody asks keeps no more notes than it has room for.
    for n in 0..2000u16 {
        let [high, low] = n.to_be_bytes();
        comes(&mut receiver, 20, [2, 0, 0, 9, high, low]);
    }
    let unobserved = receiver.unobserved();
    assert_eq!(observed(&mut receiver).len() as u64 + unobserved, 2000);
    assert!(unobserved > 900);
    comes(&mut receiver, 20, station(5));
    assert_eq!(observed(&mut receiver).len(), 1);
}

#[test]
fn learned_entries_give_way_and_take_nothing() {
    let (mut here, mut sender, _) = learning(10);
    let note = |n: u8, end: u8| Observation {
        network: NETWORK,
        station: 0x0200_0000_0100 | u64::from(n),
        remote: far(end),
    };
    here.insert_as(Owner::Kernel, NETWORK, 0x0200_0000_0105, tunnel("geneve", false)).unwrap();
    here.learn(&note(5, 20), Duration::ZERO);
    assert_eq!((here.learning(NETWORK).refused, way(&mut here, &mut sender, 5)), (1, Ok(far(2))));
    here.learn(&note(6, 20), Duration::ZERO);
    here.insert_as(Owner::Kernel, NETWORK, 0x0200_0000_0106, tunnel("geneve", false)).unwrap();
    here.age(AGE * 2);
    assert_eq!(way(&mut here, &mut sender, 6), Ok(far(2)), "another owner's entry does not age");
    // An address that no host has makes no entry.
    here.learn(&Observation { remote: Ipv4Addr::UNSPECIFIED.into(), ..note(7, 0) }, Duration::ZERO);
    assert_eq!((here.learning(NETWORK).refused, here.entries(NETWORK)), (2, 2));
    // Learning ends: what was learned goes.
    here.learn(&note(8, 20), Duration::ZERO);
    assert_eq!(here.entries(NETWORK), 3);
    here.set_learning(NETWORK, None).unwrap();
    here.learn(&note(9, 20), Duration::ZERO);
    assert_eq!(here.entries(NETWORK), 2);
    let service = Learning { tunnels: vec![tunnel("vxlan-gpe", false)], limit: 1, age: AGE };
    here.add_network(9, Network::service_path()).unwrap();
    assert_eq!(here.set_learning(9, Some(service)), Err(Error::Matching(9)));
}

/// Who is heard of by IPv6 is reached by IPv6, with the same table.
#[test]
fn stations_are_learned_by_both_versions_of_ip() {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    let tunnels = [tunnel("vxlan", false), tunnel("vxlan", true)].to_vec();
    here.set_learning(NETWORK, Some(Learning { tunnels, limit: 9, age: AGE })).unwrap();
    for (station, remote) in [(1, far(20)), (2, "2001:db8::20".parse().unwrap())] {
        assert!(here.learn(&Observation { network: NETWORK, station, remote }, Duration::ZERO));
        let tunnel = here.get(NETWORK, station.into()).unwrap();
        assert_eq!((tunnel.remote, tunnel.local), (remote, crate::rig::ends(remote.is_ipv6()).0));
    }
    // One version alone, where the network's tunnels go by that.
    let one = Learning { tunnels: vec![tunnel("vxlan", false)], limit: 9, age: AGE };
    here.set_learning(NETWORK, Some(one)).unwrap();
    let remote = "2001:db8::20".parse().unwrap();
    assert!(!here.learn(&Observation { network: NETWORK, station: 3, remote }, Duration::ZERO));
    assert_eq!(here.learning(NETWORK).refused, 1);
}

/// RFC 1122, section 3.2.1.3: a far end is another host, whatever a frame's outer source is.
#[test]
fn no_station_is_behind_an_address_that_is_no_other_host() {
    let (mut here, ..) = learning(100);
    here.add_network(9, Network::bridged()).unwrap();
    let other = Tunnel { local: far(9), ..tunnel("vxlan", false).with_identifier(9) };
    here.add_end(9, &other, false).unwrap();
    let own = [crate::rig::ends(false).0, far(9)];
    let nobody =
        ["127.0.0.1", "255.255.255.255", "224.0.0.1", "0.0.0.0", "0.1.2.3", "::1", "::ffff:192.0.2.7"];
    let wrong = nobody.map(|address| address.parse().unwrap());
    for (station, remote) in own.into_iter().chain(wrong).enumerate() {
        let observed = Observation { network: NETWORK, station: station as u64, remote };
        assert!(!here.learn(&observed, Duration::ZERO), "{remote}");
    }
    assert_eq!((here.learning(NETWORK).refused, here.entries(NETWORK)), (9, 0));
}

/// What one network costs does not grow with the others.
#[test]
fn networks_that_learn_come_and_go_however_many_there_are() {
    const NETWORKS: u32 = 12_000;
    let (mut here, begin) = (table(), std::time::Instant::now());
    for number in 0..NETWORKS {
        let end = tunnel("vxlan", false).with_identifier(number);
        here.add_network(number, Network::bridged()).unwrap();
        here.add_end(number, &end, false).unwrap();
        here.set_learning(number, Some(Learning { tunnels: vec![end], limit: 9, age: AGE })).unwrap();
    }
    (0..NETWORKS).for_each(|number| here.remove_network(number).unwrap());
    // A limit far above what it takes, where each network looks at its own ends only.
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    // Their ends are gone, and can be others'.
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.add_end(NETWORK, &tunnel("vxlan", false).with_identifier(7), false).unwrap();
    assert!(here.remove_end(&tunnel("vxlan", false).with_identifier(7)).unwrap());
    here.remove_network(NETWORK).unwrap();
}
