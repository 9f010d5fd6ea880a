//! IPv4: two memory accesses for all but the longest routes.
//!
//! Tests have it of addresses of 16 bits as well, whose first part is of two bits: what
//! is said of /18s here is true of /2s there, of /24s of /8s, and of 32 bits of 16.
//!
//! What is looked up is made from what is stored in `routes`; `change` keeps the
//! two equal. See the module above for the picture.

use super::arena::Arena;
use super::bits::{encode, rank};
use super::routes::{Bits, Routes, stored, value};
use super::{Address, Prefixes, Route};
use crate::scheme::{Lookup, MISS, Memory};
use std::hint::{black_box, select_unpredictable};

/// Bits of an address that choose a slot of a block, and an address of a slot.
const SLOT_BITS: u8 = 6;
const SUB_BITS: u8 = 8;
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

/// What lookups of IPv4 addresses read: a block for each first 18 bits.
#[derive(Clone, Debug)]
pub struct Lookup4<const BLOCKS: usize = { 1 << 18 }> {
    blocks: Box<[Block; BLOCKS]>,
    slots: Arena<u32>,
    subs: Arena<Sub>,
    /// By block: 1 + the length of the cover's route, 0 for none.
    cover_lens: Box<[u8; BLOCKS]>,
}

impl<const BLOCKS: usize> Prefixes for Lookup4<BLOCKS> {
    const ROOT_BITS: u8 = Self::BLOCK_LEN;
}

impl<A: Address + Into<u32>, const BLOCKS: usize> Lookup<A> for Lookup4<BLOCKS> {
    fn new() -> Self {
        Lookup4 {
            blocks: boxed(Block::default()),
            slots: Arena::new(),
            subs: Arena::new(),
            cover_lens: boxed(0),
        }
    }

    fn fill(&mut self, routes: &Routes<A>) {
        *self = <Self as Lookup<A>>::new();
        let (mut block, mut sub) = (None, None);
        for ((prefix, len), value) in routes.iter() {
            let bits = prefix.into();
            if len <= Self::BLOCK_LEN {
                self.cover(Route { prefix, len, value });
            } else if block.replace(bits >> 14) != Some(bits >> 14) {
                self.paint_block(routes, prefix);
            }
            if len > Self::SLOT_LEN && sub.replace(bits >> 8) != Some(bits >> 8) {
                self.paint_sub(routes, prefix);
            }
        }
        self.compact();
    }

    fn follow(&mut self, routes: &Routes<A>, (prefix, len): (A, u8)) {
        if len <= Self::BLOCK_LEN {
            match routes.value((prefix, len)) {
                Some(value) => self.cover(Route { prefix, len, value }),
                None => self.uncover(routes, prefix, len),
            }
        } else {
            let has_sub = self.paint_block(routes, prefix);
            if len > Self::SLOT_LEN && has_sub {
                self.paint_sub(routes, prefix);
            }
        }
        if self.slots.wasteful() {
            self.compact();
        }
    }

    fn memory(&self) -> Memory {
        let blocks = BLOCKS * size_of::<Block>();
        Memory { lookup: blocks + self.slots.bytes() + self.subs.bytes(), rules: BLOCKS }
    }

    #[inline]
    fn lookup(&self, addr: A) -> Option<u32> {
        let addr = addr.into();
        let block = &self.blocks[(addr >> 14) as usize];
        let slot = *self.slots.at(block.slots as usize + rank(block.runs, (addr >> 8) as usize & 63));
        value(self.resolve(slot, block.cover, addr))
    }

    // Inlined, the code depends on the caller's: a few instructions more for each address.
    #[inline(never)]
    fn lookup_batch(&self, addrs: &[A], values: &mut [u32]) {
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
            *value = Lookup::<A>::lookup(self, addr).unwrap_or(MISS);
        }
    }
}

impl<const BLOCKS: usize> Lookup4<BLOCKS> {
    /// Bits of a block's prefix: 18 of IPv4.
    const BLOCK_LEN: u8 = BLOCKS.ilog2() as u8;
    /// Bits of a slot's prefix: 24 of IPv4.
    const SLOT_LEN: u8 = Self::BLOCK_LEN + SLOT_BITS;

