//! Who asked for an entry, and where it leads.

use std::fmt;

use crate::tunnel::Tunnel;

/// Who asked for something. An entry has one owner: others cannot change or remove it, but
/// that what was learned from packets gives way to all others. Where claims of several are
/// kept, the first in this order takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A file, or the program.
    Static,
    /// A controller, by the programming interface.
    Api,
    /// A routing daemon, by its forwarding plane manager's protocol.
    Fpm,
    /// The kernel's tables.
    Kernel,
    /// The packets that came.
    Learned,
}

impl Owner {
    /// All owners, in their order.
    pub const ALL: [Owner; 5] = [Owner::Static, Owner::Api, Owner::Fpm, Owner::Kernel, Owner::Learned];

    /// The name in configurations and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Owner::Static => "static",
            Owner::Api => "api",
            Owner::Fpm => "fpm",
            Owner::Kernel => "kernel",
            Owner::Learned => "learned",
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where an entry leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// Into one tunnel.
    Tunnel(Tunnel),
    /// Into one of a group's tunnels, by the packet's flow.
    Group(u64),
}

impl From<Tunnel> for Target {
    fn from(tunnel: Tunnel) -> Target {
        Target::Tunnel(tunnel)
    }
}
