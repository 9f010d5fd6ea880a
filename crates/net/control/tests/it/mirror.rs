//! What becomes of single messages, whatever their order.

use std::net::IpAddr;

use control::{End, Far, Key, Limits, Options, Origin, Unresolved, Value};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::InfoVxlan;
use wire::MacAddress;

use crate::messages::{
    Device, Fdb, Nexthop, bridge_port, bytes, del_route, neighbor, new_neighbor, new_route, route,
};
use crate::watched::Watched;

const HOST: [u8; 6] = [2, 0, 0, 0, 1, 1];

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn vxlan(index: u32, vni: u32) -> Device {
    Device { index, name: "vxlan10", up: true, vxlan: Some((vni, Some(ip(1)), false)), mtu: 1450 }
}

fn external(index: u32) -> Device {
    Device { vxlan: Some((0, Some(ip(1)), true)), ..vxlan(index, 0) }
}

fn eth1(index: u32) -> Device {
    Device { index, name: "eth1", up: true, vxlan: None, mtu: 1500 }
}

#[test]
fn entries_wait_for_their_device() {
    let mut watched = Watched::new();
    watched.take(&Fdb::to(7, HOST, ip(2)).added()).take(&Fdb::to(7, [0; 6], ip(2)).added());
    assert!(watched.have.is_empty());
    assert_eq!(watched.mirror.unresolved().map(|it| it.3).collect::<Vec<_>>(), [Unresolved::NoLink(7); 2]);
    watched.take(&vxlan(7, 10).added());
    let far = Far { remote: ip(2), local: ip(1), vni: 10, port: None };
    assert_eq!(watched.have[&Key::Entry(10, MacAddress(HOST))], Value::Entry(far));
    assert_eq!(watched.have[&Key::Flood(10)], Value::Flood(vec![far]));
    assert!(watched.have.contains_key(&Key::Network(10)));
    assert_eq!(watched.mirror.unresolved().count(), 0);
}

#[test]
fn a_devices_own_port_is_that_of_its_end_and_of_far_ends_without_one() {
    let mut watched = Watched::new();
    let end = |port, zero_checksum| Value::Network(End { local: ip(1), port, zero_checksum });
    watched.take(&vxlan(7, 10).added()).take(&Fdb::to(7, HOST, ip(2)).added());
    assert_eq!(watched.have[&Key::Network(10)], end(None, false));
    watched.take(&vxlan(7, 10).added_with(vec![InfoVxlan::Port(8472)]));
    assert_eq!(watched.have[&Key::Network(10)], end(Some(8472), false));
    let far = Far { remote: ip(2), local: ip(1), vni: 10, port: Some(8472) };
    assert_eq!(watched.have[&Key::Entry(10, MacAddress(HOST))], Value::Entry(far));
    watched.take(&vxlan(7, 10).added_with(vec![InfoVxlan::UDPZeroCsumRX(true)]));
    assert_eq!(watched.have[&Key::Network(10)], end(None, true));
}

#[test]
fn a_mac_moves_and_the_old_place_is_forgotten_whichever_message_comes_first() {
    let (old, new) = (Fdb::to(7, HOST, ip(2)), Fdb::to(7, HOST, ip(3)));
    for messages in [vec![new.added()], vec![old.removed(), new.added()], vec![new.added(), old.removed()]] {
        let mut watched = Watched::new();
        watched.take(&vxlan(7, 10).added()).take(&old.added());
        assert_eq!(watched.remote(10, HOST), Some(ip(2)));
        for message in &messages {
            watched.take(message);
        }
        assert_eq!(watched.remote(10, HOST), Some(ip(3)));
    }
}

#[test]
fn the_flood_list_grows_and_shrinks_by_single_far_ends() {
    let mut watched = Watched::new();
    watched.take(&vxlan(7, 10).added());
    for last in [4, 2, 3, 2] {
        watched.take(&Fdb::to(7, [0; 6], ip(last)).added());
    }
    assert_eq!(watched.flood(10), [ip(2), ip(3), ip(4)]);
    watched.take(&Fdb::to(7, [0; 6], ip(3)).removed());
    assert_eq!(watched.flood(10), [ip(2), ip(4)]);
    watched.take(&Fdb::to(7, [0; 6], ip(2)).removed()).take(&Fdb::to(7, [0; 6], ip(4)).removed());
    assert!(!watched.have.contains_key(&Key::Flood(10)));
}

