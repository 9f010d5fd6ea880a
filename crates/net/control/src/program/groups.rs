//! Groups of far ends in the overlay: one for all entries of a network that name the same
//! nexthop object, so that a far end which leaves is left out for all of them in one change
//! (RFC 7432, section 8.2), and for as long as there is such an entry.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlay::{Overlay, Result, Target, Tunnel};

use crate::state::{Far, Group};

/// A group of a network: the nexthop object, the outer source address, and the UDP port where
/// it is not VXLAN's. A nexthop object's far ends have both from the device that an entry is on.
type Name = (u32, u32, IpAddr, Option<u16>);

/// The overlay's groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: BTreeMap<Name, u64>,
    names: BTreeMap<u64, Name>,
    last: u64,
}

impl Groups {
    /// The group to which an entry leads.
    pub(super) fn of(&self, overlay: &Overlay, vni: u32, bits: u128) -> Option<u64> {
        if self.names.is_empty() {
            return None;
        }
        match overlay.entry(vni, bits)?.target {
            Target::Group(number) => Some(*number),
            Target::Tunnel(_) => None,
        }
    }

    /// Lets a group have these far ends, for whatever leads to it; where an entry of it leads.
    pub(super) fn set(&mut self, overlay: &mut Overlay, vni: u32, group: &Group) -> Result<Target> {
        let members: Vec<Tunnel> = group.fars.iter().map(Far::tunnel).collect();
        let Far { local, port, .. } = *group.fars.first().ok_or(overlay::Error::Members)?;
        let name = (vni, group.id, local, port);
        let number = self.numbers.get(&name).copied().unwrap_or(self.last + 1);
        if overlay.group(number) != Some(&members[..]) {
            overlay.set_group(number, &members)?;
        }
        self.last = self.last.max(number);
        self.numbers.insert(name, number);
        self.names.insert(number, name);
        Ok(Target::Group(number))
    }

    /// Lets a group go to which nothing leads any more.
    pub(super) fn release(&mut self, overlay: &mut Overlay, number: Option<u64>) {
        let Some(number) = number else { return };
        if overlay.remove_group(number) == Ok(true)
            && let Some(name) = self.names.remove(&number)
        {
            self.numbers.remove(&name);
        }
    }

    /// Lets the groups of a network go, which is gone.
    pub(super) fn release_all(&mut self, overlay: &mut Overlay, vni: u32) {
        let first = (vni, 0, IpAddr::from([0; 4]), None);
        let last = (vni, u32::MAX, IpAddr::from([0xFF; 16]), Some(u16::MAX));
        let numbers: Vec<u64> = self.numbers.range(first..=last).map(|(_, number)| *number).collect();
        numbers.into_iter().for_each(|number| self.release(overlay, Some(number)));
    }

    /// Whether a target is a group with these far ends.
    pub(super) fn is(&self, overlay: &Overlay, target: &Target, group: &Group) -> bool {
        let Target::Group(number) = target else { return false };
        let is_one = |(_, id, ..): &Name| *id == group.id;
        let members: Vec<Tunnel> = group.fars.iter().map(Far::tunnel).collect();
        self.names.get(number).is_some_and(is_one) && overlay.group(*number) == Some(&members[..])
    }
}