    /// Each loop's accesses depend on nothing in the same loop, so they overlap.
    #[inline(always)]
    fn lookup_row<A: Bits + Into<u32>, const LANES: usize>(
        &self,
        addrs: &[A; LANES],
        values: &mut [u32; LANES],
    ) {
        // The steps proper are too long for many to be in flight: this fetches the blocks.
        let mut touched = 0;
        for &addr in addrs {
            touched |= self.blocks[(addr.into() >> 14) as usize].slots;
        }
        black_box(touched);
        let mut covers = [0; LANES];
        let mut at = [0; LANES];
        for lane in 0..LANES {
            let addr = addrs[lane].into();
            let block = &self.blocks[(addr >> 14) as usize];
            covers[lane] = block.cover;
            at[lane] = block.slots + rank(block.runs, (addr >> 8) as usize & 63) as u32;
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
                values[lane] = self.resolve(slot, covers[lane], addrs[lane].into()).wrapping_sub(1);
            }
        }
    }

    /// What a slot comes to, in stored form.
    #[inline(always)]
    fn resolve(&self, slot: u32, cover: u32, addr: u32) -> u32 {
        let slot = if slot & SUB == 0 { slot } else { self.lookup_sub(slot, addr) };
        if slot == 0 { cover } else { slot }
    }

    fn lookup_sub(&self, slot: u32, addr: u32) -> u32 {
        let sub = self.subs.at((slot & !SUB) as usize);
        let (word, at) = (addr as usize >> 6 & 3, addr as usize & 63);
        let slot = *self.slots.at(sub.slots as usize + sub.before[word] as usize + rank(sub.runs[word], at));
        if slot == 0 { sub.own } else { slot }
    }

    /// The blocks that a route of at most 18 bits covers.
    fn blocks_of(prefix: u32, len: u8) -> std::ops::Range<usize> {
        let first = (prefix >> 14) as usize;
        first..first + (1 << (Self::BLOCK_LEN - len))
    }

    fn cover<A: Into<u32>>(&mut self, route: Route<A>) {
        let blocks = Self::blocks_of(route.prefix.into(), route.len);
        for (len, block) in self.cover_lens[blocks.clone()].iter_mut().zip(&mut self.blocks[blocks]) {
            if *len <= route.len + 1 {
                *len = route.len + 1;
                block.cover = stored(route.value);
            }
        }
    }

    /// Gives what the removed route covered to the next shorter one.
    fn uncover<A: Bits + Into<u32>>(&mut self, routes: &Routes<A>, prefix: A, len: u8) {
        let shorter = len.checked_sub(1).and_then(|len| routes.covering(prefix, len));
        let (shorter_len, cover) = shorter.map_or((0, 0), |route| (route.len + 1, stored(route.value)));
        let blocks = Self::blocks_of(prefix.into(), len);
        for (cover_len, block) in self.cover_lens[blocks.clone()].iter_mut().zip(&mut self.blocks[blocks]) {
            if *cover_len == len + 1 {
                *cover_len = shorter_len;
                block.cover = cover;
            }
        }
    }

    /// Makes the block of `prefix` anew from its routes of 19 to 24 bits, and makes or
    /// drops the `Sub` of each /24; a new one is still to be painted. Whether `prefix`'s
    /// /24 has one.
    fn paint_block<A: Bits + Into<u32>>(&mut self, routes: &Routes<A>, prefix: A) -> bool {
        let (start, addr) = (prefix.network(Self::BLOCK_LEN), prefix.into());
        let mut block = self.blocks[(addr >> 14) as usize];
        let (mut slots, mut deep) = ([0; SLOTS], 0u64);
        routes.paint(start, Self::BLOCK_LEN, SLOT_BITS, &mut slots, |slot| deep |= 1 << slot);
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

    /// Makes the `Sub` of `prefix` anew from its routes of 25 to 32 bits.
    fn paint_sub<A: Bits + Into<u32>>(&mut self, routes: &Routes<A>, prefix: A) {
        let addr = prefix.into();
        let block = self.blocks[(addr >> 14) as usize];
        let index = *self.slots.at(block.slots as usize + rank(block.runs, (addr >> 8) as usize & 63)) & !SUB;
        let mut slots = [0; 256];
        routes.paint(prefix.network(Self::SLOT_LEN), Self::SLOT_LEN, SUB_BITS, &mut slots, |_| {});
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
