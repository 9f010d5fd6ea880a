//! FRR that ends and starts again: what it wrote into the kernel goes with it, or stays until it
//! has told of everything anew (`zebra -K`); what happens meanwhile it does not tell of.

use control::Origin;

use super::{Object, Random, Told, World};
use crate::messages::Nexthop;

impl World {
    /// FRR is away for some events, and its entries with it or not.
    pub(super) fn frr_restarts(&mut self, random: &mut Random, told: &mut Told) {
        let before = self.clone();
        let entries = before.shuffled(random);
        let goes_with_it = random.one_in(2);
        if goes_with_it {
            told.fpm.extend(entries.iter().filter_map(|object| before.retract(*object)));
        }
        for _ in 0..random.below(6) {
            let vnis: Vec<u32> = self.vteps.keys().copied().collect();
            match random.one_in(2) {
                true => self.segment_changes(random, &mut Told::default()),
                false => self.host_moves(random.of(&vnis), random, &mut Told::default()),
            }
        }
        told.fpm.extend(self.shuffled(random).into_iter().filter_map(|object| self.tell(object)));
        if !goes_with_it {
            // In the end zebra removes what it did not tell of by then.
            let stale = entries.into_iter().filter(|object| self.tell(*object).is_none());
            told.fpm.extend(stale.filter_map(|object| before.retract(object)));
        }
    }

    /// What FRR tells of, in any order.
    fn shuffled(&self, random: &mut Random) -> Vec<Object> {
        let mut objects = self.objects(Origin::Fpm);
        let mut shuffled = vec![];
        while !objects.is_empty() {
            shuffled.push(objects.swap_remove(random.below(objects.len())));
        }
        shuffled
    }

    /// The message by which one of FRR's objects goes.
    fn retract(&self, object: Object) -> Option<Vec<u8>> {
        Some(match object {
            Object::Member(id) => Nexthop::far(id, *self.members.get(&id)?).removed(),
            Object::Group(id) => Nexthop::group(id, &[1]).removed(),
            Object::Host(vni, host) => {
                let vtep = self.vteps.get(&vni)?;
                vtep.host(vni, host, *vtep.hosts.get(&host)?).removed()
            }
            Object::Flood(vni, remote) => {
                self.vteps.get(&vni)?.entry(vni, [0; 6], super::HostTarget::Far(remote)).removed()
            }
            _ => return None,
        })
    }
}
