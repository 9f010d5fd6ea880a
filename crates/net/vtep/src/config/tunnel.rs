//! What a tunnel's headers say: keys that a network has for all of its tunnels, and that an
//! entry has for its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use overlay::{Dscp, Protocol, Tunnel};
use toml_span::{Span, Value};

use super::check::host;
use super::read::{Problem, Read, Table, flag, number, parsed};

/// Keys of tunnels.
pub(super) const KEYS: &[&str] = &[
    "identifier",
    "local",
    "ttl",
    "dscp",
    "dont_fragment",
    "udp_port",
    "udp_checksum",
    "gre_checksum",
    "gre_sequence",
    "qos_flow",
    "service",
    "segments",
];

/// What the keys of a table say; nothing where it has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) identifier: Option<u32>,
    pub(super) local: Option<IpAddr>,
    ttl: Option<u8>,
    dscp: Option<Dscp>,
    dont_fragment: Option<bool>,
    udp_port: Option<u16>,
    pub(super) udp_checksum: Option<bool>,
    gre_checksum: Option<bool>,
    gre_sequence: Option<bool>,
    qos_flow: Option<u8>,
    service: Option<(u32, u8)>,
    segments: Option<Vec<Ipv6Addr>>,
    /// Where the values of the keys stand.
    pub(super) spans: BTreeMap<&'static str, Span>,
}

impl Options {
    pub(super) fn read(table: &Table<'_, '_>) -> Read<Options> {
        Ok(Options {
            identifier: table.get("identifier", |value| number(value, 0, u32::MAX.into()))?,
            local: table.get("local", |value| host(value, "192.0.2.1"))?,
            ttl: table.get("ttl", |value| number(value, 1, 255))?,
            dscp: table.get("dscp", dscp)?,
            dont_fragment: table.get("dont_fragment", flag)?,
            udp_port: table.get("udp_port", |value| number(value, 1, 65_535))?,
            udp_checksum: table.get("udp_checksum", flag)?,
            gre_checksum: table.get("gre_checksum", flag)?,
            gre_sequence: table.get("gre_sequence", flag)?,
            qos_flow: table.get("qos_flow", |value| number(value, 0, 63))?,
            service: table.get("service", service)?,
            segments: segments(table)?,
            spans: KEYS.iter().filter(|key| table.has(key)).map(|key| (*key, table.span_of(key))).collect(),
        })
    }

    /// These, and those of `general` where these say nothing.
    pub(super) fn or(self, general: &Options) -> Options {
        let general = general.clone();
        let mut spans = general.spans;
        spans.extend(self.spans);
        Options {
            identifier: self.identifier.or(general.identifier),
            local: self.local.or(general.local),
            ttl: self.ttl.or(general.ttl),
            dscp: self.dscp.or(general.dscp),
            dont_fragment: self.dont_fragment.or(general.dont_fragment),
            udp_port: self.udp_port.or(general.udp_port),
            udp_checksum: self.udp_checksum.or(general.udp_checksum),
            gre_checksum: self.gre_checksum.or(general.gre_checksum),
            gre_sequence: self.gre_sequence.or(general.gre_sequence),
            qos_flow: self.qos_flow.or(general.qos_flow),
            service: self.service.or(general.service),
            segments: self.segments.or(general.segments),
            spans,
        }
    }

    /// The tunnel between two addresses.
    pub(super) fn tunnel(&self, protocol: &'static Protocol, local: IpAddr, remote: IpAddr) -> Tunnel {
        let usual = Tunnel::new(protocol, local, remote);
        Tunnel {
            identifier: self.identifier,
            ttl: self.ttl.unwrap_or(usual.ttl),
            dscp: self.dscp.unwrap_or(usual.dscp),
            dont_fragment: self.dont_fragment.unwrap_or(usual.dont_fragment),
            port: self.udp_port,
            udp_checksum: self.udp_checksum.unwrap_or(usual.udp_checksum),
            gre_checksum: self.gre_checksum.unwrap_or(false),
            gre_sequence: self.gre_sequence.unwrap_or(false),
            qos_flow: self.qos_flow,
            service: self.service,
            segments: self.segments.clone().unwrap_or_default(),
            ..usual
        }
    }
}

/// A code point, or "inherit".
fn dscp(value: &Value<'_>) -> Read<Dscp> {
    match value.as_str() {
        Some("inherit") => Ok(Dscp::Inherit),
        Some(other) => {
            let cause = format!("{other:?} is no code point");
            Err(Problem::new(value.span, cause, "write a number from 0 to 63, or \"inherit\""))
        }
        None => number(value, 0, 63).map(Dscp::Fixed),
    }
}

/// A service path and index.
fn service(value: &Value<'_>) -> Read<(u32, u8)> {
    let table = Table::new(value, "a service", &[&["path", "index"]])?;
    let path = table.need("path", "7", |value| number(value, 0, 0xFF_FFFF))?;
    Ok((path, table.need("index", "255", |value| number(value, 1, 255))?))
}

fn segments(table: &Table<'_, '_>) -> Read<Option<Vec<Ipv6Addr>>> {
    let all = table.list("segments")?.iter();
    let all: Vec<Ipv6Addr> =
        all.map(|value| parsed(value, "IPv6 address", "2001:db8::1")).collect::<Read<_>>()?;
    Ok(Some(all).filter(|all| !all.is_empty()))
}
