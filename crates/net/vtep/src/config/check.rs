//! Addresses and names that are written as such and that nobody can have.

use std::net::IpAddr;

use overlay::{InvalidTunnel, Prefix, is_one_host};
use toml_span::{Span, Value};
use wire::MacAddress;

use super::Reading;
use super::read::{Problem, Read, parsed, text};
use super::underlay::first;

/// Bytes of the name of a device of the kernel's, at most.
const LONGEST_NAME: usize = 15;

/// The Ethernet address of one station.
pub(super) fn station(value: &Value<'_>) -> Read<MacAddress> {
    let mac: MacAddress = parsed(value, "Ethernet address", "02:00:00:00:00:01")?;
    let wrong =
        || Problem::new(value.span, format!("{mac} is not one station's address"), "write a station's");
    mac.is_station().then_some(mac).ok_or_else(wrong)
}

/// The IP address of one host.
pub(super) fn host(value: &Value<'_>, example: &str) -> Read<IpAddr> {
    let address: IpAddr = parsed(value, "IP address", example)?;
    let wrong = || {
        let fix = format!("write one such as \"{example}\"");
        Problem::new(value.span, format!("{address} is not one host's address"), fix)
    };
    is_one_host(address).then_some(address).ok_or_else(wrong)
}

/// The name of a device of the kernel's.
pub(super) fn device_name(value: &Value<'_>) -> Read<String> {
    let name = text(value)?;
    let is_wrong = name.is_empty() || name.len() > LONGEST_NAME || name.contains(['/', ':']);
    match is_wrong || name.contains(char::is_whitespace) {
        true => {
            let cause = format!("{name:?} is no name that a device of the kernel's can have");
            Err(Problem::new(value.span, cause, "write one such as \"eth1\""))
        }
        false => Ok(name),
    }
}

/// Why no host has an address on a link with a prefix of this length.
pub(super) fn nobodys((address, len): Prefix) -> Option<&'static str> {
    let is_first = first(address, len) == address;
    match address {
        _ if !is_one_host(address) => Some("is not one host's address"),
        IpAddr::V4(_) if len < 31 && is_first => Some("is the network's own address"),
        IpAddr::V4(v4) if len < 31 && v4.to_bits() | u32::MAX >> len == v4.to_bits() => {
            Some("is the network's broadcast address")
        }
        IpAddr::V6(_) if len < 127 && is_first => Some("is that of all routers of the network"),
        _ => None,
    }
}

impl Reading<'_> {
    /// Whether a far end can be at an address.
    pub(super) fn far(&self, remote: IpAddr, span: Span) -> Read<()> {
        let own = || self.config.underlay.iter().flat_map(|port| &port.addresses);
        let is_on = |(own, len): &&Prefix| {
            own.is_ipv4() == remote.is_ipv4() && first(*own, *len) == first(remote, *len)
        };
        let cause = match () {
            () if own().any(|(address, _)| *address == remote) => Some("is an address of this host"),
            () if !is_one_host(remote) => Some("is not one host's address"),
            // Of the prefixes of two ports the longer one is that of its link.
            () => {
                own().filter(is_on).max_by_key(|(_, len)| *len).and_then(|(_, len)| nobodys((remote, *len)))
            }
        };
        let wrong =
            |cause| Problem::new(span, format!("{remote} {cause}"), "write the address of another host");
        cause.map_or(Ok(()), |cause| Err(wrong(cause)))
    }
}

/// The key of a tunnel that is wrong, and what to write.
pub(super) fn fix(error: &InvalidTunnel) -> (&'static str, String) {
    let out = |key: &'static str| (key, format!("leave {key} out"));
    match error {
        InvalidTunnel::Versions(..) => {
            ("local", "write an address of the same version of IP, or none".into())
        }
        InvalidTunnel::Address(_) => ("local", "write an address of one host's".into()),
        InvalidTunnel::Identifier { bits, .. } => {
            ("identifier", format!("write identifier = a number below 2^{bits}"))
        }
        InvalidTunnel::Presence { has: false, .. } => out("identifier"),
        InvalidTunnel::Presence { has: true, .. } => ("identifier", "add identifier = a number".into()),
        InvalidTunnel::Option { option, .. } => match *option {
            "UDP port" => out("udp_port"),
            "UDP checksum" => out("udp_checksum"),
            "GRE checksum" => out("gre_checksum"),
            "GRE sequence number" => out("gre_sequence"),
            "flow identifier" => out("qos_flow"),
            "network service header" => out("service"),
            "segments" => out("segments"),
            _ => ("remote", "write an IPv6 address".into()),
        },
        InvalidTunnel::Field { .. } => ("service", "write a smaller number".into()),
        InvalidTunnel::Ttl => ("ttl", "write a number from 1 to 255".into()),
        InvalidTunnel::Segments(_) => ("segments", format!("name at most {} of them", overlay::MAX_SEGMENTS)),
    }
}
