//! Messages as the kernel and FRR send them. Links, neighbours and routes are written by
//! netlink-packet-route, which somebody else keeps; what it lacks, nexthop objects and
//! entries that name one, by this file.

use std::net::IpAddr;

use control::netlink::write::Writer;
use control::netlink::{FAMILY_BRIDGE, FAMILY_V4, Header};
use netlink_packet_core::{
    DefaultNla, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

pub const NEW_NEXTHOP: u16 = 104;
pub const DEL_NEXTHOP: u16 = 105;

pub fn bytes(message: RouteNetlinkMessage, flags: u16) -> Vec<u8> {
    let payload = NetlinkPayload::InnerMessage(message);
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
    message.header.flags = flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// A network device.
#[derive(Debug, Clone)]
pub struct Device {
    pub index: u32,
    pub name: &'static str,
    pub up: bool,
    pub vxlan: Option<(u32, Option<IpAddr>, bool)>,
    pub mtu: u32,
}

pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

impl Device {
    pub fn message(&self) -> LinkMessage {
        let mut link = LinkMessage::default();
        link.header.index = self.index;
        if self.up {
            link.header.flags = LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running;
        }
        link.attributes = vec![
            LinkAttribute::IfName(self.name.into()),
            LinkAttribute::Address(MAC.to_vec()),
            LinkAttribute::Mtu(self.mtu),
        ];
        if let Some((vni, local, external)) = self.vxlan {
            let mut data =
                vec![InfoVxlan::Id(vni), InfoVxlan::Port(4789), InfoVxlan::CollectMetadata(external)];
            match local {
                Some(IpAddr::V4(local)) => data.push(InfoVxlan::Local(local)),
                Some(IpAddr::V6(local)) => data.push(InfoVxlan::Local6(local)),
                None => {}
            }
            let info = vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(InfoData::Vxlan(data))];
            link.attributes.push(LinkAttribute::LinkInfo(info));
        }
        link
    }

    pub fn added(&self) -> Vec<u8> {
        bytes(RouteNetlinkMessage::NewLink(self.message()), 0)
    }

    /// A VXLAN device with further attributes, which replace those in front of them.
    pub fn added_with(&self, more: Vec<InfoVxlan>) -> Vec<u8> {
        let mut message = self.message();
        for attribute in &mut message.attributes {
            let LinkAttribute::LinkInfo(info) = attribute else { continue };
            for part in info {
                if let LinkInfo::Data(InfoData::Vxlan(data)) = part {
                    data.extend(more.clone());
                }
            }
        }
        bytes(RouteNetlinkMessage::NewLink(message), 0)
    }

    pub fn removed(&self) -> Vec<u8> {
        bytes(RouteNetlinkMessage::DelLink(self.message()), 0)
    }
}

/// An entry of a forwarding database.
#[derive(Debug, Clone, Copy)]
pub struct Fdb {
    pub link: u32,
    pub mac: [u8; 6],
    pub dst: Option<IpAddr>,
    pub nexthop: Option<u32>,
    pub vni: Option<u32>,
    pub src_vni: Option<u32>,
}

impl Fdb {
    pub fn to(link: u32, mac: [u8; 6], dst: IpAddr) -> Fdb {
        Fdb { link, mac, dst: Some(dst), nexthop: None, vni: None, src_vni: None }
    }

    pub fn message(&self) -> NeighbourMessage {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Bridge;
        message.header.ifindex = self.link;
        message.header.state = NeighbourState::Noarp;
        message.header.flags = NeighbourFlags::Own | NeighbourFlags::ExtLearned;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(self.mac.to_vec()));
        message.attributes.extend(self.dst.map(|dst| NeighbourAttribute::Destination(neighbor_address(dst))));
        message.attributes.extend(self.vni.map(NeighbourAttribute::Vni));
        message.attributes.extend(self.src_vni.map(NeighbourAttribute::SourceVni));
        let nexthop = |id: u32| NeighbourAttribute::Other(DefaultNla::new(13, id.to_ne_bytes().to_vec()));
        message.attributes.extend(self.nexthop.map(nexthop));
        message
    }

    pub fn added(&self) -> Vec<u8> {
        bytes(RouteNetlinkMessage::NewNeighbour(self.message()), 0)
    }

    pub fn removed(&self) -> Vec<u8> {
        bytes(RouteNetlinkMessage::DelNeighbour(self.message()), 0)
    }
}

fn neighbor_address(address: IpAddr) -> NeighbourAddress {
    match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    }
}

/// A neighbour; without an Ethernet address one that does not answer.
pub fn neighbor(link: u32, address: IpAddr, mac: Option<[u8; 6]>) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = link;
    message.header.state = if mac.is_some() { NeighbourState::Reachable } else { NeighbourState::Failed };
    message.attributes.push(NeighbourAttribute::Destination(neighbor_address(address)));
    message.attributes.extend(mac.map(|mac| NeighbourAttribute::LinkLayerAddress(mac.to_vec())));
    message
}

