//! `[[underlay]]` and `[[route]]`: the network below.

use std::net::IpAddr;

use overlay::{Port, Route};
use toml_span::{Span, Value};
use wire::MacAddress;

use super::check::{device_name, host, nobodys, station};
use super::group::destination;
use super::read::{Problem, Read, Table, number, text, word};
use super::{Learn, Reading, parse_prefix};

/// Bytes of an IP packet that a port carries where nothing is said.
const USUAL_MTU: u16 = 1500;
const PORT_KEYS: &[&str] =
    &["name", "port", "mac", "addresses", "mtu", "vlan", "neighbors", "link", "offload"];
const ROUTE_KEYS: &[&str] = &["to", "via", "port"];

/// A port of the underlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnderlayPort {
    /// Its name in the file.
    pub name: String,
    /// The port, as commands name ports.
    pub port: String,
    /// Its Ethernet address, where it is not the device's.
    pub mac: Option<MacAddress>,
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Bytes of an IP packet, at most.
    pub mtu: u16,
    /// The VLAN of the underlay.
    pub vlan: Option<u16>,
    /// The kernel's device whose state, routes and neighbours are the port's.
    pub link: Option<String>,
    /// Whether the port's NIC has the table as well and puts packets into tunnels.
    pub offload: bool,
}

impl UnderlayPort {
    /// The port as the table has it, with its Ethernet address.
    pub fn port(&self, mac: MacAddress) -> Port {
        Port { mac, mtu: self.mtu, vlan: self.vlan, is_up: true }
    }
}

