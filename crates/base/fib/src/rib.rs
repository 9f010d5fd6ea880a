//! Routes to next hops, changed by one thread while others look packets' addresses up.
//!
//! A [`Rib`] (routing information base) holds what was asked for: the routes and, each
//! once, the next hops that they use. [`Rib::publish`] makes a [`Fib`] (forwarding
//! information base) of it, which is what lookups read, and shows it to all [`Reader`]s.
//!
//! ```text
//!  writer                                      readers, one for each thread
//!  ┌─ Rib ────────────────────┐                ┌─ Reader ─┐   one load a batch: is it
//!  │ routes:   prefix → index │   publish      │ version ─┼─► still the newest?
//!  │ next hops: index ↔ hop   ├──────────────► │ Fib      │
//!  │ changed prefixes, indices│   two copies   └──────────┘
//!  └──────────────────────────┘   in turns     Fib: lookup part, and next hops by index
//! ```
//!
//! A `Fib` has the next hops in it by index, so that an index that a lookup gave and the
//! next hop that it stands for are always of one publication: an index is free as soon
//! as no route uses its next hop, and no reader can take the next hop that has it then for
//! the one that had it before.
//!
//! The routes are there once, the lookup part twice: readers have one copy, the writer
//! brings the other up to date with what changed since and swaps them. How long changes
//! take stands in [`lpm`](crate::lpm).

use crate::error::Result;
use crate::lpm::{Address, DEFAULT_LIMIT, Lookup, Memory, Route, Routes, Table};
use crate::next_hops::NextHops;
use crate::published::{self, Base, Publisher};
use std::hash::Hash;

/// Changes that are followed one by one in each copy; after more of them between two
/// publications the lookup part is made anew.
const REMEMBERED: usize = if cfg!(test) { 64 } else { 65_536 };

/// A route to a next hop: all addresses that begin with the first `len` bits of `prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry<'a, A, H> {
    /// The first bits (host byte order); those behind `len` are 0.
    pub prefix: A,
    /// How many bits count.
    pub len: u8,
    /// Where packets to these addresses go.
    pub hop: &'a H,
}

/// What changed between two publications, so that a copy can follow.
#[derive(Clone, Debug)]
struct Changes<A> {
    prefixes: Vec<(A, u8)>,
    /// Next hops that came or went, by index.
    hops: Vec<u32>,
    /// So much that all is made anew.
    all: bool,
}

impl<A> Default for Changes<A> {
    fn default() -> Self {
        Changes { prefixes: Vec::new(), hops: Vec::new(), all: false }
    }
}

impl<A> Changes<A> {
    /// A next hop never comes or goes without a route's change.
    fn is_empty(&self) -> bool {
        self.prefixes.is_empty() && !self.all
    }

    fn prefix(&mut self, prefix: A, len: u8) {
        if self.prefixes.len() == REMEMBERED {
            self.everything();
        } else if !self.all {
            self.prefixes.push((prefix, len));
        }
    }

    fn hop(&mut self, index: u32) {
        if !self.all {
            self.hops.push(index);
        }
    }

    fn everything(&mut self) {
        *self = Changes { all: true, ..Changes::default() };
    }

    fn bytes(&self) -> usize {
        self.prefixes.len() * size_of::<(A, u8)>() + self.hops.len() * size_of::<u32>()
    }
}

/// Routes to next hops `H`, for the one who changes them.
///
/// `A` is `u32` for IPv4 and `u128` for IPv6, in host byte order (`to_bits`).
///
/// ```
/// let addr = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().to_bits();
/// let mut rib = fib::Rib::new();
/// let mut reader = rib.reader();
/// rib.insert(addr("0.0.0.0"), 0, "uplink")?;
/// rib.insert(addr("192.0.2.0"), 24, "lan")?;
/// assert_eq!(reader.fib().lookup(addr("192.0.2.9")), None); // not published yet
/// rib.publish();
/// assert_eq!(reader.fib().lookup(addr("192.0.2.9")), Some(&"lan"));
/// # Ok::<(), fib::Error>(())
/// ```
#[derive(Debug)]
pub struct Rib<A: Address, H> {
    routes: Routes<A>,
    hops: NextHops<H>,
    /// Since the last publication.
    changes: Changes<A>,
    /// Between the last two: what the copy lacks that was published before the last.
    last_changes: Changes<A>,
    /// There is nothing to read before something is published, so that a table that
    /// never changes is there once.
    publisher: Option<Publisher<Fib<A, H>>>,
}