#[test]
fn a_device_that_comes_back_by_another_number_has_only_what_is_told_of_it() {
    let mut watched = Watched::new();
    watched.take(&vxlan(7, 10).added()).take(&Fdb::to(7, HOST, ip(2)).added());
    watched.take(&vxlan(7, 10).removed());
    assert!(watched.have.is_empty());
    watched.take(&vxlan(9, 10).added());
    assert_eq!(watched.remote(10, HOST), None);
    watched.take(&Fdb::to(9, HOST, ip(3)).added());
    assert_eq!(watched.remote(10, HOST), Some(ip(3)));
    // The message of the old device comes late.
    watched.take(&Fdb::to(7, HOST, ip(2)).added());
    assert_eq!(watched.remote(10, HOST), Some(ip(3)));
    // Both are there for a moment: the younger one counts.
    watched.take(&vxlan(7, 10).added()).take(&Fdb::to(7, HOST, ip(2)).added());
    assert_eq!(watched.remote(10, HOST), Some(ip(3)));
    watched.take(&vxlan(7, 10).removed());
    assert_eq!(watched.remote(10, HOST), Some(ip(3)));
}

#[test]
fn a_device_that_is_down_has_no_network() {
    let mut watched = Watched::new();
    watched.take(&vxlan(7, 10).added()).take(&Fdb::to(7, HOST, ip(2)).added());
    let down = Device { up: false, ..vxlan(7, 10) };
    watched.take(&down.added());
    assert!(watched.have.is_empty());
    watched.take(&vxlan(7, 10).added());
    assert_eq!(watched.remote(10, HOST), Some(ip(2)));
    // A flap that is over when somebody asks changes nothing.
    watched.mirror.apply_bytes(watched.kernel, &[down.added(), vxlan(7, 10).added()].concat());
    let before = watched.have.clone();
    watched.converge();
    assert_eq!(watched.have, before);
}

#[test]
fn a_port_that_leaves_its_bridge_is_still_a_device() {
    let mut watched = Watched::new();
    watched.take(&vxlan(7, 10).added()).take(&Fdb::to(7, HOST, ip(2)).added());
    watched.take(&bridge_port(7, 16)).take(&bridge_port(7, 17));
    assert_eq!(watched.remote(10, HOST), Some(ip(2)));
}

#[test]
fn a_device_for_all_networks_has_those_of_its_entries() {
    let mut watched = Watched::new();
    let entry = |vni, last| Fdb { src_vni: Some(vni), vni: Some(vni), ..Fdb::to(7, HOST, ip(last)) };
    watched.take(&entry(10, 2).added()).take(&external(7).added()).take(&entry(20, 3).added());
    assert_eq!((watched.remote(10, HOST), watched.remote(20, HOST)), (Some(ip(2)), Some(ip(3))));
    watched.take(&entry(10, 2).removed());
    assert_eq!((watched.remote(10, HOST), watched.remote(20, HOST)), (None, Some(ip(3))));
    assert!(!watched.have.contains_key(&Key::Network(10)) && watched.have.contains_key(&Key::Network(20)));
}

#[test]
fn a_shared_segment_has_all_far_ends_that_there_are() {
    let mut watched = Watched::new();
    let other = [2, 0, 0, 0, 2, 2];
    let entry = |mac: [u8; 6]| Fdb { nexthop: Some(500), dst: None, ..Fdb::to(7, mac, ip(0)) };
    // The group before its members, and entries before the group.
    watched.take(&entry(HOST).added()).take(&entry(other).added());
    watched.take(&vxlan(7, 10).added()).take(&Nexthop::group(500, &[1, 2, 3]).added());
    assert_eq!(watched.remote(10, HOST), None);
    for id in 1..=3 {
        watched.take(&Nexthop::far(id, ip(id as u8 + 1)).added());
    }
    assert_eq!(watched.remotes(10, HOST), [ip(2), ip(3), ip(4)]);
    watched.take(&Nexthop::far(2, ip(3)).removed());
    assert_eq!(watched.remotes(10, HOST), [ip(2), ip(4)]);
    assert_eq!(watched.remotes(10, other), [ip(2), ip(4)]);
    // Linux removes the entries of a removed group without a message.
    watched.take(&Nexthop::group(500, &[1, 3]).removed()).take(&Nexthop::group(500, &[1, 3]).added());
    assert!(watched.remotes(10, HOST).is_empty());
    // And a group with its last member.
    watched.take(&entry(HOST).added()).take(&entry(other).added());
    assert_eq!(watched.remotes(10, other), [ip(2), ip(4)]);
    watched.take(&Nexthop::far(1, ip(2)).removed()).take(&Nexthop::far(3, ip(4)).removed());
    watched.take(&Nexthop::far(1, ip(2)).added()).take(&Nexthop::group(500, &[1]).added());
    assert_eq!(watched.remote(10, HOST), None);
}

