//! What a cache holds, within a limit of memory: the items that were used longest ago make
//! room for new ones.
//!
//! All cores of a server share one store, for a client may ask for a key on any connection,
//! and the device deals those out. It is made of shards by the keys' hashes, each behind a
//! lock that is held for one request; a server of one core has one shard, whose lock nobody
//! else takes. The hash has a random key: which keys share a bucket cannot be predicted.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::slots::{Item, NONE, OVERHEAD, Slots};
use super::stats::Stats;

/// The longest key in bytes.
pub const MAX_KEY: usize = 250;
/// The least memory that a client may leave a cache, in bytes, as memcached has it.
const LEAST_MEMORY: usize = 8 << 20;
/// Slots that are looked at under one lock when all items are listed.
const VISITED: u32 = 16;
/// Items that one request takes out at most of those that are beyond a memory that was bounded
/// anew.
const EVICTED: usize = 64;
/// Never, as a time at which items expire.
pub const NEVER_S: i64 = i64::MAX;

/// The sizes of a cache.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of all items, with what each takes beside its key and value.
    pub memory: usize,
    /// Bytes of the largest value.
    pub value: usize,
    /// Threads that share the cache.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { memory: 64 << 20, value: 1 << 20, threads: 1 }
    }
}

/// There is no room for an item, and none can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

/// A cache, which its threads share.
#[derive(Debug, Clone)]
pub struct Store {
    shards: Arc<[Mutex<Shard>]>,
    random: RandomState,
    limits: Limits,
}

/// Where a key belongs.
#[derive(Debug, Clone, Copy)]
pub struct KeyHash {
    /// The number of the shard.
    pub shard: u32,
    /// The hash by which its table knows the key.
    pub hash: u32,
}

/// An item that an answer is being sent out of: it stays until it is unpinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    shard: u32,
    number: u32,
}

impl Store {
    /// An empty cache.
    pub fn new(limits: Limits) -> Store {
        // A shard has room for several of the largest values, or there is one shard only.
        let most = limits.memory / (8 * (limits.value + OVERHEAD + MAX_KEY));
        let wanted = if limits.threads > 1 { 4 * limits.threads.next_power_of_two() } else { 1 };
        let count = wanted.min(most.max(1));
        let shard = |_| Mutex::new(Shard::new(limits.memory / count, limits.value));
        Store { shards: (0..count).map(shard).collect(), random: RandomState::new(), limits }
    }

    /// How large items and the whole cache may be.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The place of a key, and its shard.
    #[inline]
    pub fn shard(&self, key: &[u8]) -> (MutexGuard<'_, Shard>, KeyHash) {
        let hash = self.random.hash_one(key);
        // The shard's number comes of bits that its table does not look at.
        let shard = ((hash >> 32) as usize) % self.shards.len();
        (lock(&self.shards[shard]), KeyHash { shard: shard as u32, hash: hash as u32 })
    }

    /// Makes room in a shard for so many bytes of a value that is on its way.
    ///
    /// # Errors
    /// An error when values on their way and in answers take as much as they may, or when
    /// not enough could go.
    pub fn reserve(&self, shard: u32, bytes: usize, now_s: i64) -> Result<(), NoMemory> {
        lock(self.shards.get(shard as usize).ok_or(NoMemory)?).reserve_for_value(bytes, now_s)
    }

    /// Gives room back that was made for a value.
    pub fn release(&self, shard: u32, bytes: usize) {
        if let Some(shard) = self.shards.get(shard as usize) {
            let mut shard = lock(shard);
            shard.used = shard.used.saturating_sub(bytes);
            shard.coming = shard.coming.saturating_sub(bytes);
        }
    }

    /// Gives a pinned item's value to `look`.
    pub fn with_pinned<R>(&self, pin: Pin, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let shard = lock(self.shards.get(pin.shard as usize)?);
        let at = shard.slots.pinned(pin.number)?;
        shard.slots.get(at).map(|item| look(item.value()))
    }

    /// An answer has been sent.
    pub fn unpin(&self, pin: Pin) {
        if let Some(shard) = self.shards.get(pin.shard as usize) {
            lock(shard).unpin(pin.number);
        }
    }