impl<A: Address, H: Clone + Eq + Hash> Default for Rib<A, H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Address, H: Clone + Eq + Hash> Rib<A, H> {
    /// No routes, and room for four million.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// No routes, and room for `routes` (at most [`Table::MAX_ROUTES`]). The limit bounds
    /// the memory: that of each copy of the lookup part by 256 (IPv4) or 384 bytes (IPv6)
    /// for each route, and there are at most two copies more than readers.
    pub fn with_limit(routes: usize) -> Self {
        Rib {
            routes: Routes::new(routes.min(Table::<A>::MAX_ROUTES)),
            hops: NextHops::new(),
            changes: Changes::default(),
            last_changes: Changes::default(),
            publisher: None,
        }
    }

    /// Adds the route or replaces its next hop; the old one if there was one. Readers see
    /// it after [`publish`](Self::publish).
    ///
    /// # Errors
    /// When the prefix is none, or there is no room; nothing is changed then.
    pub fn insert(&mut self, prefix: A, len: u8, hop: H) -> Result<Option<H>> {
        self.routes.admits(Route { prefix, len, value: 0 })?;
        let (value, is_new) = self.hops.intern(hop);
        if is_new {
            self.changes.hop(value);
        }
        let old = self.routes.insert(Route { prefix, len, value });
        if old != Some(value) {
            self.changes.prefix(prefix, len);
        }
        Ok(old.map(|old| self.release(old)))
    }

    /// Removes the route; its next hop if it was there. Readers see it after
    /// [`publish`](Self::publish).
    ///
    /// # Errors
    /// When the prefix is none.
    pub fn remove(&mut self, prefix: A, len: u8) -> Result<Option<H>> {
        Routes::check(prefix, len)?;
        let old = self.routes.remove(prefix, len);
        if old.is_some() {
            self.changes.prefix(prefix, len);
        }
        Ok(old.map(|old| self.release(old)))
    }

    fn release(&mut self, index: u32) -> H {
        let (hop, was_last) = self.hops.release(index);
        if was_last {
            self.changes.hop(index);
        }
        hop
    }

    /// Removes all routes. Readers see it after [`publish`](Self::publish).
    pub fn clear(&mut self) {
        self.routes.clear();
        self.hops.clear();
        self.changes.everything();
    }

    /// Shows readers all changes since the last time, at once. It may wait up to a
    /// millisecond for readers that are in the midst of a batch.
    ///
    /// The copy that readers leave keeps the next hops that were removed until the next
    /// publication.
    pub fn publish(&mut self) {
        let Rib { routes, hops, changes, last_changes, publisher } = self;
        match publisher {
            _ if changes.is_empty() => return,
            None => {
                let mut first = Fib::new();
                first.follow(changes, routes, hops);
                *publisher = Some(Publisher::new(first));
            }
            Some(publisher) => publisher.publish(|fib, base| {
                if base == Base::Previous {
                    fib.follow(last_changes, routes, hops);
                }
                fib.follow(changes, routes, hops);
            }),
        }
        self.last_changes = std::mem::take(&mut self.changes);
    }

    /// One more reader, who sees what is published. A reader of which there is one
    /// already is cheaper to [`clone`](Reader::clone).
    pub fn reader(&mut self) -> Reader<A, H> {
        Reader(self.publisher.get_or_insert_with(|| Publisher::new(Fib::new())).reader())
    }

    /// The next hop of exactly this route, as changed last.
    pub fn get(&self, prefix: A, len: u8) -> Option<&H> {
        self.hops.get(self.routes.value(prefix, len)?)
    }

