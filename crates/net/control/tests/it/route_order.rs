//! The order of routes that have the same prefix and metric.

use std::net::IpAddr;

use control::{Key, Value};
use netlink_packet_route::route::{RouteMessage, RouteType};

use crate::messages::{Device, Nexthop, del_route, new_route, new_route_beside, route};
use crate::watched::Watched;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// A mirror with a port of the underlay, the device 3, and no route.
fn with_port() -> Watched {
    let mut watched = Watched::new();
    watched.take(&Device { index: 3, name: "eth1", up: true, vxlan: None, mtu: 1500 }.added());
    watched
}

/// The prefix, by its first address.
fn prefix(first: &str) -> (IpAddr, u8) {
    let first: IpAddr = first.parse().unwrap();
    (first, if first.is_ipv4() { 8 } else { 48 })
}

/// A route of a prefix by the router that has this number.
fn to(first: &str, last: u8) -> RouteMessage {
    let gateway =
        if prefix(first).0.is_ipv4() { ip(last) } else { format!("2001:db8::{last}").parse().unwrap() };
    route(prefix(first), 20, (Some(3), Some(gateway)), None)
}

/// The router by which a prefix is reached.
fn gateway(watched: &Watched, first: &str) -> Option<IpAddr> {
    match watched.have.get(&Key::Route(prefix(first))) {
        Some(Value::Route(route)) => route.gateway,
        _ => None,
    }
}

/// Of the routes of one key that stand side by side the first is used, and each goes by itself.
#[test]
fn a_route_in_front_of_another_takes_no_place_from_it() {
    let mut watched = with_port();
    let (way, by) = (|last| to("10.0.0.0", last), |watched: &Watched| gateway(watched, "10.0.0.0"));
    watched.take(&new_route_beside(way(9), false));
    assert_eq!(by(&watched), Some(ip(9)));
    watched.take(&new_route_beside(way(8), false)).take(&new_route_beside(way(7), true));
    assert_eq!(by(&watched), Some(ip(8)));
    watched.take(&del_route(way(8)));
    assert_eq!(by(&watched), Some(ip(9)));
    // What replaces another stands in the place of the first alone.
    watched.take(&new_route(way(6)));
    assert_eq!(by(&watched), Some(ip(6)));
    watched.take(&del_route(way(6)));
    assert_eq!(by(&watched), Some(ip(7)));
    watched.take(&new_route(way(5))).take(&del_route(way(5)));
    assert_eq!((by(&watched), watched.mirror.parts()), (None, 0), "what is replaced is not there");
}

/// Routes by a nexthop object, and those that lead nowhere, have their place among the others.
#[test]
fn routes_of_all_kinds_stand_in_their_order() {
    let mut watched = with_port();
    let (way, by) = (|last| to("10.0.0.0", last), |watched: &Watched| gateway(watched, "10.0.0.0"));
    let prefix = (IpAddr::from([10, 0, 0, 0]), 8);
    let hop = Nexthop { id: 5, link: Some(3), gateway: Some(ip(8)), ..Nexthop::default() };
    let object = || route(prefix, 20, (None, None), Some(5));
    watched.take(&new_route_beside(way(9), false)).take(&hop.added());
    watched.take(&new_route_beside(object(), false));
    assert_eq!(by(&watched), Some(ip(8)));
    watched.take(&hop.removed());
    assert_eq!(by(&watched), Some(ip(9)), "the other one did not go with the object");
    let mut nowhere = route(prefix, 20, (None, None), None);
    nowhere.header.kind = RouteType::BlackHole;
    watched.take(&new_route_beside(nowhere.clone(), true));
    assert_eq!(by(&watched), Some(ip(9)));
    watched.take(&new_route_beside(way(7), true)).take(&del_route(way(9)));
    let elsewhere = overlay::Route { port: control::ELSEWHERE, gateway: None };
    assert_eq!(watched.have.get(&Key::Route(prefix)), Some(&Value::Route(elsewhere)));
    watched.take(&del_route(nowhere));
    assert_eq!(by(&watched), Some(ip(7)));
    // One behind it goes, and it stays.
    watched.take(&hop.added()).take(&new_route_beside(object(), true));
    watched.take(&del_route(object()));
    assert_eq!((by(&watched), watched.mirror.parts()), (Some(ip(7)), 1));
}

/// Linux puts routes of IPv6 behind those of the same metric, and tells of each with all beside it.
#[test]
fn a_route_of_ipv6_is_behind_those_of_its_metric() {
    let mut watched = with_port();
    let way = |last| to("2001:db8:1::", last);
    let by = |watched: &Watched| gateway(watched, "2001:db8:1::").map(|it| it.to_string());
    watched.take(&new_route_beside(way(9), false)).take(&new_route_beside(way(8), false));
    assert_eq!(by(&watched).as_deref(), Some("2001:db8::9"));
    watched.take(&del_route(way(9)));
    assert_eq!(by(&watched).as_deref(), Some("2001:db8::8"));
    watched.take(&new_route_beside(way(7), true)).take(&new_route(way(6)));
    assert_eq!(by(&watched).as_deref(), Some("2001:db8::6"));
    watched.take(&del_route(way(6)));
    assert_eq!((by(&watched), watched.mirror.parts()), (None, 0), "all next hops were replaced");
}
