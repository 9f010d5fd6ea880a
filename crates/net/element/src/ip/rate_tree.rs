//! How much comes from and goes to IPv4 networks and hosts: a tree whose branches are opened where there is
//! much of it, and folded where it has become little.

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::standard::rate::{SCALE, SlowRate, decimal};

/// The rates of a network or host: what it sends, and what is sent to it.
#[derive(Debug, Clone, Default)]
struct Counter {
    rates: [SlowRate; 2],
    next: Option<Box<Branch>>,
    /// Until when it is not opened.
    closed_until: i64,
}

/// The parts of a network, one for each value of the next byte of an address.
type Branch = [Option<Box<Counter>>; PARTS];

const PARTS: usize = 256;
const COUNTER_SIZE: usize = size_of::<Counter>();
const BRANCH_SIZE: usize = size_of::<Branch>();

fn branch() -> Box<Branch> {
    Box::new([const { None }; PARTS])
}

impl Counter {
    /// Brings the rates to this time, and adds to one of them.
    fn count(&mut self, now_ns: i64, way: usize, amount: u64) {
        self.rates[way].count(now_ns, amount);
        self.rates[1 - way].count(now_ns, 0);
    }

    /// Whether neither rate is as high as this, of an epoch, in fixed point.
    fn is_below(&mut self, now_ns: i64, threshold: i64) -> bool {
        self.count(now_ns, 0, 0);
        self.rates.iter().all(|rate| rate.average() < threshold)
    }

    /// In a second, without what is behind the point.
    fn in_a_second(&self) -> [i64; 2] {
        [0, 1].map(|way| (self.rates[way].average() * SlowRate::FREQUENCY) >> SCALE)
    }
}

/// A packet that is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) address: Ipv4Addr,
    /// 0 for what the address sends, 1 for what is sent to it.
    pub(super) way: usize,
    /// How much it is; `None` for one that is left out.
    pub(super) amount: Option<u64>,
}

/// The tree of all addresses, within some memory.
#[derive(Debug)]
pub(super) struct RateTree {
    root: Box<Branch>,
    /// Bytes that it has.
    size: usize,
    most: usize,
    threshold: i64,
    folded_ns: Option<i64>,
}

