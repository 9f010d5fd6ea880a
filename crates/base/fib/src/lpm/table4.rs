//! IPv4: two memory accesses for all but the longest routes.
//!
//! What is looked up is made from what is stored in `routes`; `change` keeps the
//! two equal. See the module above for the picture.

use super::arena::Arena;
use super::bits::{encode, rank};
use super::routes::{Address, Routes, stored, value};
use super::{MISS, Memory, Route};
use crate::error::Result;
use std::hint::{black_box, select_unpredictable};

/// Blocks: one for each first 18 bits of an address.
const BLOCKS: usize = 1 << 18;
/// Slots of a block, one for each /24.
const SLOTS: usize = 64;
/// In a slot: the rest is the index of a `Sub`.
const SUB: u32 = 1 << 31;
/// Lookups that are in flight together in a batch.
const LANES: usize = 64;
/// The same for what is left over.
const FEW: usize = 8;

/// The 64 /24s of one /18.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(16))]
struct Block {
    /// Where the slots' value changes.
    runs: u64,
    /// Where the runs' values begin; 0 when no route is longer than the cover.
    slots: u32,
    /// The longest route of at most 18 bits here, in stored form.
    cover: u32,
}

/// The 256 addresses of a /24 that has longer routes.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(64))]
struct Sub {
    runs: [u64; 4],
    /// Runs in the words before each.
    before: [u8; 4],
    slots: u32,
    /// What the /24's slot would be without longer routes.
    own: u32,
}

impl Sub {
    fn values(&self) -> usize {
        if self.slots == 0 {
            0
        } else {
            self.runs.iter().map(|word| word.count_ones() as usize).sum::<usize>() + 1
        }
    }
}

impl Block {
    fn values(&self) -> usize {
        if self.slots == 0 { 0 } else { self.runs.count_ones() as usize + 1 }
    }
}

/// Longest-prefix match for IPv4 addresses (host byte order).
#[derive(Clone, Debug)]
pub struct Table4 {
    blocks: Box<[Block; BLOCKS]>,
    slots: Arena<u32>,
    subs: Arena<Sub>,
    /// By block: 1 + the length of the cover's route, 0 for none.
    cover_lens: Box<[u8; BLOCKS]>,
    routes: Routes<u32>,
}

impl Default for Table4 {
    fn default() -> Self {
        Self::new()
    }
}

impl Table4 {
    /// Routes that a table may hold at most, whatever is asked for.
    pub const MAX_ROUTES: usize = 1 << 26;

    /// An empty table for up to four million routes.
    pub fn new() -> Self {
        Self::with_limit(1 << 22)
    }

    /// An empty table for up to `routes` routes (at most [`Self::MAX_ROUTES`]). The
    /// limit bounds the memory of lookups: 4 MiB, and at most 256 bytes for each route.
    pub fn with_limit(routes: usize) -> Self {
        Table4 {
            blocks: boxed(Block::default()),
            slots: Arena::new(),
            subs: Arena::new(),
            cover_lens: boxed(0),
            routes: Routes::new(routes.min(Self::MAX_ROUTES)),
        }
    }

    /// A table of `routes`, the last of equal ones winning: faster than one by one.
    pub fn from_routes(routes: impl IntoIterator<Item = Route<u32>>) -> Result<Self> {
        let mut table = Self::new();
        table.fill(routes)?;
        Ok(table)
    }

    /// Puts `routes` in the place of all there are; on an error the table is empty.
    pub fn fill(&mut self, routes: impl IntoIterator<Item = Route<u32>>) -> Result<()> {
        self.clear();
        if let Err(error) = self.routes.fill(routes) {
            self.clear();
            return Err(error);
        }
        let (mut block, mut sub) = (None, None);
        let routes: Vec<Route<u32>> = self.routes.iter().collect();
        for route in routes {
            if route.len <= 18 {
                self.cover(route);
            } else if block.replace(route.prefix >> 14) != Some(route.prefix >> 14) {
                self.paint_block(route.prefix);
            }
            if route.len > 24 && sub.replace(route.prefix >> 8) != Some(route.prefix >> 8) {
                self.paint_sub(route.prefix);
            }
        }
        self.compact();
        Ok(())
    }

    /// Removes all routes.
    pub fn clear(&mut self) {
        *self = Self::with_limit(self.routes.limit());
    }

    /// Adds the route or replaces its value; the old value if there was one.
    pub fn insert(&mut self, prefix: u32, len: u8, value: u32) -> Result<Option<u32>> {
        let route = Route { prefix, len, value };
        self.routes.admits(route)?;
        let old = self.routes.insert(route);
        if old != Some(value) {
            self.change(prefix, len, Some(value));
        }
        Ok(old)
    }