/// Weights come as Linux has them, of two bytes from 6.12 on, and go to the overlay in proportion.
#[test]
fn the_far_ends_of_a_segment_have_the_kernels_weights() {
    let mut watched = Watched::new();
    watched.take(&Fdb { nexthop: Some(500), dst: None, ..Fdb::to(7, HOST, ip(0)) }.added());
    watched.take(&vxlan(7, 10).added());
    for (id, last) in [(1, 2), (2, 3), (3, 4), (4, 4)] {
        watched.take(&Nexthop::far(id, ip(last)).added());
    }
    let mut weights = |group: &Nexthop| {
        watched.take(&group.added());
        match &watched.have[&Key::Entry(10, MacAddress(HOST))] {
            Value::Group(group) => group.fars.iter().map(|weighted| weighted.weight).collect::<Vec<_>>(),
            other => panic!("{other} is no group"),
        }
    };
    assert_eq!(weights(&Nexthop::group(500, &[1, 2, 3])), [1, 1, 1]);
    assert_eq!(weights(&Nexthop::weighted(500, &[(1, 1), (2, 20), (3, 256)])), [1, 20, 256]);
    // Two objects that are the same host have both of their shares.
    assert_eq!(weights(&Nexthop::weighted(500, &[(1, 1), (3, 20), (4, 5)])), [1, 25]);
    // What is more than the overlay's most is in proportion, and each has something.
    let large = Nexthop::weighted(500, &[(1, 1), (2, 32_768), (3, 65_536)]);
    assert_eq!(weights(&large), [1, 128, 256]);
    // Of an older kernel the second byte is not known to be one of the weight.
    assert_eq!(weights(&Nexthop { has_high_weights: false, ..large }), [1, 256, 256]);
}

#[test]
fn the_underlay_is_that_of_the_ports_and_in_any_order() {
    let prefix = (IpAddr::from([10, 0, 0, 0]), 8);
    let way = |last| route(prefix, 20, (Some(3), Some(ip(last))), None);
    let mut watched = Watched::new();
    watched.take(&new_neighbor(3, ip(9), Some(HOST))).take(&new_route(way(9)));
    let route_of = |watched: &Watched| match watched.have.get(&Key::Route(prefix)) {
        Some(Value::Route(route)) => Some((route.port, route.gateway)),
        _ => None,
    };
    assert_eq!(route_of(&watched), Some((control::ELSEWHERE, None)), "no port is known");
    watched.take(&eth1(3).added());
    assert_eq!(route_of(&watched), Some((0, Some(ip(9)))));
    assert_eq!(watched.have.get(&Key::Neighbor(0, ip(9))), Some(&Value::Neighbor(MacAddress(HOST))));
    assert!(matches!(&watched.have[&Key::Port(0)], Value::Port(port) if port.is_up && port.mtu == 1500));
    // A better route by another device hides it, and none takes its place but itself.
    let better = route(prefix, 10, (Some(4), Some(ip(8))), None);
    watched.take(&new_route(better.clone()));
    assert_eq!(route_of(&watched), Some((control::ELSEWHERE, None)));
    watched.take(&del_route(better));
    assert_eq!(route_of(&watched), Some((0, Some(ip(9)))));
    // Linux does not tell of the routes that go with a device that goes down.
    watched.take(&Device { up: false, ..eth1(3) }.added()).take(&eth1(3).added());
    assert_eq!(route_of(&watched), None);
    assert!(!watched.have.contains_key(&Key::Neighbor(0, ip(9))));
    // A neighbour that does not answer any more.
    watched.take(&new_neighbor(3, ip(9), Some(HOST))).take(&new_neighbor(3, ip(9), None));
    assert!(!watched.have.contains_key(&Key::Neighbor(0, ip(9))));
    let gone = bytes(RouteNetlinkMessage::DelNeighbour(neighbor(3, ip(9), Some(HOST))), 0);
    watched.take(&new_neighbor(3, ip(9), Some(HOST))).take(&gone);
    assert!(!watched.have.contains_key(&Key::Neighbor(0, ip(9))));
}