impl RateTree {
    /// A tree of at most so many bytes, whose branches are opened at `threshold` a second.
    pub(super) fn new(most: usize, threshold: i64) -> RateTree {
        RateTree { root: branch(), size: BRANCH_SIZE, most, threshold, folded_ns: None }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn clear(&mut self) {
        (self.root, self.size) = (branch(), BRANCH_SIZE);
    }

    /// Counts a packet for its address's networks, and tells the rates, in a second, of the smallest that
    /// has a counter; `None` when there is no memory for one.
    pub(super) fn count(&mut self, packet: Counted, now_ns: i64) -> Option<[i64; 2]> {
        let folded_ns = *self.folded_ns.get_or_insert(now_ns);
        if now_ns - folded_ns >= graph::clock::SECOND_NS {
            self.folded_ns = Some(now_ns);
            self.fold(self.threshold, self.most.min(self.size / 10 * 9), now_ns);
        }
        let Counted { address, way, amount } = packet;
        let (bytes, mut at) = (address.octets(), &mut self.root);
        let mut rates = None;
        for (level, byte) in bytes.into_iter().enumerate() {
            let place = &mut at[usize::from(byte)];
            if place.is_none() {
                if self.size + COUNTER_SIZE > self.most {
                    return None;
                }
                self.size += COUNTER_SIZE;
            }
            let counter = place.get_or_insert_default();
            if let Some(amount) = amount {
                counter.count(now_ns, way, amount);
            }
            if counter.next.is_none() {
                let found = counter.in_a_second();
                rates = Some(found);
                let room = self.size + COUNTER_SIZE + BRANCH_SIZE <= self.most;
                let is_much = found.iter().any(|rate| *rate >= self.threshold);
                if let Some(next) = bytes.get(level + 1).filter(|_| room && is_much)
                    && counter.closed_until < SlowRate::epoch(now_ns)
                {
                    let mut inner = branch();
                    let rates = counter.rates.clone();
                    inner[usize::from(*next)] = Some(Box::new(Counter { rates, ..Counter::default() }));
                    counter.next = Some(inner);
                    self.size += COUNTER_SIZE + BRANCH_SIZE;
                }
                break;
            }
            at = counter.next.as_mut()?;
        }
        rates
    }

    /// Folds branches below which there is little, until there are less than `goal` bytes.
    fn fold(&mut self, threshold: i64, goal: usize, now_ns: i64) {
        // The direction is drawn so that no network is always folded first.
        let backwards = graph::random::below(2) == 1;
        fold(&mut self.root, &mut self.size, (threshold, goal, backwards), now_ns);
    }

    /// Folds what has no room in so many bytes.
    pub(super) fn set_most(&mut self, most: usize, now_ns: i64) {
        self.most = most;
        let mut threshold = self.threshold.max(1);
        while self.size > most && threshold < i64::MAX {
            self.fold(threshold, most, now_ns);
            threshold = threshold.saturating_mul(2);
        }
    }

    /// Closes what is below a network, and keeps it closed until an epoch; `level` is how many bytes of the
    /// address follow the first one.
    pub(super) fn close(&mut self, address: Ipv4Addr, level: usize, until: i64) {
        let mut at = &mut self.root;
        for (here, byte) in address.octets().into_iter().enumerate() {
            let Some(counter) = &mut at[usize::from(byte)] else { return };
            if here == level {
                counter.closed_until = until;
                self.size -= counter.next.take().map_or(0, |next| size_of_branch(&next));
                return;
            }
            let Some(next) = &mut counter.next else { return };
            at = next;
        }
    }

    /// A line for each network and host that has a rate: its address, what it sends, what is sent to it.
    pub(super) fn listing(&mut self, now_ns: i64) -> String {
        let mut out = String::new();
        list(&mut self.root, "", now_ns, &mut out);
        out
    }
}

fn size_of_branch(branch: &Branch) -> usize {
    let of = |counter: &Counter| COUNTER_SIZE + counter.next.as_ref().map_or(0, |next| size_of_branch(next));
    BRANCH_SIZE + branch.iter().flatten().map(|counter| of(counter)).sum::<usize>()
}

/// Folds branches; tells whether the goal is reached.
fn fold(
    branch: &mut Branch,
    size: &mut usize,
    (threshold, goal, backwards): (i64, usize, bool),
    now_ns: i64,
) -> bool {
    for n in 0..PARTS {
        let n = if backwards { PARTS - 1 - n } else { n };
        let Some(counter) = &mut branch[n] else { continue };
        if counter.next.is_none() {
            continue;
        }
        let is_done = if counter.is_below(now_ns, threshold) {
            *size -= counter.next.take().map_or(0, |next| size_of_branch(&next));
            *size < goal
        } else {
            counter.next.as_mut().is_some_and(|next| fold(next, size, (threshold, goal, backwards), now_ns))
        };
        if is_done {
            return true;
        }
    }
    false
}

fn list(branch: &mut Branch, before: &str, now_ns: i64, out: &mut String) {
    for (byte, counter) in branch.iter_mut().enumerate() {
        let Some(counter) = counter.as_mut().filter(|counter| counter.rates.iter().any(|r| r.average() > 0))
        else {
            continue;
        };
        counter.count(now_ns, 0, 0);
        let name = if before.is_empty() { byte.to_string() } else { format!("{before}.{byte}") };
        let [from, to] =
            [0, 1].map(|way| decimal((counter.rates[way].average() * SlowRate::FREQUENCY) as u64, SCALE));
        let _ = writeln!(out, "{name}\t{from}\t{to}");
        if let Some(next) = &mut counter.next {
            list(next, &format!("\t{name}"), now_ns, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn count(tree: &mut RateTree, address: [u8; 4], now_ns: i64) -> Option<[i64; 2]> {
        tree.count(Counted { address: address.into(), way: 0, amount: Some(1) }, now_ns)
    }

    fn names(tree: &mut RateTree, now_ns: i64) -> Vec<String> {
        let listing = tree.listing(now_ns);
        listing.lines().map(|line| line.trim().split('\t').next().unwrap_or("").to_string()).collect()
    }

    #[test]
    fn branches_open_where_there_is_much_and_fold_where_there_is_little() {
        let mut tree = RateTree::new(1 << 20, 100);
        for ms in 0..2000 {
            count(&mut tree, [18, 26, 4, 9], ms * MS);
            if ms % 100 == 0 {
                count(&mut tree, [10, 0, 0, 1], ms * MS);
            }
        }
        assert_eq!(names(&mut tree, 2000 * MS), ["10", "18", "18.26", "18.26.4", "18.26.4.9"]);
        let [rate, back] = count(&mut tree, [18, 26, 4, 9], 2000 * MS).expect("a counter");
        assert!((900..1100).contains(&rate) && back == 0, "{rate} {back}");
        let size = tree.size();
        assert_eq!(size, 4 * BRANCH_SIZE + 5 * COUNTER_SIZE);
        count(&mut tree, [10, 0, 0, 1], 9000 * MS);
        assert_eq!(tree.size(), BRANCH_SIZE + 2 * COUNTER_SIZE, "18 is folded, with all below it");
    }

    /// Sends from so many networks until they are open; nothing comes from them afterwards.
    fn quiet_networks(tree: &mut RateTree, networks: u8) {
        for ms in 0..500 {
            (0..networks).for_each(|n| _ = count(tree, [n, 1, 1, 1], ms * MS));
        }
    }

    #[test]
    fn a_tenth_of_the_memory_is_freed_each_second() {
        let mut tree = RateTree::new(1 << 20, 100);
        quiet_networks(&mut tree, 40);
        assert_eq!(tree.size(), 121 * BRANCH_SIZE + 160 * COUNTER_SIZE);
        for second in 9..60 {
            let before = tree.size();
            count(&mut tree, [0, 1, 1, 1], second * 1000 * MS);
            let goal = (before / 10 * 9).max(BRANCH_SIZE + 40 * COUNTER_SIZE);
            let least = goal.saturating_sub(3 * (BRANCH_SIZE + COUNTER_SIZE));
            assert!((least..=goal).contains(&tree.size()), "{second}: {before}, {}", tree.size());
        }
        assert_eq!(tree.size(), BRANCH_SIZE + 40 * COUNTER_SIZE, "all are folded");
    }

    #[test]
    fn a_full_tree_is_folded_for_strangers() {
        let mut tree = RateTree::new(4 * BRANCH_SIZE + 4 * COUNTER_SIZE, 100);
        quiet_networks(&mut tree, 1);
        assert_eq!((tree.size(), count(&mut tree, [1, 1, 1, 1], 500 * MS)), (tree.most, None));
        assert_eq!(count(&mut tree, [1, 1, 1, 1], 9000 * MS), Some([0, 0]));
        assert_eq!(tree.size(), BRANCH_SIZE + 2 * COUNTER_SIZE);
    }

    #[test]
    fn strangers_cannot_have_more_memory_than_there_is() {
        for threshold in [0, -1, 1] {
            let mut tree = RateTree::new(100 * 1024, threshold);
            for n in 0..100_000u32 {
                count(&mut tree, n.wrapping_mul(0x9E37_79B1).to_be_bytes(), i64::from(n) * MS);
                assert!(tree.size() <= 100 * 1024);
            }
            assert_eq!(tree.size(), size_of_branch(&tree.root));
            tree.set_most(40 * 1024, 100_000 * MS);
            assert!(tree.size() <= 40 * 1024, "{threshold}: {}", tree.size());
            assert_eq!(tree.size(), size_of_branch(&tree.root));
        }
    }

    #[test]
    fn a_network_can_be_kept_closed() {
        let mut tree = RateTree::new(1 << 20, 0);
        let until = SlowRate::epoch(2000 * MS);
        for _ in 0..3 {
            count(&mut tree, [18, 26, 4, 9], 1000 * MS);
        }
        assert_eq!(tree.size(), 4 * BRANCH_SIZE + 4 * COUNTER_SIZE);
        tree.close([18, 26, 0, 0].into(), 1, until);
        assert_eq!(tree.size(), size_of_branch(&tree.root));
        let below = |tree: &RateTree| {
            let network = tree.root[18].as_ref().and_then(|counter| counter.next.as_ref()?[26].as_ref());
            network.is_some_and(|counter| counter.next.is_some())
        };
        for ms in (1000..1900).step_by(100) {
            count(&mut tree, [18, 26, 4, 9], ms * MS);
        }
        assert!(!below(&tree));
        count(&mut tree, [18, 26, 4, 9], 2100 * MS);
        assert!(below(&tree));
        // What is not there cannot be closed.
        tree.close([19, 1, 1, 1].into(), 3, until);
        tree.close([18, 26, 9, 1].into(), 3, until);
    }
}
