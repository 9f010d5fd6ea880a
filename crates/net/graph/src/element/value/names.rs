//! Names in configuration strings: what a configuration declares them to stand for, and
//! what interfaces and ports add. An element looks a name up in the compound that it
//! stands in first, then in those around it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Ethernet, Prefix4, parse_alone};
use crate::element::interfaces::{MachineInterfaces, PortName};

/// Names of addresses that a configuration declares (`AddressInfo`), those of the
/// machine's interfaces, and those of the router's ports.
#[derive(Debug, Clone, Default)]
pub struct Names {
    known: HashMap<(NameKind, String), Declared>,
    interfaces: Option<Arc<MachineInterfaces>>,
    /// The ports that names mean: those of elements, and ports as they are written.
    ports: HashMap<String, String>,
    /// Ports that were asked for their address and are not open, since it was looked at last.
    awaited: Arc<Mutex<Vec<String>>>,
}

/// What a name was declared to stand for.
#[derive(Debug, Clone, Default)]
struct Declared {
    value: String,
    /// The ports that must be open before the value is the right one.
    awaited: Vec<String>,
}

/// Stands for the address of a port that is not open: locally administered, and nobody's.
const UNKNOWN: Ethernet = Ethernet([2, 0, 0, 0, 0, 0]);

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// An IPv4 address.
    Ipv4,
    /// An IPv4 prefix.
    Ipv4Prefix,
    /// An IPv6 address.
    Ipv6,
    /// An IPv6 prefix.
    Ipv6Prefix,
    /// An Ethernet address.
    Ethernet,
    /// A protocol, port, or message number (`IPNameInfo`, `PortInfo`).
    Number(&'static str),
}

impl Names {
    /// Those of a machine's interfaces, if they are known.
    pub fn of_machine(interfaces: Option<Arc<MachineInterfaces>>) -> Names {
        Names { interfaces, ..Names::default() }
    }

    /// Says that `name`, in full with the compound it is declared in, stands for
    /// `value`.
    pub fn declare(&mut self, kind: NameKind, name: String, value: String) {
        self.known.insert((kind, name), Declared { value, awaited: vec![] });
    }

    /// As [`declare`](Self::declare), by an element that was made before these ports were open.
    pub(crate) fn declare_before(&mut self, awaited: &[String], kind: NameKind, name: String, value: String) {
        // Nothing but a port's Ethernet address waits for it.
        let awaited = if kind == NameKind::Ethernet { awaited.to_vec() } else { vec![] };
        self.known.insert((kind, name), Declared { value, awaited });
    }

    /// Says which ports elements, by their full names, are on. A port as it is written goes
    /// before an element of the same name.
    pub(crate) fn name_ports(&mut self, ports: Vec<(&str, PortName)>) {
        let by_element = ports.iter().map(|(element, name)| ((*element).to_string(), name.port.clone()));
        self.ports.extend(by_element);
        self.ports.extend(ports.into_iter().map(|(_, PortName { written, port })| (written, port)));
    }

    /// Takes the ports that were asked for their address and are not open.
    pub(crate) fn take_awaited(&self) -> Vec<String> {
        std::mem::take(&mut *self.awaited.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wait_for(&self, ports: &[String]) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        for port in ports {
            if !awaited.contains(port) {
                awaited.push(port.clone());
            }
        }
    }

    /// An address of the port that a name means. An Ethernet address of one that is not open
    /// is told afterwards ([`take_awaited`](Self::take_awaited)).
    fn of_port(&self, kind: NameKind, name: &str) -> Option<String> {
        let port = self.ports.get(name)?;
        let interfaces = &self.interfaces.as_ref()?.0;
        // A number of DPDK's is an address to nobody.
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        if kind != NameKind::Ethernet && is_number {
            return None;
        }
        if let Some(address) = interfaces.addresses(port).and_then(|known| known.of_kind(kind)) {
            return Some(address);
        }
        let known = (kind == NameKind::Ethernet).then(|| interfaces.port(port))?;
        if known.is_none() {
            self.wait_for(std::slice::from_ref(port));
        }
        Some(known.map_or(UNKNOWN, Ethernet).to_string())
    }
}

/// Where an element looks names up: in the compound it stands in, then further out.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The element that asks, by its full name.
    pub element: &'a str,
    /// The names that were declared anywhere in the configuration.
    pub names: &'a Names,
}

impl Scope<'_> {
    /// What `name` was declared to stand for.
    pub fn lookup(&self, kind: NameKind, name: &str) -> Option<&str> {
        enclosing(self.element).find_map(|prefix| {
            let full = format!("{prefix}{name}");
            let declared = self.names.known.get(&(kind, full))?;
            if !declared.awaited.is_empty() {
                self.names.wait_for(&declared.awaited);
            }
            Some(declared.value.as_str())
        })
    }

    /// What `name` stands for: as it was declared, or as an interface or a port has it.
    pub(super) fn find(&self, kind: NameKind, name: &str) -> Option<Cow<'_, str>> {
        let of_interface = || self.names.interfaces.as_ref()?.0.addresses(name)?.of_kind(kind);
        let of_port = || {
            enclosing(self.element).find_map(|prefix| self.names.of_port(kind, &format!("{prefix}{name}")))
        };
        let found = || of_interface().or_else(of_port).map(Cow::Owned);
        self.lookup(kind, name).map(Cow::Borrowed).or_else(found)
    }

    /// The IPv4 address that a name with a suffix stands for: `name:ip`, `name:bcast`,
    /// `name:gw`.
    pub(super) fn suffixed(&self, text: &str) -> Option<Ipv4Addr> {
        let (name, suffix) = text.rsplit_once(':')?;
        let prefix = || parse_alone::<Prefix4>(&self.find(NameKind::Ipv4Prefix, name)?).ok();
        match suffix.to_ascii_lowercase().as_str() {
            "ip" | "ip4" => self.find(NameKind::Ipv4, name)?.parse().ok(),
            "bcast" => {
                prefix().map(|prefix| Ipv4Addr::from_bits(prefix.address.to_bits() | !prefix.mask.to_bits()))
            }
            // The first of a network, unless something else is known.
            "gw" => {
                let first = |prefix: Prefix4| {
                    Ipv4Addr::from_bits(prefix.address.to_bits() & prefix.mask.to_bits() | 1)
                };
                let declared = || parse_alone(self.lookup(NameKind::Ipv4Prefix, name)?).ok().map(first);
                let known = || self.names.interfaces.as_ref()?.0.gateway(name);
                let own = self.lookup(NameKind::Ipv4, text).and_then(|known| known.parse().ok());
                own.or_else(declared).or_else(known).or_else(|| prefix().map(first))
            }
            _ => None,
        }
    }
}

/// The compounds around an element, innermost first, each with its slash; at last
/// the empty one.
pub fn enclosing(element: &str) -> impl Iterator<Item = &str> {
    let slashes = element.match_indices('/').map(|(at, _)| at + 1).rev();
    slashes.chain([0]).map(move |end| &element[..end])
}
