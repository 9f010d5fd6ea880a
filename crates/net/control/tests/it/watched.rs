//! A mirror that takes single messages, and what the overlay should have by it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use control::{Binding, Generation, Key, Mirror, Options, Origin, Value};
use wire::MacAddress;

/// A mirror with what the overlay should have by it.
pub struct Watched {
    pub mirror: Mirror,
    pub kernel: Generation,
    pub fpm: Generation,
    pub have: BTreeMap<Key, Value>,
}

impl Watched {
    pub fn new() -> Watched {
        Watched::with(Options {
            ports: vec![Binding { link: "eth1".into(), port: 0, vlan: None, mtu: None }],
            ..Options::default()
        })
    }

    pub fn with(options: Options) -> Watched {
        let mut mirror = Mirror::new(options);
        let (kernel, fpm) = (mirror.begin(Origin::Kernel), mirror.begin(Origin::Fpm));
        Watched { mirror, kernel, fpm, have: BTreeMap::new() }
    }

    pub fn take(&mut self, bytes: &[u8]) -> &mut Watched {
        self.mirror.apply_bytes(self.kernel, bytes);
        self.converge()
    }

    pub fn take_fpm(&mut self, bytes: &[u8]) -> &mut Watched {
        self.mirror.apply_bytes(self.fpm, bytes);
        self.converge()
    }

    pub fn converge(&mut self) -> &mut Watched {
        for change in self.mirror.changes() {
            match change.value {
                Some(value) => drop(self.have.insert(change.key, value)),
                None => drop(self.have.remove(&change.key)),
            }
        }
        self
    }

    pub fn remote(&self, vni: u32, mac: [u8; 6]) -> Option<IpAddr> {
        match self.have.get(&Key::Entry(vni, MacAddress(mac)))? {
            Value::Entry(far) => Some(far.remote),
            other => panic!("{other} is no entry"),
        }
    }

    /// The far ends of a group.
    pub fn remotes(&self, vni: u32, mac: [u8; 6]) -> Vec<IpAddr> {
        match self.have.get(&Key::Entry(vni, MacAddress(mac))) {
            Some(Value::Group(group)) => group.fars.iter().map(|weighted| weighted.far.remote).collect(),
            Some(other) => panic!("{other} is no group"),
            None => vec![],
        }
    }

    pub fn flood(&self, vni: u32) -> Vec<IpAddr> {
        match self.have.get(&Key::Flood(vni)) {
            Some(Value::Flood(fars)) => fars.iter().map(|far| far.remote).collect(),
            _ => vec![],
        }
    }
}
