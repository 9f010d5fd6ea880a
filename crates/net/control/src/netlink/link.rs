//! Network devices (`RTM_NEWLINK`, linux/if_link.h): what a VXLAN device, a bridge and a VRF
//! are made of, as far as overlays need it.

use std::net::IpAddr;

use wire::MacAddress;

use super::{Attribute, Attributes, Cursor, FAMILY_BRIDGE, Malformed};

/// `IFF_UP`: the operator wants it up.
const IS_UP: u32 = 0x1;
/// `IFF_LOWER_UP`: there is a carrier.
const HAS_CARRIER: u32 = 0x1_0000;

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number, which is never given to another one while the machine runs, unless an
    /// operator asks for it.
    pub index: u32,
    /// Whether the message tells of a port of a bridge and not of the device: it has no
    /// attributes of its kind then, and its end is not the device's.
    pub is_bridge_port: bool,
    /// Whether it is to be up.
    pub is_up: bool,
    /// Whether it has a carrier.
    pub has_carrier: bool,
    /// The name, such as `vxlan100`.
    pub name: String,
    /// The Ethernet address.
    pub mac: Option<MacAddress>,
    /// Bytes of a packet, at most.
    pub mtu: u32,
    /// The bridge or VRF of which it is a part.
    pub master: Option<u32>,
    /// What kind of device it is, as far as overlays need it.
    pub kind: LinkKind,
}

/// What a network device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// The end of VXLAN tunnels.
    Vxlan(Vxlan),
    /// A bridge, and whether it looks at VLAN tags.
    Bridge(bool),
    /// A VRF, with its routing table.
    Vrf(u32),
    /// A device of any other kind.
    Other,
}

/// The end of VXLAN tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vxlan {
    /// The network; of no meaning when the device is external.
    pub vni: u32,
    /// The outer source address.
    pub local: Option<IpAddr>,
    /// The UDP port, here and of the far ends.
    pub port: u16,
    /// Whether packets over IPv6 may come without a UDP checksum (`udp6zerocsumrx`).
    pub zero_checksum: bool,
    /// Whether the device is for all networks, each packet and entry with its own
    /// (`external`, also called a single VXLAN device).
    pub is_external: bool,
}

impl Link {
    pub(super) fn parse(body: &[u8]) -> Result<Link, Malformed> {
        const NAME: u16 = 3;
        const ADDRESS: u16 = 1;
        const MTU: u16 = 4;
        const MASTER: u16 = 10;
        const INFO: u16 = 18;
        let mut cursor = Cursor(body);
        let (family, index, flags) = header(&mut cursor).ok_or(Malformed::Body)?;
        let mut link = Link {
            index,
            is_bridge_port: family == FAMILY_BRIDGE,
            is_up: flags & IS_UP != 0,
            has_carrier: flags & HAS_CARRIER != 0,
            name: String::new(),
            mac: None,
            mtu: 0,
            master: None,
            kind: LinkKind::Other,
        };
        for attribute in Attributes(cursor.0) {
            let attribute = attribute?;
            match attribute.kind {
                NAME => link.name = attribute.text(),
                ADDRESS => link.mac = attribute.mac(),
                MTU => link.mtu = attribute.u32()?,
                MASTER => link.master = Some(attribute.u32()?),
                INFO => link.kind = kind(&attribute)?,
                _ => {}
            }
        }
        Ok(link)
    }
}

/// The family, number and flags in `struct ifinfomsg`.
fn header(cursor: &mut Cursor<'_>) -> Option<(u8, u32, u32)> {
    let (family, _padding, _device_type) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    let (index, flags, _change) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    Some((family, index, flags))
}

fn kind(info: &Attribute<'_>) -> Result<LinkKind, Malformed> {
    const KIND: u16 = 1;
    const DATA: u16 = 2;
    let (mut name, mut data) = (String::new(), Attributes(&[]));
    for attribute in info.nested() {
        let attribute = attribute?;
        match attribute.kind {
            KIND => name = attribute.text(),
            DATA => data = attribute.nested(),
            _ => {}
        }
    }
    match name.as_str() {
        "vxlan" => vxlan(data).map(LinkKind::Vxlan),
        "bridge" => bridge(data),
        "vrf" => vrf(data),
        _ => Ok(LinkKind::Other),
    }
}

fn vxlan(data: Attributes<'_>) -> Result<Vxlan, Malformed> {
    const ID: u16 = 1;
    const LOCAL: u16 = 4;
    const PORT: u16 = 15;
    const LOCAL6: u16 = 17;
    const ZERO_CSUM6_RX: u16 = 20;
    const COLLECT_METADATA: u16 = 25;
    let mut vxlan = Vxlan { vni: 0, local: None, port: 0, zero_checksum: false, is_external: false };
    for attribute in data {
        let attribute = attribute?;
        match attribute.kind {
            ID => vxlan.vni = attribute.u32()?,
            LOCAL | LOCAL6 => {
                vxlan.local = Some(attribute.address()?).filter(|local| !local.is_unspecified())
            }
            PORT => vxlan.port = attribute.u16_be()?,
            ZERO_CSUM6_RX => vxlan.zero_checksum = attribute.u8()? != 0,
            COLLECT_METADATA => vxlan.is_external = attribute.u8()? != 0,
            _ => {}
        }
    }
    Ok(vxlan)
}

fn bridge(data: Attributes<'_>) -> Result<LinkKind, Malformed> {
    const VLAN_FILTERING: u16 = 7;
    let mut filters = false;
    for attribute in data {
        let attribute = attribute?;
        if attribute.kind == VLAN_FILTERING {
            filters = attribute.u8()? != 0;
        }
    }
    Ok(LinkKind::Bridge(filters))
}

fn vrf(data: Attributes<'_>) -> Result<LinkKind, Malformed> {
    const TABLE: u16 = 1;
    for attribute in data {
        let attribute = attribute?;
        if attribute.kind == TABLE {
            return attribute.u32().map(LinkKind::Vrf);
        }
    }
    Ok(LinkKind::Other)
}
