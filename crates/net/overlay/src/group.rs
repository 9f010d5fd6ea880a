//! Groups of tunnels to the same place: several ways of equal cost, or several hosts at which
//! a station is (RFC 7432, section 8.4). A flow's hash chooses one of a fixed number of
//! buckets, and a bucket has a member, so that a member that leaves, or whose way is lost,
//! moves the flows of its own buckets and no others.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use port::Reason;

use crate::hop::{Hop, State, TunnelId};
use crate::tunnel::Tunnel;

/// Buckets of a group: a power of two.
const BUCKETS: usize = 256;
/// Tunnels of a group, at most.
pub const MAX_MEMBERS: usize = 64;

/// The greatest weight of a member (as of a nexthop object's: linux/nexthop.h).
pub const MAX_WEIGHT: u16 = 256;

/// A tunnel of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// The tunnel that the member's packets go through.
    pub tunnel: Tunnel,
    /// How many flows it gets in proportion to the other members, from 1 to [`MAX_WEIGHT`]. A
    /// member gets at least one of the 256 shares that there are.
    pub weight: u16,
}

impl From<Tunnel> for Member {
    fn from(tunnel: Tunnel) -> Member {
        Member { tunnel, weight: 1 }
    }
}

/// A group as it was asked for.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Member>,
    /// A number of each member that is its own, wherever it stands.
    seeds: Vec<u32>,
    /// The member that each bucket belongs to, whatever its state.
    buckets: [u8; BUCKETS],
    /// The hops that entries lead to, one for each layer and owner.
    pub(crate) hops: BTreeSet<TunnelId>,
}

impl Group {
    /// Whether there can be a group with these members.
    pub(crate) fn is_possible(members: &[Member]) -> bool {
        let is_twice = |n: usize| members[..n].iter().any(|other| other.tunnel == members[n].tunnel);
        (1..=MAX_MEMBERS).contains(&members.len())
            && !(0..members.len()).any(is_twice)
            && members.iter().all(|member| (1..=MAX_WEIGHT).contains(&member.weight))
    }

    /// A group that [can be](Self::is_possible).
    pub(crate) fn new(members: Vec<Member>) -> Group {
        let mut group =
            Group { members: Vec::new(), seeds: Vec::new(), buckets: [0; BUCKETS], hops: BTreeSet::new() };
        group.replace(members);
        group
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Puts other members in their place. Those that stay keep as many of their buckets as is
    /// their share.
    pub(crate) fn replace(&mut self, members: Vec<Member>) {
        let same = |old: &Member| members.iter().position(|new| new.tunnel == old.tunnel);
        let places: Vec<Option<usize>> = self.members.iter().map(same).collect();
        let owner = |bucket: &u8| places.get(usize::from(*bucket)).copied().flatten();
        let mut held = vec![0; members.len()];
        self.buckets.iter().filter_map(owner).for_each(|place| held[place] += 1);
        let mut left = shares(&members, &held);
        let mut buckets = self.buckets.map(|bucket| {
            let place = owner(&bucket).filter(|place| left[*place] > 0)?;
            left[place] -= 1;
            Some(place)
        });
        for bucket in buckets.iter_mut().filter(|bucket| bucket.is_none()) {
            let most = (0..left.len()).max_by_key(|place| left[*place]).unwrap_or(0);
            left[most] = left[most].saturating_sub(1);
            *bucket = Some(most);
        }
        self.buckets = buckets.map(|place| place.unwrap_or(0) as u8); // below MAX_MEMBERS
        self.seeds = members.iter().map(|member| seed(&member.tunnel)).collect();
        self.members = members;
    }

    /// The group as packets find it, by the state of its members now.
    pub(crate) fn state(&self, hops: Vec<Hop>) -> State {
        let alive: Vec<u8> =
            (0..hops.len()).filter(|n| matches!(hops[*n].state, State::Ready(_))).map(|n| n as u8).collect();
        if alive.is_empty() {
            return State::Closed(
                hops.first().and_then(|hop| hop.state.problem()).unwrap_or(Reason::OverlayNoRoute),
            );
        }
        let mut buckets = self.buckets;
        for (number, bucket) in buckets.iter_mut().enumerate() {
            if !alive.contains(bucket) {
                // The same member for the same bucket, as long as that one is there.
                let ordered = alive.iter().map(|member| (self.order(number, *member), *member));
                let first = ordered.min_by(|(a, _), (b, _)| a.total_cmp(b));
                *bucket = first.map_or(0, |(_, member)| member);
            }
        }
        State::Group(Box::new(Members { buckets, hops }))
    }

    /// A member's place in the order of those that take a bucket over: the least takes it, and
    /// that is so as often as the member's weight says (weighted rendezvous hashing: Schindelhauer
    /// and Schomaker, 2005).
    fn order(&self, bucket: usize, member: u8) -> f64 {
        let weight = self.members.get(usize::from(member)).map_or(1, |member| member.weight);
        let seed = self.seeds.get(usize::from(member)).copied().unwrap_or(0);
        let mixed = mix(bucket as u32 + 1, seed);
        -((f64::from(mixed) + 1.0) / (f64::from(u32::MAX) + 2.0)).ln() / f64::from(weight)
    }
}

/// How many buckets each of some members has, all of them together: by weight, and where that
/// does not come out even, one more for those that have more now, so that few are moved.
fn shares(members: &[Member], held: &[usize]) -> Vec<usize> {
    let total: usize = members.iter().map(|member| usize::from(member.weight)).sum();
    let share = |member: &Member| BUCKETS * usize::from(member.weight);
    let mut shares: Vec<usize> = members.iter().map(|member| (share(member) / total).max(1)).collect();
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|place| {
        (Reverse(share(&members[*place]) % total), Reverse(held[*place].min(shares[*place] + 1)), *place)
    });
    let mut given: usize = shares.iter().sum();
    for place in order {
        if given < BUCKETS {
            (shares[place], given) = (shares[place] + 1, given + 1);
        }
    }
    // Members of little weight have a bucket that they do not weigh: the largest give it.
    for _ in BUCKETS..given {
        let most = (0..shares.len()).max_by_key(|place| shares[*place]).unwrap_or(0);
        shares[most] -= 1;
    }
    shares
}

