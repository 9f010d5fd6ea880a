//! Names of the machine's network interfaces, which configurations may say in place of
//! their addresses: `eth0`, `eth0:ip`, `eth0:gw`, `eth0:eth`; and those of the router's own
//! ports, each of which has an Ethernet address once it is open.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::element::value::NameKind;

/// What is known of an interface; the first address of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterfaceAddresses {
    /// Its Ethernet address.
    pub ethernet: Option<[u8; 6]>,
    /// Its IPv4 address, and how many bits of it are the network's.
    pub ipv4: Option<(Ipv4Addr, u8)>,
    /// Its IPv6 address, and how many bits of it are the network's.
    pub ipv6: Option<(Ipv6Addr, u8)>,
}

impl InterfaceAddresses {
    /// An address of a kind, as text.
    pub(crate) fn of_kind(&self, kind: NameKind) -> Option<String> {
        match kind {
            NameKind::Ipv4 => self.ipv4.map(|(address, _)| address.to_string()),
            NameKind::Ipv4Prefix => self.ipv4.map(|(address, bits)| format!("{address}/{bits}")),
            NameKind::Ipv6 => self.ipv6.map(|(address, _)| address.to_string()),
            NameKind::Ipv6Prefix => self.ipv6.map(|(address, bits)| format!("{address}/{bits}")),
            NameKind::Ethernet => {
                self.ethernet.map(|bytes| crate::element::value::Ethernet(bytes).to_string())
            }
            NameKind::Number(_) => None,
        }
    }
}

/// The interfaces of a machine: a [service](crate::Services), asked while elements are made.
pub trait Interfaces: Send + Sync {
    /// What is known of the interface of this name, if there is one.
    fn addresses(&self, name: &str) -> Option<InterfaceAddresses>;

    /// The router that everything else goes to through it.
    fn gateway(&self, name: &str) -> Option<Ipv4Addr>;

    /// The Ethernet address of the router's own port of this name, once it is open.
    fn port(&self, _name: &str) -> Option<[u8; 6]> {
        None
    }
}

/// The name of a port in an element's configuration, and the port that it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortName {
    /// As the configuration has it.
    pub written: String,
    /// As the port is opened.
    pub port: String,
}

/// Where [`Services`](crate::Services) have them.
pub struct MachineInterfaces(pub Box<dyn Interfaces>);

impl fmt::Debug for MachineInterfaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MachineInterfaces")
    }
}
