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
    /// The members of a group; of a single nexthop none.
    pub group: Vec<GroupMember>,
    /// The device by which packets leave.
    pub link: Option<u32>,
    /// The router, or the far end of tunnels.
    pub gateway: Option<IpAddr>,
    /// Whether it is a far end of tunnels, or a group of them.
    pub is_fdb: bool,
    /// Whether packets are discarded.
    pub is_blackhole: bool,
    /// Whether packets get further headers on their way.
    pub is_encapsulated: bool,
}

/// A member of a group of nexthop objects (`struct nexthop_grp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMember {
    /// The number of the member's nexthop object.
    pub id: u32,
    /// How many flows it gets in proportion to the other members, from 1 to 65536.
    pub weight: u32,
}

/// In a group's message: the bytes behind a weight's lower one are no remains of something else, so
/// that the first of them is the higher one (`NHA_OP_FLAG_RESP_GRP_RESVD_0`, since Linux 6.12).
const HAS_HIGH_WEIGHTS: u32 = 1 << 31;

impl Nexthop {
    pub(super) fn parse(body: &[u8]) -> Result<Nexthop, Malformed> {
        const ID: u16 = 1;
        const GROUP: u16 = 2;
        const BLACKHOLE: u16 = 4;
        const OIF: u16 = 5;
        const GATEWAY: u16 = 6;
        const ENCAP_TYPE: u16 = 7;
        const FDB: u16 = 11;
        const OP_FLAGS: u16 = 14;
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
        let mut flags = 0;
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
                OP_FLAGS => flags = attribute.u32()?,
                _ => {}
            }
        }
        if flags & HAS_HIGH_WEIGHTS == 0 {
            nexthop.group.iter_mut().for_each(|member| member.weight = (member.weight - 1) % 256 + 1);
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
fn members(attribute: &Attribute<'_>) -> Result<Vec<GroupMember>, Malformed> {
    let mut cursor = Cursor(attribute.value);
    let mut members = Vec::new();
    while !cursor.0.is_empty() {
        members.push(member(&mut cursor).ok_or(Malformed::Value(attribute.kind))?);
    }
    Ok(members)
}

/// One of them. The message has one less than the weight, in two bytes.
fn member(cursor: &mut Cursor<'_>) -> Option<GroupMember> {
    let (id, low, high, _reserved) = (cursor.u32()?, cursor.u8()?, cursor.u8()?, cursor.u16()?);
    Some(GroupMember { id, weight: u32::from(u16::from_le_bytes([low, high])) + 1 })
}