impl Reading<'_> {
    pub(super) fn underlay(&mut self, value: &Value<'_>) -> Read<()> {
        let table = Table::new(value, "a port of the underlay", &[PORT_KEYS])?;
        let name = table.need("name", "\"up0\"", text)?;
        self.once(format!("the port of the underlay {name:?}"), table.span_of("name"))?;
        let port = self.port(&table, "port", "\"af_packet:eth1\"")?.unwrap_or_default();
        if self.has_ports && !port.starts_with("model:") {
            self.once(format!("the port {}", device(&port)), table.span_of("port"))?;
        }
        if device(&port) != port {
            let cause = "long segments are cut where they go into tunnels, not where they come out";
            return Err(Problem::new(table.span_of("port"), cause, format!("write {:?}", device(&port))));
        }
        let place = self.config.underlay.len() as u16;
        let mut addresses = Vec::new();
        for value in table.list("addresses")? {
            addresses.push(self.connected(value, place)?);
        }
        if addresses.is_empty() {
            let fix = "add addresses = [\"192.0.2.1/24\"]";
            return Err(Problem::new(table.span, "a port of the underlay needs addresses", fix));
        }
        let neighbors =
            table.get("neighbors", |value| self.neighbors(value, &addresses))?.unwrap_or_default();
        self.config.desired.neighbors.extend(neighbors.into_iter().map(|(ip, mac)| ((place, ip), mac)));
        let link = self.link(&table)?;
        let offload = self.offload(&table)?;
        self.config.underlay.push(UnderlayPort {
            name,
            port,
            mac: self.mac(&table)?,
            addresses,
            mtu: table.get("mtu", |value| number(value, 576, 9600))?.unwrap_or(USUAL_MTU),
            vlan: table.get("vlan", |value| number(value, 1, 4094))?,
            link,
            offload,
        });
        Ok(())
    }

    /// Whether the port's NIC puts packets into tunnels, which one port's may.
    fn offload(&mut self, table: &Table<'_, '_>) -> Read<bool> {
        let offload = table.get("offload", |value| word(value, &[("nic", true), ("none", false)]))?;
        let (offload, span) = (offload.unwrap_or(false), table.span_of("offload"));
        if offload && !self.has_ports {
            let cause = "ports are elements of the router here";
            return Err(Problem::new(span, cause, "leave offload out"));
        }
        if offload {
            self.once("the port whose NIC puts packets into tunnels".to_owned(), span)?;
        }
        Ok(offload)
    }

    /// The name of a port, where ports are named.
    fn port(&self, table: &Table<'_, '_>, key: &str, example: &str) -> Read<Option<String>> {
        match (self.has_ports, table.get(key, text)?) {
            (true, _) => table.need(key, example, text).map(Some),
            (false, None) => Ok(None),
            (false, Some(_)) => {
                let cause = "ports are elements of the router here";
                Err(Problem::new(table.span_of(key), cause, format!("leave {key} out")))
            }
        }
    }

    /// The Ethernet address of a port; no device can be asked for that of an element.
    fn mac(&self, table: &Table<'_, '_>) -> Read<Option<MacAddress>> {
        match self.has_ports {
            true => table.get("mac", station),
            false => table.need("mac", "\"02:00:00:00:00:01\"", station).map(Some),
        }
    }

    /// The kernel's device that a port is, where the kernel is followed.
    fn link(&mut self, table: &Table<'_, '_>) -> Read<Option<String>> {
        let Some(link) = table.get("link", device_name)? else { return Ok(None) };
        let span = table.span_of("link");
        if self.config.follow.learn == Learn::Nobody {
            let fix = "add learn = \"kernel\" at the top, or leave link out";
            return Err(Problem::new(span, "nobody follows the kernel here", fix));
        }
        self.once(format!("the device {link}"), span)?;
        Ok(Some(link))
    }

    /// An address of a port, whose prefix is on the link.
    fn connected(&mut self, value: &Value<'_>, port: u16) -> Read<(IpAddr, u8)> {
        let (address, len) = read_prefix(value)?;
        // A prefix of that address alone would have nobody on the link: packets would go nowhere.
        if !text(value)?.contains('/') {
            let cause = format!("the address {address} is given without the length of its prefix");
            let fix = format!("write it as \"{address}/{}\"", if address.is_ipv4() { 24 } else { 64 });
            return Err(Problem::new(value.span, cause, fix));
        }
        if let Some(why) = nobodys((address, len)) {
            let fix = "write the address that this host has there";
            return Err(Problem::new(value.span, format!("{address}/{len} {why}"), fix));
        }
        self.once(format!("the address {address}"), value.span)?;
        self.add_route((first(address, len), len), Route { port, gateway: None }, value.span)?;
        Ok((address, len))
    }

    /// `{ "192.0.2.2" = "02:…" }`
    fn neighbors(&mut self, value: &Value<'_>, own: &[(IpAddr, u8)]) -> Read<Vec<(IpAddr, MacAddress)>> {
        let Some(pairs) = value.as_table() else {
            let fix = "write { \"192.0.2.2\" = \"02:00:00:00:00:02\" }";
            return Err(Problem::new(value.span, "neighbors must be a table", fix));
        };
        let mut all = Vec::new();
        for (key, mac) in pairs {
            let address = key.name.parse().map_err(|_| {
                let cause = format!("{:?} is no IP address", key.name);
                Problem::new(key.span, cause, "write it as \"192.0.2.2\"")
            })?;
            if own.iter().any(|(own, _)| *own == address) || !overlay::is_one_host(address) {
                let cause = format!("{address} is no neighbour's address");
                return Err(Problem::new(key.span, cause, "write the address of another host"));
            }
            all.push((address, station(mac)?));
        }
        Ok(all)
    }

    pub(super) fn route(&mut self, value: &Value<'_>) -> Read<()> {
        let table = Table::new(value, "a route", &[ROUTE_KEYS])?;
        let (to, len) = table.need("to", "\"198.51.100.0/24\"", destination)?;
        let gateway = table.get("via", |value| host(value, "192.0.2.254"))?;
        if let Some(gateway) = gateway {
            self.far(gateway, table.span_of("via"))?;
        }
        let named = table.get("port", |value| {
            let name = text(value)?;
            self.config.port_named(&name).ok_or_else(|| self.no_port(&name, value.span))
        })?;
        let port = named.or_else(|| gateway.and_then(|gateway| self.port_to(gateway)));
        let port = port.ok_or_else(|| {
            let fix = "add port = \"NAME\" of an [[underlay]], or via = an address on the link of one";
            Problem::new(table.span, "no port of the underlay leads there", fix)
        })?;
        self.add_route((to, len), Route { port, gateway }, table.span_of("to"))
    }

    fn no_port(&self, name: &str, span: Span) -> Problem {
        let names: Vec<&str> = self.config.underlay.iter().map(|port| port.name.as_str()).collect();
        let cause = format!("there is no port of the underlay {name:?}");
        Problem::new(span, cause, format!("name one of {}", names.join(", ")))
    }

    /// The port on whose link an address is.
    fn port_to(&self, gateway: IpAddr) -> Option<u16> {
        let is_there = |(address, len): &(IpAddr, u8)| first(*address, *len) == first(gateway, *len);
        let mut ports = self.config.underlay.iter();
        let of_version = |(address, _): &&(IpAddr, u8)| address.is_ipv4() == gateway.is_ipv4();
        ports.position(|port| port.addresses.iter().filter(of_version).any(is_there)).map(|at| at as u16)
    }
}

/// A port's name without what is said of long segments.
pub(super) fn device(port: &str) -> &str {
    match port.starts_with("tap:") {
        true => port.strip_suffix(",gso").unwrap_or(port),
        false => port,
    }
}

fn read_prefix(value: &Value<'_>) -> Read<(IpAddr, u8)> {
    let text = text(value)?;
    parse_prefix(&text).map_err(|cause| Problem::new(value.span, cause, "write it as \"192.0.2.1/24\""))
}

/// The first address of a prefix.
pub(super) fn first(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}