    /// Replaces the value of a route that is there; `None` when it is not.
    pub fn replace(&mut self, prefix: u32, len: u8, value: u32) -> Result<Option<u32>> {
        if self.get(prefix, len).is_none() {
            return Routes::check(prefix, len).map(|()| None);
        }
        self.insert(prefix, len, value)
    }

    /// Removes the route; its value if it was there.
    pub fn remove(&mut self, prefix: u32, len: u8) -> Result<Option<u32>> {
        Routes::check(prefix, len)?;
        let old = self.routes.remove(prefix, len);
        if old.is_some() {
            self.change(prefix, len, None);
        }
        Ok(old)
    }

    /// The value of exactly this route.
    pub fn get(&self, prefix: u32, len: u8) -> Option<u32> {
        self.routes.value(prefix, len)
    }

    /// The route that decides about `addr`. For people: [`Self::lookup`] is faster.
    pub fn route(&self, addr: u32) -> Option<Route<u32>> {
        self.routes.covering(addr, 32)
    }

    /// All routes, by prefix and then length: one comes before those inside it.
    pub fn iter(&self) -> impl Iterator<Item = Route<u32>> + '_ {
        self.routes.iter()
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the table takes.
    pub fn memory(&self) -> Memory {
        let blocks = BLOCKS * size_of::<Block>();
        Memory {
            lookup: blocks + self.slots.bytes() + self.subs.bytes(),
            routes: BLOCKS + self.routes.bytes(),
        }
    }

    /// The value of the longest route that covers `addr`.
    #[inline]
    pub fn lookup(&self, addr: u32) -> Option<u32> {
        let block = &self.blocks[(addr >> 14) as usize];
        let slot = *self.slots.at(block.slots as usize + rank(block.runs, (addr >> 8) as usize & 63));
        value(self.settle(slot, block.cover, addr))
    }

    /// Looks up `addrs`, [`MISS`] standing for no route. Many at a time are several
    /// times as fast as one by one, because their memory accesses overlap.
    ///
    /// # Panics
    /// When `values` is shorter than `addrs`.
    pub fn lookup_batch(&self, addrs: &[u32], values: &mut [u32]) {
        let (rows, addrs) = addrs.as_chunks::<LANES>();
        let (row_values, values) = values[..rows.len() * LANES + addrs.len()].as_chunks_mut::<LANES>();
        for (addrs, values) in rows.iter().zip(row_values) {
            self.lookup_row(addrs, values);
        }
        let (rows, addrs) = addrs.as_chunks::<FEW>();
        let (row_values, values) = values.as_chunks_mut::<FEW>();
        for (addrs, values) in rows.iter().zip(row_values) {
            self.lookup_row(addrs, values);
        }
        for (&addr, value) in addrs.iter().zip(values) {
            *value = self.lookup(addr).unwrap_or(MISS);
        }
    }

    /// Each loop's accesses depend on nothing in the same loop, so they overlap.
    #[inline(always)]
    fn lookup_row<const LANES: usize>(&self, addrs: &[u32; LANES], values: &mut [u32; LANES]) {
        // The steps proper are too long for many to be in flight: this fetches the blocks.
        let mut touched = 0;
        for addr in addrs {
            touched |= self.blocks[(addr >> 14) as usize].slots;
        }
        black_box(touched);
        let mut covers = [0; LANES];
        let mut at = [0; LANES];
        for lane in 0..LANES {
            let block = &self.blocks[(addrs[lane] >> 14) as usize];
            covers[lane] = block.cover;
            at[lane] = block.slots + rank(block.runs, (addrs[lane] >> 8) as usize & 63) as u32;
        }
        let slots = self.slots.items();
        let mut any = 0;
        for lane in 0..LANES {
            let slot = slots[at[lane] as usize];
            any |= slot;
            // Which of the two is as good as random: a branch would undo the overlap.
            values[lane] = select_unpredictable(slot == 0, covers[lane], slot).wrapping_sub(1);
        }
        if any & SUB != 0 {
            for lane in 0..LANES {
                let slot = values[lane].wrapping_add(1);
                values[lane] = self.settle(slot, covers[lane], addrs[lane]).wrapping_sub(1);
            }
        }
    }

    /// What a slot comes to, in stored form.
    #[inline(always)]
    fn settle(&self, slot: u32, cover: u32, addr: u32) -> u32 {
        let slot = if slot & SUB == 0 { slot } else { self.lookup_sub(slot, addr) };
        if slot == 0 { cover } else { slot }
    }

    fn lookup_sub(&self, slot: u32, addr: u32) -> u32 {
        let sub = self.subs.at((slot & !SUB) as usize);
        let (word, at) = (addr as usize >> 6 & 3, addr as usize & 63);
        let slot = *self.slots.at(sub.slots as usize + sub.before[word] as usize + rank(sub.runs[word], at));
        if slot == 0 { sub.own } else { slot }
    }

