//! What a virtual function may have of the table of filters that the whole card has.
//!
//! Each pair of an address and a VLAN takes an entry. All VSIs share the table, so that what one takes
//! is missing to the others: each has a part of it to itself, and so has the port.

use super::super::info::FILTERS;
use super::Policy;

/// Addresses and VLANs of one without trust, its own address with them.
const UNTRUSTED: (usize, usize) = (18, 16);
/// Addresses and VLANs of one with trust.
const TRUSTED: (usize, usize) = (128, 64);
/// Filters that the port itself keeps, its own address with them, if it has not more already.
const OF_PORT: usize = 64;

/// What a virtual function may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Addresses, its own with them.
    pub addresses: usize,
    /// VLANs, beside frames without a tag.
    pub vlans: usize,
    /// Its part of the table: pairs of an address and a VLAN, broadcasts and frames without a tag
    /// with them.
    pub filters: usize,
}

impl Limits {
    /// What a policy lets one have, with all filters that this may need.
    fn of(policy: &Policy) -> Limits {
        let (addresses, vlans) = if policy.trust { TRUSTED } else { UNTRUSTED };
        let each = if policy.vlan.is_some() { 1 } else { vlans + 1 };
        Limits { addresses, vlans, filters: (addresses + 1) * each }
    }
}

/// Filters that the port keeps of which it uses some.
pub(super) fn of_port(used: usize) -> usize {
    used.clamp(OF_PORT, FILTERS)
}

/// Divides filters among virtual functions: each has what it may need at most, or as much as the others
/// that need more.
pub(super) fn divide(policies: &[Policy], mut filters: usize) -> Vec<Limits> {
    let mut all: Vec<Limits> = policies.iter().map(Limits::of).collect();
    let mut least_first: Vec<&mut Limits> = all.iter_mut().collect();
    least_first.sort_by_key(|one| one.filters);
    let count = least_first.len();
    for (place, one) in least_first.into_iter().enumerate() {
        one.filters = one.filters.min(filters / (count - place));
        filters -= one.filters;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = FILTERS - OF_PORT;

    fn filters(policies: &[Policy]) -> Vec<usize> {
        divide(policies, ROOM).iter().map(|one| one.filters).collect()
    }

    #[test]
    fn each_has_what_it_needs_or_as_much_as_the_others_and_all_fit() {
        let plain = Policy::default();
        let trusted = Policy { trust: true, ..plain };
        let tagged = Policy { vlan: Some(7), ..plain };
        assert_eq!(filters(&[plain; 4]), [19 * 17; 4], "18 addresses and broadcast, 16 VLANs and none");
        assert_eq!(filters(&[trusted, plain, tagged]), [ROOM - 323 - 19, 323, 19]);
        assert_eq!(filters(&[trusted, plain, trusted]), [574, 323, 575], "what is odd is the last one's");
        for count in 5..=128 {
            let parts = filters(&vec![plain; count]);
            assert!(parts.iter().sum::<usize>() <= ROOM);
            assert!(parts.iter().all(|part| *part >= ROOM / count), "{count}: {parts:?}");
        }
        assert!(filters(&[]).is_empty());
        assert_eq!([1, 70, 9000].map(of_port), [OF_PORT, 70, FILTERS]);
    }
}