    /// The route that decides about `addr`, as changed last. For people: a
    /// [`Reader`] is faster.
    pub fn route(&self, addr: A) -> Option<Entry<'_, A, H>> {
        self.entry(self.routes.covering(addr, A::WIDTH as u8)?)
    }

    /// All routes, as changed last, by prefix and then length: one comes before those
    /// inside it.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_, A, H>> + '_ {
        self.routes.iter().filter_map(|route| self.entry(route))
    }

    fn entry(&self, Route { prefix, len, value }: Route<A>) -> Option<Entry<'_, A, H>> {
        Some(Entry { prefix, len, hop: self.hops.get(value)? })
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
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
        let routes = self.routes.bytes() + self.hops.bytes() + logs;
        let copies = self.publisher.iter().flat_map(Publisher::copies).map(|fib| fib.memory());
        copies.fold(Memory { lookup: 0, routes }, |sum, copy| Memory {
            lookup: sum.lookup + copy.lookup,
            routes: sum.routes + copy.routes,
        })
    }
}

/// What lookups read: a lookup part and the next hops by index.
#[derive(Clone, Debug)]
pub struct Fib<A: Address, H> {
    lookup: A::Lookup,
    hops: Vec<Option<H>>,
}

impl<A: Address, H> Fib<A, H> {
    fn new() -> Self {
        Fib { lookup: A::Lookup::new(), hops: Vec::new() }
    }

    /// The next hop of an address, if a route covers it.
    #[inline]
    pub fn lookup(&self, addr: A) -> Option<&H> {
        self.hop(self.lookup.lookup(addr)?)
    }

    /// Looks up `addrs`: for each the index of a next hop, or
    /// [`MISS`](crate::lpm::MISS). Many at a time are several times as fast as one by one,
    /// because their memory accesses overlap.
    ///
    /// # Panics
    /// When `indices` is shorter than `addrs`.
    #[inline]
    pub fn lookup_batch(&self, addrs: &[A], indices: &mut [u32]) {
        self.lookup.lookup_batch(addrs, indices);
    }

    /// The next hop that an index from this very `Fib` stands for; `None` for a miss.
    #[inline(always)]
    pub fn hop(&self, index: u32) -> Option<&H> {
        self.hops.get(index as usize)?.as_ref() // a miss is beyond all
    }

    fn memory(&self) -> Memory {
        let Memory { lookup, routes } = self.lookup.memory();
        Memory { lookup: lookup + self.hops.len() * size_of::<Option<H>>(), routes }
    }
}

impl<A: Address, H: Clone + Eq + Hash> Fib<A, H> {
    /// Takes up what changed, as `routes` and `hops` have it now.
    fn follow(&mut self, changes: &Changes<A>, routes: &Routes<A>, hops: &NextHops<H>) {
        if changes.all {
            self.lookup.fill(routes);
            self.hops = hops.indices().map(|index| hops.get(index).cloned()).collect();
            return;
        }
        for &(prefix, len) in &changes.prefixes {
            self.lookup.follow(routes, prefix, len);
        }
        for &index in &changes.hops {
            if self.hops.len() <= index as usize {
                self.hops.resize(index as usize + 1, None);
            }
            self.hops[index as usize] = hops.get(index).cloned();
        }
    }
}

/// One who looks addresses up; each thread has its own.
///
/// A reader that rests keeps a copy of the lookup part alive: see
/// [`Rib::with_limit`].
#[derive(Debug)]
pub struct Reader<A: Address, H>(published::Reader<Fib<A, H>>);

impl<A: Address, H> Clone for Reader<A, H> {
    fn clone(&self) -> Self {
        Reader(self.0.clone())
    }
}

impl<A: Address, H> Reader<A, H> {
    /// What was published last. Ask once a batch: it is one load from memory that is
    /// written by publications only.
    #[inline]
    pub fn fib(&mut self) -> &Fib<A, H> {
        self.0.value()
    }
}

#[cfg(test)]
mod tests;
