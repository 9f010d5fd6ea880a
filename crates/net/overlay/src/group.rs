//! Groups of tunnels to the same place: several ways of equal cost, or several hosts at which
//! a station is (RFC 7432, section 8.4). A flow's hash chooses one of a fixed number of
//! buckets, and a bucket has a member, so that a member that leaves, or whose way is lost,
//! moves the flows of its own buckets and no others.

use std::collections::BTreeSet;

use crate::hop::{Hop, State, TunnelId};
use crate::reason::Reason;
use crate::tunnel::Tunnel;

/// Buckets of a group: a power of two.
const BUCKETS: usize = 256;
/// Tunnels of a group, at most.
pub const MAX_MEMBERS: usize = 64;

/// A group as it was asked for.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Tunnel>,
    /// The member that each bucket belongs to, whatever its state.
    buckets: [u8; BUCKETS],
    /// The hops that entries lead to, one for each layer and owner.
    pub(crate) hops: BTreeSet<TunnelId>,
}

impl Group {
    /// A group of at least one tunnel and at most [`MAX_MEMBERS`], all different.
    pub(crate) fn new(members: Vec<Tunnel>) -> Group {
        let mut group = Group { members: Vec::new(), buckets: [0; BUCKETS], hops: BTreeSet::new() };
        group.replace(members);
        group
    }

    pub(crate) fn members(&self) -> &[Tunnel] {
        &self.members
    }

    /// Puts other members in their place. Those that stay keep as many of their buckets as is
    /// their share.
    pub(crate) fn replace(&mut self, members: Vec<Tunnel>) {
        let most = BUCKETS.div_ceil(members.len().max(1));
        let mut shares = vec![0; members.len()];
        let places: Vec<Option<usize>> =
            self.members.iter().map(|old| members.iter().position(|new| new == old)).collect();
        let mut kept = [None; BUCKETS];
        for (kept, bucket) in kept.iter_mut().zip(self.buckets) {
            let place = places.get(usize::from(bucket)).copied().flatten();
            *kept = place.filter(|place| shares[*place] < most);
            if let Some(place) = *kept {
                shares[place] += 1;
            }
        }
        for (bucket, kept) in self.buckets.iter_mut().zip(kept) {
            let place = kept.or_else(|| {
                let fewest = (0..shares.len()).min_by_key(|place| shares[*place])?;
                shares[fewest] += 1;
                Some(fewest)
            });
            *bucket = place.unwrap_or(0) as u8; // below MAX_MEMBERS
        }
        self.members = members;
    }

    /// The group as packets find it, by the state of its members now.
    pub(crate) fn state(&self, hops: Vec<Hop>) -> State {
        let alive: Vec<u8> =
            (0..hops.len()).filter(|n| matches!(hops[*n].state, State::Ready(_))).map(|n| n as u8).collect();
        if alive.is_empty() {
            return State::Closed(
                hops.first().and_then(|hop| hop.state.problem()).unwrap_or(Reason::NoRoute),
            );
        }
        let mut buckets = self.buckets;
        for (number, bucket) in buckets.iter_mut().enumerate() {
            if !alive.contains(bucket) {
                // The same member for the same bucket, as long as that one is there.
                let order = |member: &&u8| mix(number as u32 + 1, u32::from(**member) + 1);
                *bucket = alive.iter().max_by_key(order).copied().unwrap_or(0);
            }
        }
        State::Group(Box::new(Members { buckets, hops }))
    }
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
