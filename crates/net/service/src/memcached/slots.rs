//! Items of one shard: a hash table that grows bucket by bucket (linear hashing), so that no
//! insertion waits for a whole table to be moved, and a list in the order of use. Both are
//! numbers in one array of slots, which grows by pages.

/// The number of no slot.
pub const NONE: u32 = u32::MAX;

/// Slots in a page, as a power of two.
const PAGE_BITS: u32 = 10;
/// Buckets of an empty table.
const BUCKETS: u32 = 64;
/// What an item takes beside its key and value: its slot, a bucket, and what the allocator
/// keeps of its bytes.
pub const OVERHEAD: usize = size_of::<Slot>() + size_of::<u32>() + 16;

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The key, and behind it the value.
    pub bytes: Box<[u8]>,
    /// The number by which clients notice a change.
    pub cas: u64,
    /// Counted up with each item that is stored, for flushing.
    pub sequence: u64,
    /// When it expires, in seconds of Unix time; `i64::MAX` for never.
    pub expires_s: i64,
    /// When it was used last, in seconds of Unix time.
    pub used_s: i64,
    /// The client's number.
    pub flags: u32,
    /// Answers that are being sent out of it.
    pub pins: u32,
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
    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.key_len)).unwrap_or_default()
    }

    /// The value.
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
    /// Neighbours in the order of use.
    newer: u32,
    older: u32,
}

/// All items of a shard.
#[derive(Debug)]
pub struct Slots {
    pages: Vec<Vec<Slot>>,
    /// The first slots of buckets.
    buckets: Vec<u32>,
    free: u32,
    /// Items that can be found.
    len: usize,
    newest: u32,
    oldest: u32,
}

impl Slots {
    pub fn new() -> Slots {
        let buckets = vec![NONE; BUCKETS as usize];
        Slots { pages: Vec::new(), buckets, free: NONE, len: 0, newest: NONE, oldest: NONE }
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

    /// An item.
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
        if let Some(next) = self.slot(self.free).map(|slot| slot.next) {
            return std::mem::replace(&mut self.free, next);
        }
        if self.pages.last().is_none_or(|page| page.len() == page.capacity()) {
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

    /// Takes an item out of the table and of the order. Its slot stays until
    /// [`free`](Slots::free).
    pub fn unlink(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (hash, next) = (slot.hash, slot.next);
        let bucket = self.bucket(hash);
        let mut before = self.buckets[bucket];
        if before == at {
            self.buckets[bucket] = next;
        } else {
            while let Some(slot) = self.slot_mut(before) {
                if slot.next == at {
                    slot.next = next;
                    break;
                }
                before = slot.next;
            }
        }
        self.leave_order(at);
        self.len -= 1;
    }

    /// Gives the slot of an item free that was taken out; the item.
    pub fn free(&mut self, at: u32) -> Option<Item> {
        let free = self.free;
        let slot = self.slot_mut(at)?;
        let item = slot.item.take()?;
        slot.next = free;
        self.free = at;
        Some(item)
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