    /// Follows a change of `routes`.
    fn change(&mut self, prefix: u32, len: u8, value: Option<u32>) {
        match value {
            Some(value) if len <= 18 => self.cover(Route { prefix, len, value }),
            None if len <= 18 => self.uncover(prefix, len),
            _ => {
                let left = self.paint_block(prefix);
                if len > 24 && left {
                    self.paint_sub(prefix);
                }
            }
        }
        if self.slots.wasteful() {
            self.compact();
        }
    }

    /// The blocks that a route of at most 18 bits covers.
    fn blocks_of(prefix: u32, len: u8) -> std::ops::Range<usize> {
        let first = (prefix >> 14) as usize;
        first..first + (1 << (18 - len))
    }

    fn cover(&mut self, route: Route<u32>) {
        let blocks = Self::blocks_of(route.prefix, route.len);
        for (len, block) in self.cover_lens[blocks.clone()].iter_mut().zip(&mut self.blocks[blocks]) {
            if *len <= route.len + 1 {
                *len = route.len + 1;
                block.cover = stored(route.value);
            }
        }
    }

    /// Gives what the removed route covered to the next shorter one.
    fn uncover(&mut self, prefix: u32, len: u8) {
        let heir = len.checked_sub(1).and_then(|len| self.routes.covering(prefix, len));
        let (heir_len, heir) = heir.map_or((0, 0), |heir| (heir.len + 1, stored(heir.value)));
        let blocks = Self::blocks_of(prefix, len);
        for (cover_len, block) in self.cover_lens[blocks.clone()].iter_mut().zip(&mut self.blocks[blocks]) {
            if *cover_len == len + 1 {
                *cover_len = heir_len;
                block.cover = heir;
            }
        }
    }

    /// Makes the block of `addr` anew from its routes of 19 to 24 bits, and makes or
    /// drops the `Sub` of each /24; a new one is still to be painted. Whether `addr`'s
    /// /24 has one.
    fn paint_block(&mut self, addr: u32) -> bool {
        let start = addr.network(18);
        let mut block = self.blocks[(addr >> 14) as usize];
        let (mut slots, mut deep) = ([0; SLOTS], 0u64);
        self.routes.paint(start, 18, 6, &mut slots, |slot| deep |= 1 << slot);
        for (n, slot) in slots.iter_mut().enumerate() {
            let old = *self.slots.at(block.slots as usize + rank(block.runs, n));
            match (old & SUB != 0, deep >> n & 1 != 0) {
                (false, false) => {}
                (true, false) => self.drop_sub(old & !SUB),
                (true, true) => {
                    self.subs.at_mut(old & !SUB).own = *slot;
                    *slot = old;
                }
                (false, true) => *slot = SUB | self.subs.put(&[Sub { own: *slot, ..Sub::default() }]),
            }
        }
        let ([runs], values) = encode(&mut slots);
        block.slots = self.slots.replace(block.slots, block.values(), &slots[..values]);
        block.runs = runs;
        self.blocks[(addr >> 14) as usize] = block;
        deep >> (addr >> 8 & 63) & 1 != 0
    }

    fn drop_sub(&mut self, index: u32) {
        let sub = *self.subs.at(index as usize);
        self.slots.release(sub.slots, sub.values());
        self.subs.release(index, 1);
    }

    /// Makes the `Sub` of `addr` anew from its routes of 25 to 32 bits.
    fn paint_sub(&mut self, addr: u32) {
        let block = self.blocks[(addr >> 14) as usize];
        let index = *self.slots.at(block.slots as usize + rank(block.runs, (addr >> 8) as usize & 63)) & !SUB;
        let mut slots = [0; 256];
        self.routes.paint(addr.network(24), 24, 8, &mut slots, |_| {});
        let (runs, values) = encode(&mut slots);
        let mut sub = *self.subs.at(index as usize);
        sub.slots = self.slots.replace(sub.slots, sub.values(), &slots[..values]);
        sub.runs = runs;
        for word in 1..4 {
            sub.before[word] = sub.before[word - 1] + runs[word - 1].count_ones() as u8;
        }
        *self.subs.at_mut(index) = sub;
    }

    /// Copies the slots that are in use together.
    fn compact(&mut self) {
        let mut next = self.slots.successor();
        for block in self.blocks.iter_mut().filter(|block| block.slots != 0) {
            let values = self.slots.group(block.slots, block.values());
            for slot in values.iter().filter(|&&slot| slot & SUB != 0) {
                let sub = self.subs.at_mut(slot & !SUB);
                sub.slots = next.put(self.slots.group(sub.slots, sub.values()));
            }
            block.slots = next.put(values);
        }
        self.slots = next;
    }
}

/// An array too large for the stack.
fn boxed<T: Clone, const N: usize>(item: T) -> Box<[T; N]> {
    vec![item; N].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("the vector has N items"))
}
