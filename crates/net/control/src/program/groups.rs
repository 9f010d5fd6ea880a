//! Groups of far ends in the overlay: one for all entries of a network that name the same
//! nexthop object, or the same group of the configuration, so that a far end which leaves is
//! left out for all of them in one change (RFC 7432, section 8.2), and for as long as there is
//! such an entry.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlay::{Member, Overlay, Result, Target};

use crate::state::{Far, Group, Key, Several, Weighted};

/// By what a group of a network is known. The first is the first in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    /// The nexthop object, the outer source address, and the UDP port where it is not VXLAN's. A
    /// nexthop object's far ends have both from the device that an entry is on.
    Nexthop(u32, IpAddr, Option<u16>),
    /// What the configuration calls it.
    Named(String),
    /// It is one entry's alone.
    Entry(Key),
}

impl Name {
    fn nexthop(group: &Group) -> Option<Name> {
        let Far { local, port, .. } = group.fars.first()?.far;
        Some(Name::Nexthop(group.id, local, port))
    }

    fn several(key: &Key, several: &Several) -> Name {
        several.name.clone().map_or(Name::Entry(*key), Name::Named)
    }
}

/// The overlay's groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: BTreeMap<(u32, Name), u64>,
    names: BTreeMap<u64, (u32, Name)>,
    last: u64,
}

impl Groups {
    /// Lets the group of a nexthop object have these far ends, for whatever leads to it; where an
    /// entry of it leads.
    pub(super) fn set_nexthop(&mut self, overlay: &mut Overlay, vni: u32, group: &Group) -> Result<Target> {
        let name = Name::nexthop(group).ok_or(overlay::Error::Members)?;
        self.set(overlay, (vni, name), &members(group))
    }

    /// As [`set_nexthop`](Self::set_nexthop), of a group of the configuration's.
    pub(super) fn set_several(
        &mut self,
        overlay: &mut Overlay,
        key: &Key,
        several: &Several,
    ) -> Result<Target> {
        let vni = key.network().unwrap_or_default();
        self.set(overlay, (vni, Name::several(key, several)), &several.members)
    }

    fn set(&mut self, overlay: &mut Overlay, name: (u32, Name), members: &[Member]) -> Result<Target> {
        let number = self.numbers.get(&name).copied().unwrap_or(self.last + 1);
        if overlay.group(number) != Some(members) {
            overlay.set_group(number, members)?;
        }
        self.last = self.last.max(number);
        self.numbers.insert(name.clone(), number);
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
        let first = (vni, Name::Nexthop(0, IpAddr::from([0; 4]), None));
        let of_network = self.numbers.range(first..).take_while(|((network, _), _)| *network == vni);
        let numbers: Vec<u64> = of_network.map(|(_, number)| *number).collect();
        numbers.into_iter().for_each(|number| self.release(overlay, Some(number)));
    }

    /// Whether a target is a nexthop object's group with its far ends.
    pub(super) fn is_nexthop(&self, overlay: &Overlay, target: &Target, group: &Group) -> bool {
        Name::nexthop(group).is_some_and(|name| self.is(overlay, target, &name, &members(group)))
    }

    /// Whether a target is a group of the configuration's with its members.
    pub(super) fn is_several(&self, overlay: &Overlay, target: &Target, key: &Key, group: &Several) -> bool {
        self.is(overlay, target, &Name::several(key, group), &group.members)
    }

    fn is(&self, overlay: &Overlay, target: &Target, name: &Name, members: &[Member]) -> bool {
        let Target::Group(number) = target else { return false };
        self.names.get(number).is_some_and(|(_, is)| is == name) && overlay.group(*number) == Some(members)
    }
}

/// A nexthop object's far ends: they are alike.
fn members(group: &Group) -> Vec<Member> {
    let member = |Weighted { far, weight }: &Weighted| Member { tunnel: far.tunnel(), weight: *weight };
    group.fars.iter().map(member).collect()
}
