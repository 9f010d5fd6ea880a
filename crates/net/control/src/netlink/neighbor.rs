//! Neighbours and entries of forwarding databases (`RTM_NEWNEIGH`, linux/neighbour.h). An
//! entry of a VXLAN device's database has the family of bridges and a far end (`NDA_DST`) or
//! a nexthop object of far ends (`NDA_NH_ID`); the bridge's own entry for the same address
//! has neither.

use std::net::IpAddr;

use wire::MacAddress;

use super::{Attributes, Cursor, FAMILY_BRIDGE, Malformed};

/// `NTF_SELF`: of the device itself and not of the bridge above it.
const IS_SELF: u8 = 0x02;
/// `NTF_PROXY`: somebody else is answered for.
const IS_PROXY: u8 = 0x08;
/// `NUD_INCOMPLETE` and `NUD_FAILED`: nobody has answered.
const UNANSWERED: u16 = 0x01 | 0x20;

/// A neighbour, or an entry of a forwarding database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbor {
    /// Whether it is an entry of a forwarding database.
    pub is_fdb: bool,
    /// The number of the device.
    pub link: u32,
    /// Bits of `NUD_*`: what is known of it.
    pub state: u16,
    /// Bits of `NTF_*`: who made it.
    pub flags: u8,
    /// The neighbour's address, or the far end to which frames go.
    pub dst: Option<IpAddr>,
    /// The Ethernet address; all zero stands for frames to nobody known (the flood list).
    pub mac: Option<MacAddress>,
    /// The network at the far end, where it is not that of the device.
    pub vni: Option<u32>,
    /// The network here, on a device that has many.
    pub src_vni: Option<u32>,
    /// The UDP port of the far end, where it is not that of the device.
    pub port: Option<u16>,
    /// The nexthop object that names the far ends.
    pub nexthop: Option<u32>,
}

impl Neighbor {
    pub(super) fn parse(body: &[u8]) -> Result<Neighbor, Malformed> {
        const DST: u16 = 1;
        const LLADDR: u16 = 2;
        const PORT: u16 = 6;
        const VNI: u16 = 7;
        const SRC_VNI: u16 = 11;
        const NH_ID: u16 = 13;
        let mut cursor = Cursor(body);
        let mut neighbor = header(&mut cursor).ok_or(Malformed::Body)?;
        for attribute in Attributes(cursor.0) {
            let attribute = attribute?;
            match attribute.kind {
                DST => neighbor.dst = Some(attribute.address()?),
                LLADDR => neighbor.mac = attribute.mac(),
                PORT => neighbor.port = Some(attribute.u16_be()?),
                VNI => neighbor.vni = Some(attribute.u32()?),
                SRC_VNI => neighbor.src_vni = Some(attribute.u32()?),
                NH_ID => neighbor.nexthop = Some(attribute.u32()?),
                _ => {}
            }
        }
        Ok(neighbor)
    }

    /// Whether it is the VXLAN device's own entry, and not the bridge's above it.
    pub fn is_vxlan(&self) -> bool {
        self.is_fdb && (self.dst.is_some() || self.nexthop.is_some() || self.flags & IS_SELF != 0)
    }

    /// The neighbour's Ethernet address, if it is known to be right.
    pub fn answered(&self) -> Option<MacAddress> {
        let is_known = self.state & UNANSWERED == 0 && self.state != 0 && self.flags & IS_PROXY == 0;
        self.mac.filter(|mac| is_known && !mac.is_multicast())
    }
}

/// What stands in `struct ndmsg`.
fn header(cursor: &mut Cursor<'_>) -> Option<Neighbor> {
    let (family, _padding, _more_padding) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    let (link, state) = (cursor.u32()?, cursor.u16()?);
    let (flags, _kind) = (cursor.u8()?, cursor.u8()?);
    Some(Neighbor {
        is_fdb: family == FAMILY_BRIDGE,
        link,
        state,
        flags,
        dst: None,
        mac: None,
        vni: None,
        src_vni: None,
        port: None,
        nexthop: None,
    })
}
