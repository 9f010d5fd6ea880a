//! The addresses of this machine's interfaces, for configurations that name them.

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use graph::element::interfaces::{InterfaceAddresses, Interfaces, MachineInterfaces};
use interface::Addresses;

/// Those of this machine, as they are when the first is asked for.
#[derive(Default)]
struct Kernel(OnceLock<Vec<Addresses>>);

impl Interfaces for Kernel {
    fn addresses(&self, name: &str) -> Option<InterfaceAddresses> {
        // Where the kernel does not tell there are no names.
        let all = self.0.get_or_init(|| interface::addresses().unwrap_or_default());
        // A port on an interface has that one's.
        let name =
            ["af_packet:", "af_xdp:", "tap:"].iter().find_map(|way| name.strip_prefix(way)).unwrap_or(name);
        let found = all.iter().find(|interface| interface.name == name)?;
        let (ipv4, ipv6) = (found.ipv4.first().copied(), found.ipv6.first().copied());
        Some(InterfaceAddresses { ethernet: found.ethernet, ipv4, ipv6 })
    }

    fn gateway(&self, name: &str) -> Option<Ipv4Addr> {
        interface::gateway(name).ok().flatten()
    }
}

/// The interfaces of this machine.
pub fn of_this_machine() -> Arc<MachineInterfaces> {
    Arc::new(MachineInterfaces(Box::new(Kernel::default())))
}
