//! What flows are given one at a time, addresses or ports, and lose to others when they are silent for long.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use graph::clock::SECOND_NS;

/// How long a holder is silent before another may get what it has, once nothing else is left (RFC 4787,
/// REQ-5, recommends so long for UDP).
const IDLE_NS: i64 = 300 * SECOND_NS;

/// Numbers from zero on, each with one holder at most.
#[derive(Debug)]
pub(super) struct Leases<K> {
    count: usize,
    /// Those that were ever given.
    given: Vec<Lease<K>>,
    by_holder: HashMap<K, usize>,
    /// All that were given, those first whose holders were silent for long when this was noted last.
    order: VecDeque<(usize, i64)>,
}

#[derive(Debug)]
struct Lease<K> {
    holder: K,
    used_ns: i64,
}

impl<K: Copy + Eq + Hash> Leases<K> {
    /// So many numbers, and nobody has one.
    pub(super) fn new(count: usize) -> Leases<K> {
        Leases { count, given: vec![], by_holder: HashMap::new(), order: VecDeque::new() }
    }

    /// The number that `holder` has, which it uses now, or is given; `None` when none is free.
    pub(super) fn of(&mut self, holder: K, now_ns: i64) -> Option<usize> {
        if let Some(&number) = self.by_holder.get(&holder) {
            self.given[number].used_ns = now_ns;
            return Some(number);
        }
        let number = self.free(now_ns)?;
        let lease = Lease { holder, used_ns: now_ns };
        match self.given.get_mut(number) {
            Some(old) => {
                self.by_holder.remove(&old.holder);
                *old = lease;
            }
            None => self.given.push(lease),
        }
        self.by_holder.insert(holder, number);
        self.order.push_back((number, now_ns));
        Some(number)
    }

    /// Who has a number, which is used now, if `is_meant` says that it is.
    pub(super) fn holder(
        &mut self,
        number: usize,
        now_ns: i64,
        is_meant: impl FnOnce(&K) -> bool,
    ) -> Option<K> {
        let lease = self.given.get_mut(number).filter(|lease| is_meant(&lease.holder))?;
        lease.used_ns = now_ns;
        Some(lease.holder)
    }

    /// All holders, by their numbers.
    pub(super) fn holders(&self) -> impl Iterator<Item = &K> {
        self.given.iter().map(|lease| &lease.holder)
    }

    /// A number that was never given, or whose holder is silent; it is in no order then.
    fn free(&mut self, now_ns: i64) -> Option<usize> {
        if self.given.len() < self.count {
            return Some(self.given.len());
        }
        while let Some((number, noted_ns)) = self.order.pop_front() {
            let used_ns = self.given[number].used_ns;
            if used_ns > noted_ns {
                self.order.push_back((number, used_ns));
            } else if now_ns.saturating_sub(used_ns) >= IDLE_NS {
                return Some(number);
            } else {
                self.order.push_front((number, noted_ns));
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_holder_has_a_number_until_it_is_silent_and_another_wants_it() {
        let mut leases = Leases::new(2);
        assert_eq!((leases.of('a', 0), leases.of('b', 1), leases.of('a', 2)), (Some(0), Some(1), Some(0)));
        assert_eq!(leases.of('c', IDLE_NS), None, "b was silent for less, and a still less");
        assert_eq!(leases.of('c', IDLE_NS + 1), Some(1), "b was silent for long");
        assert_eq!((leases.holder(1, IDLE_NS + 1, |_| true), leases.of('b', IDLE_NS + 1)), (Some('c'), None));
        assert_eq!(leases.holder(0, IDLE_NS + 1, |_| true), Some('a'));
        assert_eq!(leases.of('b', IDLE_NS + 2), None, "answers keep a number");
        assert_eq!(leases.holder(0, 2 * IDLE_NS, |_| false), None);
        assert_eq!(leases.of('b', 2 * IDLE_NS + 1), Some(1), "the one that was silent longest");
        assert_eq!(leases.holder(2, 0, |_| true), None);
        assert_eq!(leases.holders().collect::<String>(), "ab");
        assert_eq!(Leases::new(0).of('a', 0), None);
    }

    proptest! {
        #[test]
        fn no_number_has_two_holders(uses: Vec<(u8, u16)>, count in 0..9usize) {
            let (mut leases, mut now_ns) = (Leases::new(count), 0);
            for (holder, later) in uses {
                now_ns += i64::from(later) * SECOND_NS / 100;
                if let Some(number) = leases.of(holder, now_ns) {
                    prop_assert!(number < count);
                    prop_assert_eq!(leases.holder(number, now_ns, |_| true), Some(holder));
                }
                prop_assert!(leases.by_holder.len() <= count && leases.order.len() <= count);
                prop_assert_eq!(leases.holders().count(), leases.by_holder.len());
            }
        }
    }
}
