//! Rules with next hops, changed by one thread while others look packets up: routes of
//! longest prefix match, or keys of exact match, as the [`Scheme`] says.
//!
//! A [`Rib`] (routing information base) holds what was asked for: the rules and, each
//! once, the next hops that they use. [`Rib::publish`] makes a [`Fib`] (forwarding
//! information base) of it, which is what lookups read, and shows it to all [`Reader`]s.
//!
//! ```text
//!  writer                                      readers, one for each thread
//!  ┌─ Rib ────────────────────┐                ┌─ Reader ─┐   one load a batch: is it
//!  │ rules:    rule → index   │   publish      │ version ─┼─► still the newest?
//!  │ next hops: index ↔ hop   ├──────────────► │ Fib      │
//!  │ changed rules, indices   │   two copies   └──────────┘
//!  └──────────────────────────┘   in turns     Fib: lookup part, and next hops by index
//! ```
//!
//! A `Fib` has the next hops in it by index, so that an index that a lookup gave and the
//! next hop that it stands for are always of one publication: an index is free as soon
//! as no rule uses its next hop, and no reader can take the next hop that has it then for
//! the one that had it before.
//!
//! The rules are there once, the lookup part twice: readers have one copy, the writer
//! brings the other up to date with what changed since and swaps them. How long changes
//! take stands in [`lpm`](crate::lpm) and [`exact`](crate::exact).

use crate::error::Result;
use crate::exact::{Exact, Key};
use crate::lpm::{Address, Route};
use crate::next_hops::NextHops;
use crate::published::{self, Base, Publisher};
use crate::rules::{DEFAULT_LIMIT, Rule, Rules};
use crate::scheme::{Lookup, Memory, Scheme};
use std::hash::Hash;

/// Changes that are followed one by one in each copy; after more of them between two
/// publications the lookup part is made anew.
const REMEMBERED: usize = if cfg!(test) { 64 } else { 65_536 };

/// A rule and its next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry<'a, R, H> {
    /// The rule: of longest prefix match a prefix and its length, of exact match the key.
    pub rule: R,
    /// Where packets go that it decides about.
    pub hop: &'a H,
}

/// What changed between two publications, so that a copy can follow.
#[derive(Clone, Debug)]
struct Changes<R> {
    rules: Vec<R>,
    /// Next hops that came or went, by index.
    hops: Vec<u32>,
    /// So much that all is made anew.
    all: bool,
}

impl<R> Default for Changes<R> {
    fn default() -> Self {
        Changes { rules: Vec::new(), hops: Vec::new(), all: false }
    }
}

impl<R: Ord> Changes<R> {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.hops.is_empty() && !self.all
    }

    fn rule(&mut self, rule: R) {
        if !self.all && !remember(&mut self.rules, rule) {
            self.everything();
        }
    }

    fn hop(&mut self, index: u32) {
        if !self.all && !remember(&mut self.hops, index) {
            self.everything();
        }
    }

    /// Puts them in order, each once.
    fn sort(&mut self) {
        sort(&mut self.rules);
        sort(&mut self.hops);
    }

    fn everything(&mut self) {
        *self = Changes { all: true, ..Changes::default() };
    }

    fn bytes(&self) -> usize {
        self.rules.len() * size_of::<R>() + self.hops.len() * size_of::<u32>()
    }
}

/// Adds one more change; false when there are too many. The same few may change again and again.
fn remember<T: Ord>(changed: &mut Vec<T>, one: T) -> bool {
    changed.push(one);
    if changed.len() < REMEMBERED {
        return true;
    }
    sort(changed);
    changed.len() <= REMEMBERED / 2
}

fn sort<T: Ord>(changed: &mut Vec<T>) {
    changed.sort_unstable();
    changed.dedup();
}

/// Rules with next hops `H`, for the one who changes them.
///
/// The scheme `S` is `u32` for routes to IPv4 addresses and `u128` for IPv6, in host byte
/// order (`to_bits`), whose rules are a prefix and its length; or
/// [`Exact`](crate::exact::Exact).
///
/// ```
/// let addr = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().to_bits();
/// let mut rib = fib::Rib::<u32, _>::new();
/// let mut reader = rib.reader();
/// rib.insert((addr("0.0.0.0"), 0), "uplink")?;
/// rib.insert((addr("192.0.2.0"), 24), "lan")?;
/// assert_eq!(reader.fib().lookup(addr("192.0.2.9")), None); // not published yet
/// rib.publish();
/// assert_eq!(reader.fib().lookup(addr("192.0.2.9")), Some(&"lan"));
/// # Ok::<(), fib::Error>(())
/// ```
#[derive(Debug)]
pub struct Rib<S: Scheme, H> {
    rules: Rules<S::Rule>,
    hops: NextHops<H>,
    /// Since the last publication.
    changes: Changes<S::Rule>,
    /// Between the last two: what the copy lacks that was published before the last.
    last_changes: Changes<S::Rule>,
    /// There is nothing to read before something is published, so that a table that
    /// never changes is there once.
    publisher: Option<Publisher<Fib<S, H>>>,
}

