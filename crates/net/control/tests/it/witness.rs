//! What netlink-packet-route writes is read by us as it was meant, for the objects that both
//! know.

use std::net::IpAddr;

use control::netlink::link::{LinkKind, Vxlan};
use control::netlink::route::Encap;
use control::netlink::{self, Body, Messages};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVrf, InfoVxlan, LinkAttribute, LinkInfo,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteIp6Tunnel, RouteIpTunnel, RouteLwEnCapType, RouteLwTunnelEncap,
    RouteNextHop,
};
use proptest::prelude::*;

use crate::messages::{Device, Fdb, MAC, Nexthop, bytes, neighbor, route};

fn read(bytes: &[u8]) -> Body {
    let all: Vec<_> = Messages::new(bytes).collect();
    assert_eq!(all.len(), 1);
    let (header, body) = all[0].expect("a message");
    netlink::parse(&header, body).expect("what was written")
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

proptest! {
    #[test]
    fn a_vxlan_device_is_read_as_written(
        index: u32, up: bool, vni in 0u32..1 << 24, v4: u32, v6: u128, which in 0..3, external: bool, mtu: u32,
        port: u16, zero_checksum: bool,
    ) {
        let local = match which {
            0 => None,
            1 => Some(IpAddr::V4(v4.max(1).into())),
            _ => Some(IpAddr::V6(v6.max(1).into())),
        };
        let device = Device { index, name: "vxlan100", up, vxlan: Some((vni, local, external)), mtu };
        let more = vec![InfoVxlan::Port(port), InfoVxlan::UDPZeroCsumRX(zero_checksum)];
        let Body::NewLink(link) = read(&device.added_with(more)) else { panic!("no link") };
        let vxlan = Vxlan { vni, local, port, zero_checksum, is_external: external };
        prop_assert_eq!(link.kind, LinkKind::Vxlan(vxlan));
        prop_assert_eq!((link.index, link.is_up, link.has_carrier, link.mtu), (index, up, up, mtu));
        prop_assert_eq!((link.name.as_str(), link.mac.unwrap().0), ("vxlan100", MAC));
    }

    #[test]
    fn an_entry_is_read_as_written(
        link: u32, mac: [u8; 6], dst: Option<u32>, v6: u128, nexthop: Option<u32>, vni: Option<u32>, src_vni: Option<u32>,
    ) {
        let dst = dst.map_or(IpAddr::V6(v6.into()), |dst| IpAddr::V4(dst.into()));
        let fdb = Fdb { link, mac, dst: Some(dst), nexthop, vni, src_vni };
        let Body::NewNeighbor(read) = read(&fdb.added()) else { panic!("no entry") };
        prop_assert!(read.is_vxlan());
        prop_assert_eq!((read.link, read.mac.unwrap().0, read.dst), (link, mac, Some(dst)));
        prop_assert_eq!((read.nexthop, read.vni, read.src_vni), (nexthop, vni, src_vni));
    }

    #[test]
    fn a_nexthop_is_read_as_written(
        id in 1u32.., group in prop::collection::vec((any::<u32>(), 1u32..=65_536), 0..9), has_high_weights: bool,
        link: Option<u32>, gateway: Option<u32>, fdb: bool,
    ) {
        let gateway = gateway.map(|gateway| IpAddr::V4(gateway.into()));
        let written = Nexthop { id, group, has_high_weights, link, gateway, fdb };
        let Body::NewNexthop(read) = read(&written.added()) else { panic!("no nexthop") };
        let weight = |weight: u32| if has_high_weights { weight } else { (weight - 1) % 256 + 1 };
        let expected: Vec<(u32, u32)> = written.group.iter().map(|(id, is)| (*id, weight(*is))).collect();
        let group: Vec<(u32, u32)> = read.group.iter().map(|member| (member.id, member.weight)).collect();
        prop_assert_eq!((read.id, group), (id, expected));
        prop_assert_eq!((read.link, read.gateway, read.is_fdb), (link, gateway, fdb));
    }

    #[test]
    fn a_route_is_read_as_written(address: u32, length in 0u8..=32, metric: u32, link in 1u32.., gateway: Option<u32>) {
        let gateway = gateway.map(|gateway| IpAddr::V4(gateway.into()));
        let message = route((IpAddr::V4(address.into()), length), metric, (Some(link), gateway), None);
        let Body::NewRoute(read) = read(&bytes(RouteNetlinkMessage::NewRoute(message), 0)) else { panic!("no route") };
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        prop_assert_eq!(read.prefix, Some((IpAddr::V4((address & mask).into()), length)));
        prop_assert_eq!((read.metric, read.table, read.is_unicast), (metric, 254, true));
        prop_assert_eq!((read.hops[0].link, read.hops[0].gateway), (link, gateway));
    }
}

#[test]
fn a_route_of_several_hops_has_them_all() {
    let mut message = route((ip("10.0.0.0"), 8), 20, (None, None), None);
    let hops = [(3, "192.0.2.3"), (4, "192.0.2.4")].map(|(link, gateway)| {
        let mut hop = RouteNextHop::default();
        hop.interface_index = link;
        let IpAddr::V4(gateway) = ip(gateway) else { unreachable!() };
        hop.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet(gateway)));
        hop
    });
    message.attributes.push(RouteAttribute::MultiPath(hops.to_vec()));
    let Body::NewRoute(route) = read(&bytes(RouteNetlinkMessage::NewRoute(message), 0)) else {
        panic!("no route")
    };
    let hops: Vec<_> = route.hops.iter().map(|hop| (hop.link, hop.gateway)).collect();
    assert_eq!(hops, [(3, Some(ip("192.0.2.3"))), (4, Some(ip("192.0.2.4")))]);
}