    /// All items that are stored by then are gone at that time, or at once for `None`.
    pub fn flush(&self, at_s: Option<i64>) {
        for shard in self.shards.iter() {
            let mut shard = lock(shard);
            match at_s {
                Some(_) => shard.flush_s = at_s,
                None => shard.flush(),
            }
        }
    }

    /// What all shards counted and hold.
    pub fn totals(&self) -> Totals {
        let mut all = Totals { oldest_s: i64::MAX, ..Totals::default() };
        for shard in self.shards.iter() {
            let shard = lock(shard);
            all.stats.add(&shard.stats);
            all.items += shard.slots.len();
            all.bytes += shard.used;
            all.memory += shard.memory;
            all.buckets += shard.slots.buckets();
            all.evicted_s = all.evicted_s.max(shard.evicted_s);
            let oldest = shard.slots.get(shard.slots.oldest());
            all.oldest_s = all.oldest_s.min(oldest.map_or(i64::MAX, |item| item.used_s));
        }
        all
    }

    /// Bounds the memory of all items anew. Those that are beyond it go as others are stored.
    ///
    /// # Errors
    /// The least or the most that it may be, in bytes: twice the largest value for each shard,
    /// and what the cache was made with.
    pub fn set_memory(&self, bytes: usize) -> Result<(), (usize, usize)> {
        let count = self.shards.len();
        let least = count * 2 * (self.limits.value + OVERHEAD + MAX_KEY);
        let least = least.max(LEAST_MEMORY).min(self.limits.memory);
        if !(least..=self.limits.memory).contains(&bytes) {
            return Err((least, self.limits.memory));
        }
        self.shards.iter().for_each(|shard| lock(shard).set_memory(bytes / count, self.limits.value));
        Ok(())
    }

    /// Shows the items that are there in a few slots of a shard, from a slot on; the slot behind
    /// those, or `None` at the end. One that moves meanwhile may be shown twice, or not.
    pub fn visit(&self, shard: u32, from: u32, now_s: i64, look: impl FnMut(&Item)) -> Option<u32> {
        let mut shard = lock(self.shards.get(shard as usize)?);
        shard.flush_if_due(now_s);
        let count = shard.slots.slots() as u32;
        let end = from.saturating_add(VISITED).min(count);
        let items = (from..end).filter_map(|at| shard.slots.get(at));
        items.filter(|item| shard.is_live(item, now_s)).for_each(look);
        (end < count).then_some(end)
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.shards.len() as u32
    }

    /// Counts from zero again.
    pub fn reset_stats(&self) {
        for shard in self.shards.iter() {
            let mut shard = lock(shard);
            (shard.stats, shard.evicted_s) = (Stats::default(), 0);
        }
    }
}

/// What all shards of a cache counted and hold.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// What was counted.
    pub stats: Stats,
    /// How many items there are.
    pub items: usize,
    /// Bytes of items and of values that are on their way.
    pub bytes: usize,
    /// Up to how many there may be.
    pub memory: usize,
    /// Buckets of the hash tables.
    pub buckets: usize,
    /// When the item was used last that was not used for longest, in seconds of Unix time.
    pub oldest_s: i64,
    /// For how many seconds the item had not been used that made room last; of all shards the
    /// longest time.
    pub evicted_s: i64,
}