impl<S: Scheme, H: Clone + Eq + Hash> Default for Rib<S, H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Scheme, H: Clone + Eq + Hash> Rib<S, H> {
    /// No rules, and room for four million.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// No rules, and room for `rules` (at most [`MAX_RULES`](crate::MAX_RULES)). The limit
    /// bounds the memory: that of each copy of the lookup part by 2 KiB (IPv4), 1 KiB (IPv6)
    /// or 512 bytes (exact match) for each rule, and there are at most two copies more than
    /// readers.
    pub fn with_limit(rules: usize) -> Self {
        Rib {
            rules: Rules::new(rules),
            hops: NextHops::new(),
            changes: Changes::default(),
            last_changes: Changes::default(),
            publisher: None,
        }
    }

    /// Adds the rule or replaces its next hop; the old one if there was one. Readers see
    /// it after [`publish`](Self::publish).
    ///
    /// # Errors
    /// When there is no such rule (a prefix that is none), or no room; nothing is changed
    /// then.
    pub fn insert(&mut self, rule: S::Rule, hop: H) -> Result<Option<H>> {
        self.rules.admits(rule, 0)?;
        let (value, is_new) = self.hops.intern(hop);
        if is_new {
            self.changes.hop(value);
        }
        let old = self.rules.insert(rule, value);
        if old != Some(value) {
            self.changes.rule(rule);
        }
        Ok(old.map(|old| self.release(old)))
    }

    /// Removes the rule; its next hop if it was there. Readers see it after
    /// [`publish`](Self::publish).
    ///
    /// # Errors
    /// When there is no such rule (a prefix that is none).
    pub fn remove(&mut self, rule: S::Rule) -> Result<Option<H>> {
        rule.check()?;
        let old = self.rules.remove(rule);
        if old.is_some() {
            self.changes.rule(rule);
        }
        Ok(old.map(|old| self.release(old)))
    }

    /// Puts `hop` in the place of the next hop that equals it, for all rules that use that one,
    /// however many: for next hops with a part that their equality does not look at, as a
    /// tunnel stays the same when its neighbour has another Ethernet address. An insertion
    /// leaves such a next hop as it is. False,
    /// and nothing changed, when no rule uses such a next hop. Readers see it after
    /// [`publish`](Self::publish).
    pub fn refresh(&mut self, hop: H) -> bool {
        let index = self.hops.refresh(hop);
        if let Some(index) = index {
            self.changes.hop(index);
        }
        index.is_some()
    }

    fn release(&mut self, index: u32) -> H {
        let (hop, was_last) = self.hops.release(index);
        if was_last {
            self.changes.hop(index);
        }
        hop
    }

    /// Removes all rules. Readers see it after [`publish`](Self::publish).
    pub fn clear(&mut self) {
        self.rules.clear();
        self.hops.clear();
        self.changes.everything();
    }

    /// Shows readers all changes since the last time, at once. It may wait up to a
    /// millisecond for readers that are in the middle of a batch.
    ///
    /// The copy that readers leave keeps the next hops that were removed until the next
    /// publication.
    pub fn publish(&mut self) {
        let Rib { rules, hops, changes, last_changes, publisher } = self;
        if changes.is_empty() {
            return;
        }
        changes.sort();
        match publisher {
            None => {
                let mut first = Fib::new();
                first.follow(changes, rules, hops);
                *publisher = Some(Publisher::new(first));
            }
            Some(publisher) => publisher.publish(|fib, base| {
                if base == Base::Previous {
                    fib.follow(last_changes, rules, hops);
                }
                fib.follow(changes, rules, hops);
            }),
        }
        self.last_changes = std::mem::take(&mut self.changes);
    }

    /// One more reader, who sees what is published. A reader of which there is one
    /// already is cheaper to [`clone`](Reader::clone).
    pub fn reader(&mut self) -> Reader<S, H> {
        Reader(self.publisher.get_or_insert_with(|| Publisher::new(Fib::new())).reader())
    }

    /// The next hop of exactly this rule, as changed last.
    pub fn get(&self, rule: S::Rule) -> Option<&H> {
        self.hops.get(self.rules.value(rule)?)
    }

    /// The number of exactly this rule, as changed last: its own as long as it is there. Numbers
    /// are below the number of rules that there ever were at a time, and another rule has it
    /// later.
    pub fn number(&self, rule: S::Rule) -> Option<u32> {
        self.rules.number(rule)
    }