/// A device that names no outer source has the first of this machine's of each version of IP.
#[test]
fn far_ends_of_both_versions_have_an_outer_source() {
    let (v6, own) = ("2001:db8::2".parse().unwrap(), "2001:db8::1".parse().unwrap());
    let other = [2, 0, 0, 0, 2, 2];
    let mut watched = Watched::with(Options { locals: vec![ip(1), own], ..Options::default() });
    let device = Device { vxlan: Some((10, None, false)), ..vxlan(7, 10) };
    watched.take(&device.added()).take(&Fdb::to(7, HOST, ip(2)).added()).take(&Fdb::to(7, other, v6).added());
    assert_eq!(watched.mirror.unresolved().count(), 0);
    let local = |watched: &Watched, mac| match watched.have.get(&Key::Entry(10, MacAddress(mac))) {
        Some(Value::Entry(far)) => Some(far.local),
        _ => None,
    };
    assert_eq!((local(&watched, HOST), local(&watched, other)), (Some(ip(1)), Some(own)));
    // One that the device names is the only one.
    watched.take(&vxlan(7, 10).added());
    assert_eq!((local(&watched, HOST), local(&watched, other)), (Some(ip(1)), None));
    assert_eq!(watched.mirror.unresolved().map(|it| it.3).collect::<Vec<_>>(), [Unresolved::NoLocal]);
}

/// Linux sends a frame to a group of stations to each of its far ends. Here only the flood list does.
#[test]
fn a_group_of_stations_with_several_far_ends_is_named() {
    let group = [1, 0, 0x5E, 1, 1, 1];
    let mut watched = Watched::new();
    watched.take(&vxlan(7, 10).added()).take(&Fdb::to(7, group, ip(2)).added());
    assert_eq!((watched.remote(10, group), watched.mirror.unresolved().count()), (Some(ip(2)), 0));
    watched.take(&Fdb::to(7, group, ip(3)).added());
    assert_eq!(watched.remote(10, group), None);
    let problems: Vec<_> = watched.mirror.unresolved().map(|it| (it.2, it.3)).collect();
    assert_eq!(problems, [(MacAddress(group), Unresolved::Several(2))]);
    watched.take(&Fdb::to(7, group, ip(2)).removed());
    assert_eq!((watched.remote(10, group), watched.mirror.unresolved().count()), (Some(ip(3)), 0));
}

#[test]
fn routes_by_nexthop_objects_follow_them() {
    let prefix = (IpAddr::from([10, 0, 0, 0]), 8);
    let mut watched = Watched::new();
    watched.take(&new_route(route(prefix, 20, (None, None), Some(60)))).take(&eth1(3).added());
    let hop = Nexthop { id: 60, link: Some(3), gateway: Some(ip(9)), ..Nexthop::default() };
    watched.take(&hop.added());
    let by = |last| Value::Route(overlay::Route { port: 0, gateway: Some(ip(last)) });
    assert_eq!(watched.have[&Key::Route(prefix)], by(9));
    watched.take(&Nexthop { gateway: Some(ip(8)), ..hop.clone() }.added());
    assert_eq!(watched.have[&Key::Route(prefix)], by(8));
    watched.take(&hop.removed()).take(&hop.added());
    assert!(!watched.have.contains_key(&Key::Route(prefix)), "the route went with its nexthop");
    // Linux removes nexthop objects of a device without a carrier, and does not tell.
    watched.take(&new_route(route(prefix, 20, (None, None), Some(60))));
    assert_eq!(watched.have[&Key::Route(prefix)], by(9));
    watched.take(&Device { up: false, ..eth1(3) }.added()).take(&eth1(3).added());
    assert!(!watched.have.contains_key(&Key::Route(prefix)));
}

