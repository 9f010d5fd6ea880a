//! Items of one shard: a hash table that grows bucket by bucket (linear hashing), so that no
//! insertion waits for a whole table to be moved, and a list in the order of use. Both are
//! numbers in one array of slots, which grows by pages. It becomes shorter again, by items that
//! move from its end to free slots: many small items that made room for a few large ones would
//! leave as much memory in slots as they took.

/// The number of no slot.
pub const NONE: u32 = u32::MAX;

/// Slots in a page, as a power of two.
const PAGE_BITS: u32 = 10;
/// Buckets of an empty table.
const BUCKETS: u32 = 64;
/// What an item takes beside its key and value: its slot, a bucket with what the list of
/// buckets has in advance, and what the allocator keeps of its bytes.
pub const OVERHEAD: usize = size_of::<Slot>() + 2 * size_of::<u32>() + 16;
/// Slots that may be free beside one of sixteen.
const SPARE: usize = 8;

/// An item of the cache: a key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The key, and behind it the value.
    pub bytes: Box<[u8]>,
    /// The number by which clients notice a change.
    pub cas: u64,
    /// Counted up with each item that is stored, for flushing; zero once the item was taken
    /// out, and is only kept for answers that are being sent out of it.
    pub sequence: u64,
    /// When it expires, in seconds of Unix time; `i64::MAX` for never.
    pub expires_s: i64,
    /// When it was used last, in seconds of Unix time.
    pub used_s: i64,
    /// The client's number.
    pub flags: u32,
    /// Its place among those that answers are being sent out of, or [`NONE`].
    pub pin: u32,
    /// Bytes of the key.
    pub key_len: u8,
    /// Whether it was fetched since it was stored.
    pub is_fetched: bool,
    /// Whether it was marked as stale.
    pub is_stale: bool,
    /// Whether a client was told to renew it.
    pub is_won: bool,
    /// Whether the key is binary, and goes to clients in base64.
    pub is_binary: bool,
}

impl Item {
    /// The key as it is compared; of a binary one, its bytes.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.key_len)).unwrap_or_default()
    }

    /// The value's bytes, all behind the key.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.bytes.get(usize::from(self.key_len)..).unwrap_or_default()
    }

    /// What it is counted as.
    pub fn size(&self) -> usize {
        OVERHEAD + self.bytes.len()
    }
}

/// An item or a free place.
#[derive(Debug)]
struct Slot {
    item: Option<Item>,
    hash: u32,
    /// The next slot of the bucket, or of the free ones.
    next: u32,
    /// Neighbours in the order of use; of a free slot, the free one in front of it.
    newer: u32,
    older: u32,
}

/// Where an item is that answers are being sent out of, which may move.
#[derive(Debug)]
struct Pinned {
    at: u32,
    /// How many answers; with none the place is free.
    answers: u32,
}

/// All items of a shard.
#[derive(Debug)]
pub struct Slots {
    pages: Vec<Vec<Slot>>,
    /// The first slots of buckets.
    buckets: Vec<u32>,
    /// The first free slot, and how many there are.
    free: u32,
    idle: usize,
    pinned: Vec<Pinned>,
    /// Free places among the pinned.
    unpinned: Vec<u32>,
    /// Items that can be found.
    len: usize,
    newest: u32,
    oldest: u32,
}

impl Slots {
    pub fn new() -> Slots {
        let buckets = vec![NONE; BUCKETS as usize];
        let (pinned, unpinned) = (Vec::new(), Vec::new());
        let (free, newest, oldest) = (NONE, NONE, NONE);
        Slots { pages: Vec::new(), buckets, free, idle: 0, pinned, unpinned, len: 0, newest, oldest }
    }

    /// Items that can be found.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The item that was used longest ago.
    pub fn oldest(&self) -> u32 {
        self.oldest
    }

    #[inline]
    fn slot(&self, at: u32) -> Option<&Slot> {
        self.pages.get((at >> PAGE_BITS) as usize)?.get((at & ((1 << PAGE_BITS) - 1)) as usize)
    }

    #[inline]
    fn slot_mut(&mut self, at: u32) -> Option<&mut Slot> {
        self.pages.get_mut((at >> PAGE_BITS) as usize)?.get_mut((at & ((1 << PAGE_BITS) - 1)) as usize)
    }

