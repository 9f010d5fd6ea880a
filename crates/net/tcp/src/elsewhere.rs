//! Which core of a host has the connections of a flow group: all whose packets the port leads to
//! a queue by one entry of its table. A stack looks when it knows no connection for a segment.

use std::net::IpAddr;

use port::FlowTable;
use wire::Flow;

use crate::ahead::Arrival;
use crate::connection::MaybePacket;
use crate::event::Id;
use crate::key::Key;
use crate::stack::Stack;

/// The cores of all groups, as far as this core was told: those that it does not have are with
/// the core that it gave them to, or with one that has got them since, which is told likewise.
pub struct Elsewhere {
    /// The number of the core that this stack runs on.
    pub core: u16,
    /// Of each group its core.
    pub owners: Box<[u16]>,
    /// How the port finds a flow's group.
    table: FlowTable,
    /// Segments of other cores' groups, with their core.
    pub strays: Vec<(u16, Arrival)>,
}

impl Elsewhere {
    /// What a core knows at first: each group is where the port leads it.
    pub fn new(core: u16, table: FlowTable) -> Elsewhere {
        Elsewhere { core, owners: table.queues().into(), table, strays: Vec::new() }
    }

    /// The group of a connection.
    pub fn group(&self, key: &Key) -> u16 {
        let ports = Some([key.remote_port, key.local_port].map(u16::to_be_bytes));
        let hash = match (key.remote, key.local) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.table.hash(&src.octets(), &dst.octets(), ports),
            (src, dst) => {
                let [src, dst] = [src, dst].map(|address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                });
                self.table.hash(&src, &dst, ports)
            }
        };
        self.table.entry(hash) as u16
    }

    /// The core that has a connection's group, if it is another one.
    pub fn owner(&self, key: &Key) -> Option<u16> {
        let owner = self.owners[usize::from(self.group(key))];
        (owner != self.core).then_some(owner)
    }

    /// Whether this core has no groups.
    pub fn is_empty(&self) -> bool {
        !self.owners.contains(&self.core)
    }
}

impl Stack {
    /// The connection in a place, if its group is another core's, and that.
    pub(crate) fn leaving(&self, index: u32) -> Option<(Id, u16)> {
        let connection = self.connections.get(index)?;
        let owner = self.elsewhere.as_ref()?.owner(&connection.key)?;
        Some((connection.id(index), owner))
    }

    /// A group is this core's from now on.
    pub(crate) fn own(&mut self, group: u16) {
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.owners[usize::from(group)] = elsewhere.core;
        }
    }

    /// Keeps a segment for the core that has its group.
    #[cold]
    pub(crate) fn pass_on(&mut self, owner: u16, packet: MaybePacket, flow: &Flow, class: u8) {
        // It is counted there.
        self.shared.counters.segments_received -= 1;
        if let (Some(packet), Some(elsewhere)) = (packet, &mut self.elsewhere) {
            elsewhere.strays.push((owner, Arrival::new(packet, *flow, class)));
        }
    }

    /// The core that has the group of a segment for which there is no connection here, if it is
    /// another one.
    pub(crate) fn owner_elsewhere(&self, key: &Key) -> Option<u16> {
        self.elsewhere.as_ref()?.owner(key)
    }
}