#[test]
fn what_an_origin_does_not_tell_of_again_is_swept_and_the_rest_is_not() {
    let mut watched = Watched::with(Options { entries: Origin::Fpm, ..Options::default() });
    watched.take(&vxlan(7, 10).added()).take_fpm(&Fdb::to(7, HOST, ip(2)).added());
    let other = [2, 0, 0, 0, 1, 2];
    watched.take_fpm(&Fdb::to(7, other, ip(3)).added());
    for last in [2, 3] {
        watched.take_fpm(&Fdb::to(7, [0; 6], ip(last)).added());
    }
    watched.fpm = watched.mirror.begin(Origin::Fpm);
    watched.take_fpm(&Fdb::to(7, other, ip(4)).added());
    watched.take_fpm(&Fdb::to(7, [0; 6], ip(3)).added());
    assert_eq!(watched.remote(10, HOST), Some(ip(2)), "it is still used until the round ends");
    watched.mirror.sweep(Origin::Fpm, &[watched.fpm]);
    watched.converge();
    assert_eq!((watched.remote(10, HOST), watched.remote(10, other)), (None, Some(ip(4))));
    assert_eq!(watched.flood(10), [ip(3)]);
    assert!(watched.have.contains_key(&Key::Network(10)), "the kernel's device stays");
    assert_eq!(watched.mirror.counters().swept, 1);
}

#[test]
fn an_entry_whose_last_far_end_is_swept_is_gone() {
    let mut watched = Watched::new();
    let flood = |last| Fdb { src_vni: Some(10), vni: Some(10), ..Fdb::to(7, [0; 6], ip(last)) };
    watched.take(&external(7).added()).take(&flood(2).added());
    assert!(watched.have.contains_key(&Key::Network(10)));
    // Everything is told of again: another far end came, and went in the meantime.
    watched.kernel = watched.mirror.begin(Origin::Kernel);
    watched.take(&external(7).added()).take(&flood(3).added()).take(&flood(3).removed());
    watched.mirror.sweep(Origin::Kernel, &[watched.kernel]);
    watched.converge();
    assert!(watched.have.is_empty(), "{:?}", watched.have);
    assert_eq!(watched.mirror.len(), 1);
}

#[test]
fn what_is_too_much_is_counted_and_kept_out() {
    let limits = Limits { fdb: 2, members: 2, links: 1, nexthops: 1, neighbors: 1, routes: 1, parts: 9 };
    let mut watched = Watched::with(Options { limits, ..Options::default() });
    watched.take(&vxlan(7, 10).added()).take(&vxlan(8, 20).added());
    for last in 0..3 {
        watched.take(&Fdb::to(7, [2, 0, 0, 0, 0, last], ip(2)).added());
        watched.take(&Nexthop::far(u32::from(last) + 1, ip(2)).added());
        watched.take(&new_neighbor(7, ip(last), Some(HOST)));
        watched.take(&new_route(route((ip(last), 32), 0, (Some(7), None), None)));
    }
    watched.take(&Nexthop::group(1, &[1, 2, 3]).added());
    assert_eq!(watched.mirror.counters().full, 1 + 1 + 2 + 2 + 2 + 1);
    assert_eq!(watched.mirror.len(), 1 + 2 + 1 + 1 + 1);
    // A change of what is there needs no room.
    watched.take(&Fdb::to(7, [2, 0, 0, 0, 0, 1], ip(5)).added());
    assert_eq!(watched.remote(10, [2, 0, 0, 0, 0, 1]), Some(ip(5)));
}