pub fn new_neighbor(link: u32, address: IpAddr, mac: Option<[u8; 6]>) -> Vec<u8> {
    bytes(RouteNetlinkMessage::NewNeighbour(neighbor(link, address, mac)), 0)
}

/// A route of IPv4 by one next hop or by a nexthop object.
pub fn route(
    prefix: (IpAddr, u8),
    metric: u32,
    hop: (Option<u32>, Option<IpAddr>),
    nexthop: Option<u32>,
) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family =
        if prefix.0.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.destination_prefix_length = prefix.1;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.kind = RouteType::Unicast;
    let to = |address| match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    };
    message.attributes.push(RouteAttribute::Destination(to(prefix.0)));
    message.attributes.push(RouteAttribute::Priority(metric));
    message.attributes.extend(hop.0.map(RouteAttribute::Oif));
    message.attributes.extend(hop.1.map(|gateway| RouteAttribute::Gateway(to(gateway))));
    let nexthop_attribute = |id: u32| RouteAttribute::Other(DefaultNla::new(30, id.to_ne_bytes().to_vec()));
    message.attributes.extend(nexthop.map(nexthop_attribute));
    message
}

pub fn new_route(message: RouteMessage) -> Vec<u8> {
    bytes(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
}

/// A route in front of those of its prefix, or behind them.
pub fn new_route_beside(message: RouteMessage, is_behind: bool) -> Vec<u8> {
    let flags = if is_behind { NLM_F_APPEND } else { NLM_F_EXCL };
    bytes(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | flags)
}

pub fn del_route(message: RouteMessage) -> Vec<u8> {
    bytes(RouteNetlinkMessage::DelRoute(message), 0)
}

/// A nexthop object (linux/nexthop.h).
#[derive(Debug, Clone, Default)]
pub struct Nexthop {
    pub id: u32,
    /// Members with their weights.
    pub group: Vec<(u32, u32)>,
    /// Whether the kernel says that it knows weights of two bytes.
    pub has_high_weights: bool,
    pub link: Option<u32>,
    pub gateway: Option<IpAddr>,
    pub fdb: bool,
}

impl Nexthop {
    pub fn far(id: u32, gateway: IpAddr) -> Nexthop {
        Nexthop { id, gateway: Some(gateway), fdb: true, ..Nexthop::default() }
    }

    pub fn group(id: u32, group: &[u32]) -> Nexthop {
        Nexthop::weighted(id, &group.iter().map(|id| (*id, 1)).collect::<Vec<_>>())
    }

    pub fn weighted(id: u32, group: &[(u32, u32)]) -> Nexthop {
        Nexthop { id, group: group.to_vec(), has_high_weights: true, fdb: true, ..Nexthop::default() }
    }

    pub fn message(&self, kind: u16) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.message(Header { kind, flags: 0, sequence: 0, port: 0 }, |body| {
            body.put(&[FAMILY_V4, 0, 0, 0]).put(&[0; 4]);
            body.attribute(1, |id| {
                id.put(&self.id.to_ne_bytes());
            });
            if !self.group.is_empty() {
                body.attribute(2, |members| {
                    for (id, weight) in &self.group {
                        let [low, high, ..] = (weight - 1).to_le_bytes();
                        members.put(&id.to_ne_bytes()).put(&[low, high, 0, 0]);
                    }
                });
            }
            if let Some(link) = self.link {
                body.attribute(5, |value| {
                    value.put(&link.to_ne_bytes());
                });
            }
            if let Some(gateway) = self.gateway {
                body.attribute(6, |value| {
                    match gateway {
                        IpAddr::V4(gateway) => value.put(&gateway.octets()),
                        IpAddr::V6(gateway) => value.put(&gateway.octets()),
                    };
                });
            }
            if self.fdb {
                body.attribute(11, |_| {});
            }
            if self.has_high_weights {
                body.attribute(14, |flags| {
                    flags.put(&(1u32 << 31).to_ne_bytes());
                });
            }
        });
        writer.finish()
    }

    pub fn added(&self) -> Vec<u8> {
        self.message(NEW_NEXTHOP)
    }

    pub fn removed(&self) -> Vec<u8> {
        self.message(DEL_NEXTHOP)
    }
}

/// What Linux says of a port of a bridge: a link's message without its kind.
pub fn bridge_port(index: u32, kind: u16) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.message(Header { kind, flags: 0, sequence: 0, port: 0 }, |body| {
        body.put(&[FAMILY_BRIDGE, 0, 0, 0]).put(&index.to_ne_bytes()).put(&[0; 8]);
    });
    writer.finish()
}
