//! Routes (`RTM_NEWROUTE`, linux/rtnetlink.h) of IPv4 and IPv6: one next hop, several, or a
//! nexthop object; with the headers that a hop puts in front of packets, if it does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Attribute, Attributes, Cursor, FAMILY_V4, FAMILY_V6, Malformed, address};

/// `RTN_UNICAST`: packets go to a next hop.
const IS_UNICAST: u8 = 1;
/// `RTM_F_CLONED`: an entry of a cache, no route.
const IS_CLONED: u32 = 0x200;

/// A route, as a message of the kernel or of FRR tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The addresses that it is for; none when they are not of IPv4 or IPv6.
    pub prefix: Option<(IpAddr, u8)>,
    /// The type of service for which it is, 0 for all.
    pub tos: u8,
    /// The routing table.
    pub table: u32,
    /// The metric: the lowest is taken.
    pub metric: u32,
    /// Whether packets go to a next hop, and are not refused, dropped or for this machine.
    pub is_unicast: bool,
    /// Whether it is an entry of a cache and no route.
    pub is_cached: bool,
    /// The next hops.
    pub hops: Vec<Hop>,
    /// The nexthop object that names them instead.
    pub nexthop: Option<u32>,
}

/// A next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hop {
    /// The device by which packets leave.
    pub link: u32,
    /// The router; without one the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The headers that packets get.
    pub encap: Option<Encap>,
}

/// Headers in front of packets (`LWTUNNEL_ENCAP_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encap {
    /// Those of the tunnel device by which packets leave.
    Tunnel {
        /// The network's number, key or VNI.
        identifier: u64,
        /// The far end.
        remote: Option<IpAddr>,
    },
    /// Headers of another kind, by its number.
    Other(u16),
}

const GATEWAY: u16 = 5;
const VIA: u16 = 18;
const ENCAP_TYPE: u16 = 21;
const ENCAP: u16 = 22;

impl Route {
    pub(super) fn parse(body: &[u8]) -> Result<Route, Malformed> {
        const DST: u16 = 1;
        const OIF: u16 = 4;
        const PRIORITY: u16 = 6;
        const MULTIPATH: u16 = 9;
        const TABLE: u16 = 15;
        const NH_ID: u16 = 30;
        let mut cursor = Cursor(body);
        let (mut route, (family, length)) = header(&mut cursor).ok_or(Malformed::Body)?;
        let mut hop = HopAttributes::default();
        let mut dst = None;
        for attribute in Attributes(cursor.0) {
            let attribute = attribute?;
            match attribute.kind {
                DST => dst = Some(attribute),
                OIF => hop.link = attribute.u32()?,
                PRIORITY => route.metric = attribute.u32()?,
                TABLE => route.table = attribute.u32()?,
                NH_ID => route.nexthop = Some(attribute.u32()?),
                MULTIPATH => route.hops = multipath(&attribute)?,
                _ => hop.read(&attribute)?,
            }
        }
        route.prefix = prefix(family, length, dst)?;
        if route.hops.is_empty() && (hop.link != 0 || hop.gateway.is_some()) {
            route.hops.push(hop.finish()?);
        }
        Ok(route)
    }
}

/// What stands in `struct rtmsg`: a route without its attributes, the family and the
/// prefix's length.
fn header(cursor: &mut Cursor<'_>) -> Option<(Route, (u8, u8))> {
    let (family, length, _src_length, tos) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let (table, _protocol, _scope, kind) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let flags = cursor.u32()?;
    let route = Route {
        prefix: None,
        tos,
        table: table.into(),
        metric: 0,
        is_unicast: kind == IS_UNICAST,
        is_cached: flags & IS_CLONED != 0,
        hops: Vec::new(),
        nexthop: None,
    };
    Some((route, (family, length)))
}