#[test]
fn a_route_into_a_tunnel_says_which() {
    let remote = ip("192.0.2.9");
    let IpAddr::V4(v4) = remote else { unreachable!() };
    let mut message = route((ip("10.0.0.0"), 8), 0, (Some(7), None), None);
    message.attributes.push(RouteAttribute::EncapType(RouteLwEnCapType::Ip));
    let tunnel = [RouteIpTunnel::Id(100), RouteIpTunnel::Destination(v4)].map(RouteLwTunnelEncap::Ip);
    message.attributes.push(RouteAttribute::Encap(tunnel.to_vec()));
    let Body::NewRoute(route) = read(&bytes(RouteNetlinkMessage::NewRoute(message), 0)) else {
        panic!("no route")
    };
    assert_eq!(route.hops[0].encap, Some(Encap::Tunnel { identifier: 100, remote: Some(remote) }));

    let mut message = crate::messages::route((ip("10.0.0.0"), 8), 0, (Some(7), None), None);
    message.attributes.push(RouteAttribute::EncapType(RouteLwEnCapType::Ip6));
    let tunnel = [RouteIp6Tunnel::Id(7)].map(RouteLwTunnelEncap::Ip6);
    message.attributes.push(RouteAttribute::Encap(tunnel.to_vec()));
    let Body::NewRoute(route) = read(&bytes(RouteNetlinkMessage::NewRoute(message), 0)) else {
        panic!("no route")
    };
    assert_eq!(route.hops[0].encap, Some(Encap::Tunnel { identifier: 7, remote: None }));
}

#[test]
fn bridges_and_vrfs_are_read_as_written() {
    let with = |kind, data| {
        let mut message = Device { index: 3, name: "x", up: true, vxlan: None, mtu: 1500 }.message();
        message.attributes.push(LinkAttribute::Controller(9));
        let info = vec![LinkInfo::Kind(kind), LinkInfo::Data(data)];
        message.attributes.push(LinkAttribute::LinkInfo(info));
        let Body::NewLink(link) = read(&bytes(RouteNetlinkMessage::NewLink(message), 0)) else {
            panic!("no link")
        };
        assert_eq!(link.master, Some(9));
        link.kind
    };
    let vlans = InfoData::Bridge(vec![InfoBridge::VlanFiltering(true)]);
    assert_eq!(with(InfoKind::Bridge, vlans), LinkKind::Bridge(true));
    assert_eq!(with(InfoKind::Vrf, InfoData::Vrf(vec![InfoVrf::TableId(1001)])), LinkKind::Vrf(1001));
}

#[test]
fn a_neighbour_that_does_not_answer_has_no_address() {
    let known = bytes(RouteNetlinkMessage::NewNeighbour(neighbor(3, ip("192.0.2.1"), Some(MAC))), 0);
    let Body::NewNeighbor(known) = read(&known) else { panic!("no neighbour") };
    assert_eq!(
        (known.dst, known.answered().map(|mac| mac.0), known.is_fdb),
        (Some(ip("192.0.2.1")), Some(MAC), false)
    );
    let failed = bytes(RouteNetlinkMessage::NewNeighbour(neighbor(3, ip("192.0.2.1"), None)), 0);
    let Body::NewNeighbor(failed) = read(&failed) else { panic!("no neighbour") };
    assert_eq!(failed.answered(), None);
}