impl Totals {
    /// For how many seconds the item has not been used that was not used for longest.
    pub fn age_s(&self, now_s: i64) -> u64 {
        if self.items == 0 { 0 } else { now_s.saturating_sub(self.oldest_s).max(0) as u64 }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part of a cache.
#[derive(Debug)]
pub struct Shard {
    slots: Slots,
    /// What was counted; requests count here as well.
    pub stats: Stats,
    /// Bytes of items and of values that are on their way, and how many there may be.
    used: usize,
    memory: usize,
    /// Those of values that are on their way, which no eviction gives back, and how many there
    /// may be.
    coming: usize,
    coming_limit: usize,
    /// Those of items that answers are being sent out of, likewise.
    pinned: usize,
    pinned_limit: usize,
    /// For how many seconds the item had not been used that made room last.
    evicted_s: i64,
    /// The number of the next item.
    sequence: u64,
    /// Items before this number are gone.
    flushed: u64,
    /// When all items go that there are then, if that was asked for.
    flush_s: Option<i64>,
}

/// An item that is to be stored.
#[derive(Debug)]
pub struct New<'a> {
    /// The key; of a binary one, its bytes.
    pub key: &'a [u8],
    /// Whether it is binary, and goes to clients in base64.
    pub is_binary: bool,
    /// Parts of the value.
    pub value: [&'a [u8]; 2],
    /// The client's number.
    pub flags: u32,
    /// When it expires, in seconds of Unix time.
    pub expires_s: i64,
    /// The number by which clients notice a change, if it shall have that one.
    pub cas: Option<u64>,
}

impl Shard {
    /// An empty shard of so much memory, and so large values.
    fn new(memory: usize, value: usize) -> Shard {
        let mut shard = Shard {
            slots: Slots::new(),
            stats: Stats::default(),
            used: 0,
            memory: 0,
            coming: 0,
            coming_limit: 0,
            pinned: 0,
            pinned_limit: 0,
            evicted_s: 0,
            sequence: 1,
            flushed: 1,
            flush_s: None,
        };
        shard.set_memory(memory, value);
        shard
    }

    fn set_memory(&mut self, memory: usize, value: usize) {
        self.memory = memory;
        // A half stays for others, but one value may always be on its way.
        self.coming_limit = (memory / 2).max(value.min(memory));
        self.pinned_limit = memory / 4;
    }

    fn flush(&mut self) {
        (self.flushed, self.flush_s) = (self.sequence, None);
    }

    /// Flushes when the time has come that a client gave: in front of whatever looks at items or
    /// stores one.
    fn flush_if_due(&mut self, now_s: i64) {
        if self.flush_s.is_some_and(|at_s| at_s <= now_s) {
            self.flush();
        }
    }

    /// Whether an item is there for clients.
    fn is_live(&self, item: &Item, now_s: i64) -> bool {
        item.expires_s > now_s && item.sequence >= self.flushed
    }

    /// The live item of a key; one that is expired goes.
    #[inline]
    pub fn find(&mut self, hash: u32, key: &[u8], now_s: i64) -> Option<u32> {
        self.flush_if_due(now_s);
        let at = self.slots.find(hash, key)?;
        let item = self.slots.get(at)?;
        if self.is_live(item, now_s) {
            return Some(at);
        }
        match item.sequence < self.flushed {
            true => self.stats.get_flushed += 1,
            false => self.stats.get_expired += 1,
        }
        self.remove(at);
        None
    }

    /// An item that was found.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&Item> {
        self.slots.get(at)
    }

    /// An item that was found, to change all but its bytes' number.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut Item> {
        self.slots.get_mut(at)
    }

    /// An item was fetched.
    #[inline]
    pub fn renew(&mut self, at: u32, now_s: i64) {
        self.move_up(at, now_s);
        if let Some(item) = self.slots.get_mut(at) {
            item.is_fetched = true;
        }
    }

    /// An item was used, and is the last to make room.
    #[inline]
    pub fn move_up(&mut self, at: u32, now_s: i64) {
        self.slots.renew(at);
        if let Some(item) = self.slots.get_mut(at) {
            item.used_s = now_s;
        }
    }

    /// A number for a change of an item.
    pub fn next_cas(&mut self) -> u64 {
        let next = self.sequence;
        self.sequence += 1;
        next
    }

    /// Makes room for so many bytes more of a value that is on its way.
    fn reserve_for_value(&mut self, bytes: usize, now_s: i64) -> Result<(), NoMemory> {
        if self.coming + bytes > self.coming_limit {
            return Err(NoMemory);
        }
        self.reserve(bytes, now_s)?;
        self.coming += bytes;
        Ok(())
    }

