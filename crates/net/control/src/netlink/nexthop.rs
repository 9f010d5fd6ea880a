//! Nexthop objects (`RTM_NEWNEXTHOP`, linux/nexthop.h, since Linux 5.3): gateways with a
//! number of their own, and groups of them. Those marked `fdb` are far ends of tunnels, and
//! a group of such is an Ethernet segment that several far ends share (EVPN multihoming).

use std::net::IpAddr;

use super::{Attribute, Attributes, Cursor, Malformed};

/// A nexthop object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nexthop {
    /// The number by which routes and entries name it.
    pub id: u32,
    /// The numbers of a group's members, whatever their weights; of a single nexthop none.
    pub group: Vec<u32>,
    /// The device by which packets leave.
    pub link: Option<u32>,
    /// The router, or the far end of tunnels.
    pub gateway: Option<IpAddr>,
    /// Whether it is a far end of tunnels, or a group of them.
    pub is_fdb: bool,
    /// Whether packets are thrown away.
    pub is_blackhole: bool,
    /// Whether packets get further headers on their way.
    pub is_encapsulated: bool,
}

impl Nexthop {
    pub(super) fn parse(body: &[u8]) -> Result<Nexthop, Malformed> {
        const ID: u16 = 1;
        const GROUP: u16 = 2;
        const BLACKHOLE: u16 = 4;
        const OIF: u16 = 5;
        const GATEWAY: u16 = 6;
        const ENCAP_TYPE: u16 = 7;
        const FDB: u16 = 11;
        let mut cursor = Cursor(body);
        header(&mut cursor).ok_or(Malformed::Body)?;
        let mut nexthop = Nexthop {
            id: 0,
            group: Vec::new(),
            link: None,
            gateway: None,
            is_fdb: false,
            is_blackhole: false,
            is_encapsulated: false,
        };
        for attribute in Attributes(cursor.0) {
            let attribute = attribute?;
            match attribute.kind {
                ID => nexthop.id = attribute.u32()?,
                GROUP => nexthop.group = members(&attribute)?,
                BLACKHOLE => nexthop.is_blackhole = true,
                OIF => nexthop.link = Some(attribute.u32()?),
                GATEWAY => nexthop.gateway = Some(attribute.address()?),
                ENCAP_TYPE => nexthop.is_encapsulated = true,
                FDB => nexthop.is_fdb = true,
                _ => {}
            }
        }
        match nexthop.id {
            0 => Err(Malformed::Body), // which is no number of a nexthop
            _ => Ok(nexthop),
        }
    }
}

/// Passes by `struct nhmsg`: family, scope, protocol and flags.
fn header(cursor: &mut Cursor<'_>) -> Option<()> {
    let (_family_scope, _protocol_reserved, _flags) = (cursor.u16()?, cursor.u16()?, cursor.u32()?);
    Some(())
}

/// An array of `struct nexthop_grp`.
fn members(attribute: &Attribute<'_>) -> Result<Vec<u32>, Malformed> {
    let mut cursor = Cursor(attribute.value);
    let mut members = Vec::new();
    while !cursor.0.is_empty() {
        members.push(member(&mut cursor).ok_or(Malformed::Value(attribute.kind))?);
    }
    Ok(members)
}

fn member(cursor: &mut Cursor<'_>) -> Option<u32> {
    let (id, _weight_reserved) = (cursor.u32()?, cursor.u32()?);
    Some(id)
}