#[test]
fn far_ends_members_and_hops_are_bounded_together() {
    let limits = Limits { parts: 5, ..Limits::default() };
    let mut watched = Watched::with(Options { limits, ..Options::default() });
    watched.take(&vxlan(7, 10).added());
    for last in [2, 3] {
        watched.take(&Fdb::to(7, [0; 6], ip(last)).added());
    }
    watched.take(&Nexthop::group(5, &[1, 2]).added());
    let way = |last| new_route(route((ip(last), 32), 0, (Some(7), None), None));
    watched.take(&way(8));
    assert_eq!((watched.mirror.parts(), watched.mirror.counters().full), (5, 0));
    let too_much = [
        Fdb::to(7, [0; 6], ip(4)).added(),
        Nexthop::group(5, &[1, 2, 3]).added(),
        Nexthop::group(6, &[1]).added(),
        way(9),
    ];
    for message in &too_much {
        watched.take(message);
    }
    assert_eq!((watched.mirror.parts(), watched.mirror.counters().full), (5, 4));
    assert_eq!(watched.flood(10), [ip(2), ip(3)]);
    // What is told again or gets shorter needs no room, and leaves some.
    watched.take(&way(8)).take(&Fdb::to(7, [0; 6], ip(3)).added()).take(&Nexthop::group(5, &[1]).added());
    watched.take(&Fdb::to(7, [0; 6], ip(2)).removed());
    assert_eq!((watched.mirror.parts(), watched.mirror.counters().full), (3, 4));
    watched.take(&vxlan(7, 10).removed()).take(&Nexthop::group(5, &[1]).removed());
    assert_eq!(watched.mirror.parts(), 0);
}

#[test]
fn wrong_bytes_are_counted_and_the_messages_in_front_taken() {
    let mut watched = Watched::new();
    let mut bytes = [vxlan(7, 10).added(), Fdb::to(7, HOST, ip(2)).added()].concat();
    bytes.extend_from_slice(&[0xFF; 40]);
    watched.take(&bytes);
    assert_eq!(watched.remote(10, HOST), Some(ip(2)));
    assert_eq!(watched.mirror.counters().malformed, 1);
}

/// RFC 9136, section 4.4.1: a prefix of a type 5 route is behind the far end's router, whose Ethernet
/// address FRR makes an entry of the routed network (L3VNI), a neighbour on the device that routes
/// there, and a route of the tenant's table by it. The entry is followed when the router has another
/// address; what the tenant routes is not the underlay's.
#[test]
fn a_type_5_routes_router_is_an_entry_of_its_network() {
    const ROUTER: [u8; 6] = [2, 0, 0, 0, 2, 2];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 2, 9];
    const DEVICE: u32 = 20;
    let mut watched = Watched::new();
    let prefix = (IpAddr::from([10, 5, 0, 0]), 16);
    watched.take(&eth1(2).added()).take(&vxlan(8, 1000).added());
    watched.take(&Fdb::to(8, ROUTER, ip(2)).added()).take(&new_neighbor(DEVICE, ip(2), Some(ROUTER)));
    let mut tenants = route(prefix, 20, (Some(DEVICE), Some(ip(2))), None);
    tenants.header.table = 100;
    watched.take(&new_route(tenants.clone()));
    assert_eq!(watched.remote(1000, ROUTER), Some(ip(2)));
    assert!(!watched.have.contains_key(&Key::Route(prefix)), "the tenant's, not the underlay's");
    assert!(!watched.have.keys().any(|key| matches!(key, Key::Neighbor(..))), "{:?}", watched.have);
    // The far end's router has another address.
    watched.take(&Fdb::to(8, OTHER, ip(2)).added()).take(&new_neighbor(DEVICE, ip(2), Some(OTHER)));
    watched.take(&Fdb::to(8, ROUTER, ip(2)).removed());
    assert_eq!((watched.remote(1000, ROUTER), watched.remote(1000, OTHER)), (None, Some(ip(2))));
    // Several far ends have the prefix: a router each, and the tenant's route chooses.
    watched.take(&Fdb::to(8, ROUTER, ip(3)).added());
    assert_eq!((watched.remote(1000, ROUTER), watched.remote(1000, OTHER)), (Some(ip(3)), Some(ip(2))));
    watched.take(&del_route(tenants)).take(&Fdb::to(8, OTHER, ip(2)).removed());
    assert_eq!(watched.remote(1000, OTHER), None);
    // In the table of the underlay as well it leads to no port: what goes to a far end behind it
    // would be a tunnel in a tunnel.
    watched.take(&new_route(route(prefix, 20, (Some(DEVICE), Some(ip(2))), None)));
    let elsewhere = overlay::Route { port: control::ELSEWHERE, gateway: None };
    assert_eq!(watched.have.get(&Key::Route(prefix)), Some(&Value::Route(elsewhere)));
}