/// The prefix, with nothing set behind its length.
fn prefix(family: u8, length: u8, dst: Option<Attribute<'_>>) -> Result<Option<(IpAddr, u8)>, Malformed> {
    let any: IpAddr = match family {
        FAMILY_V4 => Ipv4Addr::UNSPECIFIED.into(),
        FAMILY_V6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return Ok(None),
    };
    let given = dst.map_or(Ok(any), |dst| dst.address())?;
    let first: IpAddr = match (given, any) {
        (IpAddr::V4(address), IpAddr::V4(_)) if length <= 32 => {
            let host = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & !host).into()
        }
        (IpAddr::V6(address), IpAddr::V6(_)) if length <= 128 => {
            let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & !host).into()
        }
        _ => return Err(Malformed::Body),
    };
    Ok(Some((first, length)))
}

/// An array of `struct rtnexthop`, each with attributes of its own.
fn multipath(attribute: &Attribute<'_>) -> Result<Vec<Hop>, Malformed> {
    let malformed = Malformed::Value(attribute.kind);
    let mut rest = attribute.value;
    let mut hops = Vec::new();
    while !rest.is_empty() {
        let mut cursor = Cursor(rest);
        let (length, link) = hop_header(&mut cursor).ok_or(malformed)?;
        let attributes = length.checked_sub(rest.len() - cursor.0.len()).ok_or(malformed)?;
        let mut hop = HopAttributes { link, ..HopAttributes::default() };
        for attribute in Attributes(cursor.take(attributes).ok_or(malformed)?) {
            hop.read(&attribute?)?;
        }
        hops.push(hop.finish()?);
        rest = rest.get(length.next_multiple_of(super::ALIGNMENT)..).unwrap_or(&[]);
    }
    Ok(hops)
}

/// The length and the device in `struct rtnexthop`.
fn hop_header(cursor: &mut Cursor<'_>) -> Option<(usize, u32)> {
    let (length, _flags, _weight) = (cursor.u16()?, cursor.u8()?, cursor.u8()?);
    Some((length.into(), cursor.u32()?))
}

/// What is said of a next hop by attributes, which come in any order.
#[derive(Debug, Default)]
struct HopAttributes<'a> {
    link: u32,
    gateway: Option<IpAddr>,
    encap_type: Option<u16>,
    encap: Option<Attribute<'a>>,
}

impl<'a> HopAttributes<'a> {
    fn read(&mut self, attribute: &Attribute<'a>) -> Result<(), Malformed> {
        match attribute.kind {
            GATEWAY => self.gateway = Some(attribute.address()?),
            // A router of the other version of IP: its family stands in front.
            VIA => {
                let via = attribute.read(|cursor| {
                    cursor.u16()?;
                    let length = cursor.0.len();
                    address(cursor.take(length)?)
                });
                self.gateway = Some(via?);
            }
            ENCAP_TYPE => self.encap_type = Some(attribute.u16()?),
            ENCAP => self.encap = Some(*attribute),
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Hop, Malformed> {
        /// `LWTUNNEL_ENCAP_IP` and `LWTUNNEL_ENCAP_IP6`.
        const IP: u16 = 2;
        const IP6: u16 = 4;
        let encap = match (self.encap_type, self.encap) {
            (Some(IP | IP6), Some(encap)) => Some(tunnel(&encap)?),
            (Some(kind), _) if kind != 0 => Some(Encap::Other(kind)),
            _ => None,
        };
        Ok(Hop { link: self.link, gateway: self.gateway, encap })
    }
}

/// `LWTUNNEL_IP_*`, which have the same numbers for both versions of IP.
fn tunnel(encap: &Attribute<'_>) -> Result<Encap, Malformed> {
    const ID: u16 = 1;
    const DST: u16 = 2;
    let (mut identifier, mut remote) = (0, None);
    for attribute in encap.nested() {
        let attribute = attribute?;
        match attribute.kind {
            ID => identifier = attribute.read(|cursor| cursor.array().map(u64::from_be_bytes))?,
            DST => remote = Some(attribute.address()?),
            _ => {}
        }
    }
    Ok(Encap::Tunnel { identifier, remote })
}