    /// Makes room for so many bytes more.
    ///
    /// # Errors
    /// [`NoMemory`] when not enough could go; then nothing has gone.
    pub fn reserve(&mut self, bytes: usize, now_s: i64) -> Result<(), NoMemory> {
        if self.coming + self.pinned + bytes > self.memory {
            return Err(NoMemory);
        }
        self.flush_if_due(now_s);
        let (before, mut count) = (self.used, 0);
        while self.used + bytes > self.memory && (count < EVICTED || self.used + bytes > before) {
            count += 1;
            let oldest = self.slots.oldest();
            let Some(item) = self.slots.get(oldest) else { return Err(NoMemory) };
            match self.is_live(item, now_s) {
                true => {
                    self.stats.evictions += 1;
                    self.stats.evicted_nonzero += u64::from(item.expires_s != NEVER_S);
                    self.stats.evicted_unfetched += u64::from(!item.is_fetched);
                    self.evicted_s = now_s - item.used_s;
                }
                false => {
                    self.stats.reclaimed += 1;
                    self.stats.expired_unfetched += u64::from(!item.is_fetched);
                }
            }
            self.remove(oldest);
        }
        self.used += bytes;
        Ok(())
    }

    /// Keeps an item that was found for an answer, until it is unpinned. `None` when such items
    /// take a quarter of the memory already: clients that take their answers slowly would leave
    /// no room for others.
    pub fn pin(&mut self, place: KeyHash, at: u32) -> Option<Pin> {
        let item = self.slots.get(at)?;
        let more = if item.pin == NONE { item.size() } else { 0 };
        if more > 0 && self.pinned > 0 && self.pinned + more > self.pinned_limit {
            return None;
        }
        self.pinned += more;
        Some(Pin { shard: place.shard, number: self.slots.pin(at)? })
    }

    /// Takes an item out. Others may move.
    pub fn remove(&mut self, at: u32) {
        self.slots.unlink(at);
        // The last answer that is sent out of it drops it.
        if self.slots.get(at).is_some_and(|item| item.pin == NONE) {
            self.drop_slot(at);
        }
    }

    fn drop_slot(&mut self, at: u32) {
        if let Some(item) = self.slots.free(at) {
            self.used = self.used.saturating_sub(item.size());
        }
    }

    fn unpin(&mut self, pin: u32) {
        let Some(at) = self.slots.unpin(pin) else { return };
        let Some(item) = self.slots.get(at) else { return };
        self.pinned = self.pinned.saturating_sub(item.size());
        if item.sequence == 0 {
            self.drop_slot(at);
        }
    }

    /// Stores an item in place of the one of the same key, if there is one; where it is.
    ///
    /// # Errors
    /// [`NoMemory`], and the item of that key stays.
    pub fn store(&mut self, hash: u32, new: &New, now_s: i64) -> Result<u32, NoMemory> {
        let len = new.key.len() + new.value[0].len() + new.value[1].len();
        self.reserve(OVERHEAD + len, now_s)?;
        let mut bytes = Vec::with_capacity(len);
        [new.key, new.value[0], new.value[1]].into_iter().for_each(|part| bytes.extend_from_slice(part));
        if let Some(old) = self.slots.find(hash, new.key) {
            self.remove(old);
        }
        let sequence = self.next_cas();
        self.stats.total_items += 1;
        let item = Item {
            bytes: bytes.into(),
            cas: new.cas.unwrap_or(sequence),
            sequence,
            expires_s: new.expires_s,
            used_s: now_s,
            flags: new.flags,
            pin: NONE,
            key_len: new.key.len() as u8,
            is_fetched: false,
            is_stale: false,
            is_won: false,
            is_binary: new.is_binary,
        };
        Ok(self.slots.insert(hash, item))
    }
}

/// Seconds up to which a time is counted from now; a larger one is Unix time.
const RELATIVE_S: i64 = 60 * 60 * 24 * 30;

/// When an item expires that is given a time as clients do, in seconds of Unix time.
pub fn expiry(given: i64, now_s: i64) -> i64 {
    match given {
        0 => NEVER_S,
        ..0 => now_s - 1,
        1..=RELATIVE_S => now_s + given,
        _ => given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_up_to_thirty_days() {
        let now = 1_700_000_000;
        assert_eq!((expiry(0, now), expiry(-1, now)), (i64::MAX, now - 1));
        assert_eq!((expiry(10, now), expiry(RELATIVE_S, now)), (now + 10, now + RELATIVE_S));
        assert_eq!(expiry(RELATIVE_S + 1, now), RELATIVE_S + 1);
    }
}