/// A number that is a tunnel's own.
fn seed(tunnel: &Tunnel) -> u32 {
    let mut hasher = DefaultHasher::new();
    tunnel.hash(&mut hasher);
    hasher.finish() as u32
}

/// A number that is another one for each pair (rendezvous hashing: Thaler and Ravishankar,
/// 1998).
fn mix(bucket: u32, member: u32) -> u32 {
    let product = bucket.wrapping_mul(0x9E37_79B1) ^ member.wrapping_mul(0x85EB_CA6B);
    let product = (product ^ product >> 15).wrapping_mul(0xC2B2_AE35);
    product ^ product >> 13
}

/// A group as packets find it.
#[derive(Debug, Clone)]
pub(crate) struct Members {
    buckets: [u8; BUCKETS],
    hops: Vec<Hop>,
}

impl Members {
    /// The member by which a flow goes. Other bits of the hash than those that tell flows
    /// apart in the outer headers choose it.
    #[inline]
    pub(crate) fn of(&self, flow_hash: u32) -> Option<&Hop> {
        let bucket = flow_hash.wrapping_mul(0x9E37_79B1) >> (u32::BITS - BUCKETS.trailing_zeros());
        self.hops.get(usize::from(self.buckets[bucket as usize % BUCKETS]))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::protocol::Protocol;

    #[test]
    fn each_member_has_a_share_and_all_are_dealt_out() {
        let vxlan = Protocol::named("vxlan").expect("a row of the table");
        let ends = |n: u8| [IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, n])];
        let member = |(n, weight): (usize, u16)| {
            let [local, remote] = ends(100 + n as u8);
            Member { tunnel: Tunnel::new(vxlan, local, remote), weight }
        };
        let group =
            |weights: &[u16]| -> Vec<Member> { weights.iter().copied().enumerate().map(member).collect() };
        let mut light = [MAX_WEIGHT; MAX_MEMBERS];
        light[7] = 1;
        for weights in [&[1][..], &[1, 1, 1], &[1, 2, 5], &[256, 1], &[1; MAX_MEMBERS], &light] {
            let shares = shares(&group(weights), &vec![0; weights.len()]);
            assert_eq!(shares.iter().sum::<usize>(), BUCKETS, "{weights:?}");
            assert!(shares.iter().all(|share| *share >= 1), "{weights:?}: {shares:?}");
        }
        assert_eq!(shares(&group(&[1, 2, 5]), &[0; 3]), [32, 64, 160]);
    }
}