    /// All rules, as changed last, in order: a route comes before those inside it.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_, S::Rule, H>> + '_ {
        self.rules.iter().filter_map(|(rule, value)| Some(Entry { rule, hop: self.hops.get(value)? }))
    }

    /// The rules between two, both included, as changed last, in order.
    pub fn range(&self, first: S::Rule, last: S::Rule) -> impl Iterator<Item = Entry<'_, S::Rule, H>> + '_ {
        let rules = self.rules.range(first, last);
        rules.filter_map(|(rule, value)| Some(Entry { rule, hop: self.hops.get(value)? }))
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many different next hops they use.
    pub fn next_hops(&self) -> usize {
        self.hops.len()
    }

    /// What all of it takes, every copy of the lookup part included; what next hops own
    /// beside their own size is not counted.
    pub fn memory(&self) -> Memory {
        let logs = self.changes.bytes() + self.last_changes.bytes();
        let rules = self.rules.bytes() + self.hops.bytes() + logs;
        let copies = self.publisher.iter().flat_map(Publisher::copies).map(|fib| fib.memory());
        copies.fold(Memory { lookup: 0, rules }, |sum, copy| Memory {
            lookup: sum.lookup + copy.lookup,
            rules: sum.rules + copy.rules,
        })
    }
}

impl<A: Address, H: Clone + Eq + Hash> Rib<A, H> {
    /// The route that decides about `addr`, as changed last. For people: a
    /// [`Reader`] is faster.
    pub fn route(&self, addr: A) -> Option<Entry<'_, (A, u8), H>> {
        let Route { prefix, len, value } = self.rules.covering(addr, A::WIDTH as u8)?;
        Some(Entry { rule: (prefix, len), hop: self.hops.get(value)? })
    }
}

/// What lookups read: a lookup part and the next hops by index.
#[derive(Clone, Debug)]
pub struct Fib<S: Scheme, H> {
    lookup: S::Lookup,
    hops: Vec<Option<H>>,
}

impl<S: Scheme, H> Fib<S, H> {
    fn new() -> Self {
        Fib { lookup: S::Lookup::new(), hops: Vec::new() }
    }

    /// The next hop of a key, such as an address, if a rule decides about it.
    #[inline]
    pub fn lookup(&self, key: S::Key) -> Option<&H> {
        self.hop(self.lookup.lookup(key)?)
    }

    /// Looks up `keys`: for each the index of a next hop, or [`MISS`](crate::MISS). Many at
    /// a time are several times as fast as one by one, because their memory accesses
    /// overlap.
    ///
    /// # Panics
    /// When `indices` is shorter than `keys`.
    #[inline]
    pub fn lookup_batch(&self, keys: &[S::Key], indices: &mut [u32]) {
        self.lookup.lookup_batch(keys, indices);
    }

    /// The next hop that an index from this very `Fib` stands for; `None` for a miss.
    #[inline(always)]
    pub fn hop(&self, index: u32) -> Option<&H> {
        self.hops.get(index as usize)?.as_ref() // a miss is beyond all
    }

    pub(crate) fn memory(&self) -> Memory {
        let Memory { lookup, rules } = self.lookup.memory();
        Memory { lookup: lookup + self.hops.len() * size_of::<Option<H>>(), rules }
    }
}

impl<H> Fib<Exact, H> {
    /// As [`lookup_batch`](Self::lookup_batch), with the [number](Rib::number) of each key that
    /// has a rule: it is read where the index is. Of others `numbers` stay as they are.
    ///
    /// # Panics
    /// When `indices` or `numbers` is shorter than `keys`.
    #[inline]
    pub fn lookup_batch_numbered(&self, keys: &[Key], indices: &mut [u32], numbers: &mut [u32]) {
        self.lookup.lookup_batch_numbered(keys, indices, numbers);
    }
}

impl<S: Scheme, H: Clone + Eq + Hash> Fib<S, H> {
    /// Takes up what changed, as `rules` and `hops` have it now.
    fn follow(&mut self, changes: &Changes<S::Rule>, rules: &Rules<S::Rule>, hops: &NextHops<H>) {
        if changes.all {
            self.lookup.fill(rules);
            self.hops = hops.indices().map(|index| hops.get(index).cloned()).collect();
            return;
        }
        self.lookup.follow_all(rules, &changes.rules);
        for &index in &changes.hops {
            if self.hops.len() <= index as usize {
                self.hops.resize(index as usize + 1, None);
            }
            self.hops[index as usize] = hops.get(index).cloned();
        }
    }
}

/// One who looks packets up; each thread has its own.
///
/// A reader that rests keeps a copy of the lookup part alive: see
/// [`Rib::with_limit`].
#[derive(Debug)]
pub struct Reader<S: Scheme, H>(published::Reader<Fib<S, H>>);

impl<S: Scheme, H> Clone for Reader<S, H> {
    fn clone(&self) -> Self {
        Reader(self.0.clone())
    }
}

impl<S: Scheme, H> Reader<S, H> {
    /// What was published last. Ask once a batch: it is one load from memory that is
    /// written by publications only.
    #[inline]
    pub fn fib(&mut self) -> &Fib<S, H> {
        self.0.value()
    }
}

#[cfg(test)]
mod tests;
