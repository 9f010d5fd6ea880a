//! The addresses of this machine's interfaces and of a router's ports, for configurations
//! that name them.

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock, Weak};

use element::io::router_ports::RouterPorts;
use graph::element::interfaces::{InterfaceAddresses, Interfaces, MachineInterfaces};
use interface::Addresses;

/// Those of this machine, as they are when the first is asked for, and a router's ports.
struct Known {
    kernel: OnceLock<Vec<Addresses>>,
    /// Not kept: elements that have names must not keep ports open.
    ports: Weak<RouterPorts>,
}

impl Interfaces for Known {
    fn addresses(&self, name: &str) -> Option<InterfaceAddresses> {
        // Where the kernel does not tell there are no names.
        let all = self.kernel.get_or_init(|| interface::addresses().unwrap_or_default());
        let name = on_interface(name).unwrap_or(name);
        let found = all.iter().find(|interface| interface.name == name)?;
        let (ipv4, ipv6) = (found.ipv4.first().copied(), found.ipv6.first().copied());
        Some(InterfaceAddresses { ethernet: found.ethernet, ipv4, ipv6 })
    }

    fn gateway(&self, name: &str) -> Option<Ipv4Addr> {
        interface::gateway(on_interface(name).unwrap_or(name)).ok().flatten()
    }

    fn port(&self, name: &str) -> Option<[u8; 6]> {
        self.ports.upgrade()?.with_port(name, |port| port.mac())
    }
}

/// The interface whose addresses a port has. A TAP's port is the other end of the cable, with
/// an address of its own.
fn on_interface(port: &str) -> Option<&str> {
    let interface = ["af_packet:", "af_xdp:"].iter().find_map(|way| port.strip_prefix(way))?;
    Some(interface.split(',').next().unwrap_or(interface))
}

/// The interfaces of this machine, and a router's ports.
pub fn known(ports: &Arc<RouterPorts>) -> Arc<MachineInterfaces> {
    let (kernel, ports) = (OnceLock::new(), Arc::downgrade(ports));
    Arc::new(MachineInterfaces(Box::new(Known { kernel, ports })))
}