    /// The item at a place, unless the place is free.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&Item> {
        self.slot(at)?.item.as_ref()
    }

    /// An item, to change it.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut Item> {
        self.slot_mut(at)?.item.as_mut()
    }

    /// The bucket of a hash. Of `n` buckets, with `2^k <= n < 2^(k+1)`, those below `n - 2^k`
    /// have been split: their hashes count by one bit more.
    #[inline]
    fn bucket(&self, hash: u32) -> usize {
        let count = self.buckets.len() as u32;
        let power = 1 << count.ilog2();
        let wide = hash & (2 * power - 1);
        (if wide < count { wide } else { hash & (power - 1) }) as usize
    }

    /// The item of a key.
    #[inline]
    pub fn find(&self, hash: u32, key: &[u8]) -> Option<u32> {
        let mut at = self.buckets[self.bucket(hash)];
        while let Some(slot) = self.slot(at) {
            if slot.hash == hash && slot.item.as_ref().is_some_and(|item| item.key() == key) {
                return Some(at);
            }
            at = slot.next;
        }
        None
    }

    /// Puts an item in, as the one that was used last; where it is.
    pub fn insert(&mut self, hash: u32, item: Item) -> u32 {
        self.len += 1;
        let at = self.take_free();
        let bucket = self.bucket(hash);
        let next = std::mem::replace(&mut self.buckets[bucket], at);
        if let Some(slot) = self.slot_mut(at) {
            *slot = Slot { item: Some(item), hash, next, newer: NONE, older: NONE };
        }
        self.link(at);
        if self.len > self.buckets.len() {
            self.split();
        }
        at
    }

    fn take_free(&mut self) -> u32 {
        if self.free != NONE {
            let at = self.free;
            self.leave_free(at);
            return at;
        }
        if self.pages.last().is_none_or(|page| page.len() >> PAGE_BITS > 0) {
            self.pages.push(Vec::with_capacity(1 << PAGE_BITS));
        }
        let number = self.pages.len() as u32 - 1;
        let page = &mut self.pages[number as usize];
        page.push(Slot { item: None, hash: 0, next: NONE, newer: NONE, older: NONE });
        (number << PAGE_BITS) + page.len() as u32 - 1
    }

    /// Adds a bucket, and gives it what belongs to it of the one that it is split off.
    fn split(&mut self) {
        let new = self.buckets.len() as u32;
        let old = new - (1 << new.ilog2());
        self.buckets.push(NONE);
        let mut at = std::mem::replace(&mut self.buckets[old as usize], NONE);
        while let Some(slot) = self.slot(at) {
            let (hash, next) = (slot.hash, slot.next);
            let bucket = self.bucket(hash);
            let before = std::mem::replace(&mut self.buckets[bucket], at);
            if let Some(slot) = self.slot_mut(at) {
                slot.next = before;
            }
            at = next;
        }
    }

    /// Has what leads to a slot in the bucket of a hash lead to another one.
    fn follow(&mut self, hash: u32, from: u32, to: u32) {
        let bucket = self.bucket(hash);
        if self.buckets[bucket] == from {
            self.buckets[bucket] = to;
            return;
        }
        let mut before = self.buckets[bucket];
        while let Some(slot) = self.slot_mut(before) {
            if slot.next == from {
                slot.next = to;
                return;
            }
            before = slot.next;
        }
    }

    /// Takes an item out of the table and of the order. Its slot stays until
    /// [`free`](Slots::free).
    pub fn unlink(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (hash, next) = (slot.hash, slot.next);
        self.follow(hash, at, next);
        self.leave_order(at);
        self.len -= 1;
        self.get_mut(at).into_iter().for_each(|item| item.sequence = 0);
    }

    /// Gives the slot of an item free that was taken out; the item. Other items may move.
    pub fn free(&mut self, at: u32) -> Option<Item> {
        let free = self.free;
        let slot = self.slot_mut(at)?;
        let item = slot.item.take()?;
        (slot.next, slot.newer) = (free, NONE);
        self.slot_mut(free).into_iter().for_each(|next| next.newer = at);
        (self.free, self.idle) = (at, self.idle + 1);
        // Twice, for with each slot less fewer may be free.
        (0..2).for_each(|_| self.shrink());
        Some(item)
    }

    /// Buckets of the hash table.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Slots, free ones among them.
    pub fn slots(&self) -> usize {
        let last = self.pages.last().map_or(0, Vec::len);
        (self.pages.len().saturating_sub(1) << PAGE_BITS) + last
    }

    /// Gives the last slot back, if too many are free; what is in it moves to a free one.
    fn shrink(&mut self) {
        let count = self.slots();
        if self.idle <= count / 16 + SPARE {
            return;
        }
        let last = count as u32 - 1;
        let is_free = self.slot(last).is_some_and(|slot| slot.item.is_none());
        let hole = if is_free { last } else { self.free };
        self.leave_free(hole);
        let slot = self.pages.last_mut().and_then(Vec::pop);
        if self.pages.last().is_some_and(Vec::is_empty) {
            self.pages.pop();
        }
        if !is_free && let Some(slot) = slot {
            self.put(slot, last, hole);
        }
    }

    /// Puts a slot, which was at `from`, at `to`.
    fn put(&mut self, slot: Slot, from: u32, to: u32) {
        let Slot { hash, newer, older, .. } = slot;
        let (pin, is_linked) = slot.item.as_ref().map_or((NONE, false), |it| (it.pin, it.sequence > 0));
        if let Some(place) = self.slot_mut(to) {
            *place = slot;
        }
        self.pinned.get_mut(pin as usize).into_iter().for_each(|pinned| pinned.at = to);
        if !is_linked {
            return;
        }
        self.follow(hash, from, to);
        match self.slot_mut(newer) {
            Some(slot) => slot.older = to,
            None => self.newest = to,
        }
        match self.slot_mut(older) {
            Some(slot) => slot.newer = to,
            None => self.oldest = to,
        }
    }

    /// Takes a slot out of the list of free ones.
    fn leave_free(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (before, next) = (slot.newer, slot.next);
        match self.slot_mut(before) {
            Some(slot) => slot.next = next,
            None => self.free = next,
        }
        self.slot_mut(next).into_iter().for_each(|slot| slot.newer = before);
        self.idle -= 1;
    }

    /// Notes that an answer is being sent out of an item; by which number it is found from now
    /// on, wherever it moves.
    pub fn pin(&mut self, at: u32) -> Option<u32> {
        let pin = self.get(at)?.pin;
        if let Some(pinned) = self.pinned.get_mut(pin as usize) {
            pinned.answers += 1;
            return Some(pin);
        }
        let number = self.unpinned.pop().unwrap_or(self.pinned.len() as u32);
        let pinned = Pinned { at, answers: 1 };
        match self.pinned.get_mut(number as usize) {
            Some(place) => *place = pinned,
            None => self.pinned.push(pinned),
        }
        self.get_mut(at)?.pin = number;
        Some(number)
    }

    /// Where an item is now that an answer is being sent out of.
    pub fn pinned(&self, pin: u32) -> Option<u32> {
        self.pinned.get(pin as usize).filter(|pinned| pinned.answers > 0).map(|pinned| pinned.at)
    }

    /// Notes the end of an answer; where the item is, if it was the last one.
    pub fn unpin(&mut self, pin: u32) -> Option<u32> {
        let pinned = self.pinned.get_mut(pin as usize).filter(|pinned| pinned.answers > 0)?;
        pinned.answers -= 1;
        if pinned.answers > 0 {
            return None;
        }
        let at = pinned.at;
        self.unpinned.push(pin);
        self.get_mut(at)?.pin = NONE;
        Some(at)
    }

    fn leave_order(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (newer, older) = (slot.newer, slot.older);
        match self.slot_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slot_mut(older) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        if let Some(slot) = self.slot_mut(at) {
            (slot.newer, slot.older) = (NONE, older);
        }
        match self.slot_mut(older) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
    }

    /// The item was used.
    #[inline]
    pub fn renew(&mut self, at: u32) {
        if self.newest != at {
            self.leave_order(at);
            self.link(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: u32) -> Item {
        Item {
            bytes: key.to_le_bytes().into(),
            cas: 0,
            sequence: 1,
            expires_s: 0,
            used_s: 0,
            flags: key,
            pin: NONE,
            key_len: 4,
            is_fetched: false,
            is_stale: false,
            is_won: false,
            is_binary: false,
        }
    }

    fn hash(key: u32) -> u32 {
        key.wrapping_mul(0x9E37_79B1)
    }

    fn find(slots: &Slots, key: u32) -> Option<u32> {
        slots.find(hash(key), &key.to_le_bytes())
    }

    fn remove(slots: &mut Slots, key: u32) {
        let at = find(slots, key).expect("it is there");
        slots.unlink(at);
        assert_eq!(slots.free(at).map(|item| item.flags), Some(key));
    }

    #[test]
    fn slots_are_given_back_and_what_moves_is_found() {
        let mut slots = Slots::new();
        const COUNT: u32 = 20_000;
        (0..COUNT).for_each(|key| _ = slots.insert(hash(key), item(key)));
        // One is being sent, and taken out meanwhile.
        let last = find(&slots, COUNT - 1).expect("it is there");
        let pin = slots.pin(last).expect("it is there");
        assert_eq!(slots.pin(last), Some(pin));
        slots.unlink(last);
        // Every tenth stays.
        (0..COUNT - 1).filter(|key| key % 10 > 0).for_each(|key| remove(&mut slots, key));
        let left = COUNT as usize / 10;
        assert_eq!(slots.len(), left);
        assert!(slots.slots() <= left + left / 15 + SPARE + 1, "{} slots of {left} items", slots.slots());
        assert!(slots.pages.len() <= 3);
        assert_eq!(slots.unpin(pin), None);
        let at = slots.unpin(pin).expect("the last answer");
        assert_eq!((slots.pinned(pin), slots.free(at).map(|item| item.flags)), (None, Some(COUNT - 1)));
        // All others are found, and in the order of their use.
        for key in (0..COUNT).step_by(10) {
            assert_eq!(slots.get(slots.oldest()).map(|item| item.flags), Some(key));
            assert_eq!(find(&slots, key), Some(slots.oldest()));
            remove(&mut slots, key);
        }
        assert!(slots.len() == 0 && slots.oldest() == NONE && slots.slots() <= SPARE + 1);
        (0..COUNT).for_each(|key| _ = slots.insert(hash(key), item(key)));
        assert!((0..COUNT).all(|key| find(&slots, key).is_some()));
    }
}
