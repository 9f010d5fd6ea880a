//! What requests do to a cache, whichever of the protocols they came by.

use super::slots::NONE;
use super::store::{New, NoMemory, Shard, Store};
use crate::text::{push_number, value_number};

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Whatever there was.
    Set,
    /// Only if there is none.
    Add,
    /// Only if there is one.
    Replace,
    /// Behind the value that there is.
    Append,
    /// In front of the value that there is.
    Prepend,
}

/// A request to store.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    /// How it is stored.
    pub mode: Mode,
    /// Whether the key goes to clients in base64.
    pub is_binary: bool,
    /// The client's number.
    pub flags: u32,
    /// When the item expires, in seconds of Unix time.
    pub expires_s: i64,
    /// Only if the item has this number.
    pub compare: Option<u64>,
    /// An item with a larger number is replaced nevertheless, by one that is stale and expires when
    /// that one would have.
    pub invalidates: bool,
    /// The item's new number.
    pub new_cas: Option<u64>,
    /// What is appended to no item makes one, which expires then.
    pub vivify_s: Option<i64>,
}

/// What came of a request to change an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done; the item's number and the length of its value.
    Done {
        /// The item's number.
        cas: u64,
        /// Bytes of its value.
        len: usize,
    },
    /// The condition was not met.
    NotStored,
    /// The item has another number.
    Exists,
    /// There is no item.
    NotFound,
    /// The item would be larger than items may be.
    TooLarge,
    /// There is no room.
    NoMemory,
    /// The value is no number.
    NotNumeric,
}

impl From<NoMemory> for Outcome {
    fn from(_: NoMemory) -> Outcome {
        Outcome::NoMemory
    }
}

/// What came of counting.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// The new number.
    pub value: u64,
    /// By which number clients notice the change.
    pub cas: u64,
    /// When the item expires, in seconds of Unix time.
    pub expires_s: i64,
    /// The item was made for it.
    pub is_new: bool,
}

/// A request to count.
#[derive(Debug, Clone, Copy)]
pub struct Arithmetic {
    /// Whether the key goes to clients in base64.
    pub is_binary: bool,
    /// By how much the number grows or shrinks.
    pub delta: u64,
    /// Down, not up.
    pub is_decrement: bool,
    /// Only if the item has this number.
    pub compare: Option<u64>,
    /// The item's new number.
    pub new_cas: Option<u64>,
    /// What an item begins with that was not there, and when it expires.
    pub vivify: Option<(u64, i64)>,
    /// When the item expires from now on.
    pub expires_s: Option<i64>,
}

impl Store {
    /// Whether a value of this length can be an item's.
    pub fn fits(&self, key: &[u8], len: usize) -> bool {
        super::slots::OVERHEAD + key.len() + len <= self.limits().value
    }

    /// Stores a value.
    pub fn update(&self, key: &[u8], update: &Update, value: &[u8], now_s: i64) -> Outcome {
        let (mut shard, place) = self.shard(key);
        shard.stats.cmd_set += 1;
        if !self.fits(key, value.len()) {
            return Outcome::TooLarge;
        }
        let found = shard.find(place.hash, key, now_s);
        let stale = match compare(&mut shard, found, update) {
            Ok(stale) => stale,
            Err(outcome) => return outcome,
        };
        let mut new = New {
            key,
            is_binary: update.is_binary,
            value: [value, &[]],
            flags: update.flags,
            expires_s: stale.map_or(update.expires_s, |stale| stale.expires_s),
            cas: update.new_cas,
        };
        let before;
        match (update.mode, found) {
            (Mode::Set, _) | (Mode::Add, None) | (Mode::Replace, Some(_)) => {}
            (Mode::Add, Some(at)) => {
                shard.move_up(at, now_s);
                return Outcome::NotStored;
            }
            (Mode::Append | Mode::Prepend, Some(at)) => {
                let Some(item) = shard.get(at) else { return Outcome::NotStored };
                if !self.fits(key, item.value().len() + value.len()) {
                    return Outcome::TooLarge;
                }
                (new.flags, new.expires_s, new.is_binary) = (item.flags, item.expires_s, item.is_binary);
                before = item.value().to_vec();
                new.value = if update.mode == Mode::Append { [&before, value] } else { [value, &before] };
            }
            (Mode::Append | Mode::Prepend, None) if update.vivify_s.is_some() => {
                new.expires_s = update.vivify_s.unwrap_or(new.expires_s);
            }
            (Mode::Append | Mode::Prepend | Mode::Replace, None) => return Outcome::NotStored,
        }
        let len = new.value[0].len() + new.value[1].len();
        match shard.store(place.hash, &new, now_s) {
            Ok(at) => done(&mut shard, at, stale, len),
            Err(no_memory) => {
                shard.stats.store_no_memory += 1;
                no_memory.into()
            }
        }
    }

    /// A value was refused that should have replaced another: the old one goes, for it is not
    /// what the client holds true any more.
    pub fn refuse(&self, key: &[u8], update: &Update, outcome: Outcome, now_s: i64) {
        let (mut shard, place) = self.shard(key);
        match outcome {
            Outcome::TooLarge => shard.stats.store_too_large += 1,
            _ => shard.stats.store_no_memory += 1,
        }
        if update.mode == Mode::Set
            && update.compare.is_none()
            && let Some(at) = shard.find(place.hash, key, now_s)
        {
            shard.remove(at);
        }
    }

    /// Deletes an item, if it has the number `compare`.
    pub fn delete(&self, key: &[u8], compare: Option<u64>, now_s: i64) -> Outcome {
        let (mut shard, place) = self.shard(key);
        let Some(at) = shard.find(place.hash, key, now_s) else {
            shard.stats.delete_misses += 1;
            return Outcome::NotFound;
        };
        let cas = shard.get(at).map_or(0, |item| item.cas);
        if compare.is_some_and(|wanted| wanted != cas) {
            return Outcome::Exists;
        }
        shard.stats.delete_hits += 1;
        shard.remove(at);
        Outcome::Done { cas, len: 0 }
    }

    /// Gives an item another time at which it expires; its number, and its client's.
    ///
    /// # Errors
    /// There is no such item.
    pub fn touch(&self, key: &[u8], expires_s: i64, now_s: i64) -> Result<(u64, u32), Outcome> {
        let (mut shard, place) = self.shard(key);
        shard.stats.cmd_touch += 1;
        let Some(at) = shard.find(place.hash, key, now_s) else {
            shard.stats.touch_misses += 1;
            return Err(Outcome::NotFound);
        };
        shard.stats.touch_hits += 1;
        shard.renew(at, now_s);
        let item = shard.get_mut(at).ok_or(Outcome::NotFound)?;
        item.expires_s = expires_s;
        Ok((item.cas, item.flags))
    }

    /// Counts a number up, beyond 64 bits from zero again, or down to zero.
    ///
    /// # Errors
    /// Why it was not done.
    pub fn count(&self, key: &[u8], by: &Arithmetic, now_s: i64) -> Result<Counted, Outcome> {
        let (mut shard, place) = self.shard(key);
        let Some(at) = shard.find(place.hash, key, now_s) else {
            let misses =
                if by.is_decrement { &mut shard.stats.decr_misses } else { &mut shard.stats.incr_misses };
            *misses += 1;
            let (initial, expires_s) = by.vivify.ok_or(Outcome::NotFound)?;
            let made = store_number(&mut shard, (place.hash, key), by, (initial, 0, expires_s), now_s);
            return made.map(|counted| Counted { is_new: true, ..counted });
        };
        let item = shard.get(at).ok_or(Outcome::NotFound)?;
        if by.compare.is_some_and(|wanted| wanted != item.cas) {
            return Err(Outcome::Exists);
        }
        let old = value_number(item.value()).ok_or(Outcome::NotNumeric)?;
        let (flags, expires_s) = (item.flags, by.expires_s.unwrap_or(item.expires_s));
        let value = if by.is_decrement { old.saturating_sub(by.delta) } else { old.wrapping_add(by.delta) };
        let hits = if by.is_decrement { &mut shard.stats.decr_hits } else { &mut shard.stats.incr_hits };
        *hits += 1;
        let mut text = Vec::with_capacity(20);
        push_number(&mut text, value);
        let next = by.new_cas.unwrap_or_else(|| shard.next_cas());
        shard.move_up(at, now_s);
        let in_place = shard.get_mut(at).filter(|it| it.pin == NONE && it.value().len() >= text.len());
        let Some(item) = in_place else {
            return store_number(&mut shard, (place.hash, key), by, (value, flags, expires_s), now_s);
        };
        // A shorter number keeps the length, with blanks behind it.
        text.resize(item.value().len(), b' ');
        let key_len = usize::from(item.key_len);
        item.bytes[key_len..].copy_from_slice(&text);
        (item.cas, item.expires_s) = (next, expires_s);
        Ok(Counted { value, cas: next, expires_s, is_new: false })
    }
}

/// Stores a number as a value.
fn store_number(
    shard: &mut Shard,
    (hash, key): (u32, &[u8]),
    by: &Arithmetic,
    (value, flags, expires_s): (u64, u32, i64),
    now_s: i64,
) -> Result<Counted, Outcome> {
    let mut text = Vec::with_capacity(20);
    push_number(&mut text, value);
    let (is_binary, cas) = (by.is_binary, by.new_cas);
    let new = New { key, is_binary, value: [&text, &[]], flags, expires_s, cas };
    let at = shard.store(hash, &new, now_s)?;
    Ok(Counted { value, cas: shard.get(at).map_or(0, |item| item.cas), expires_s, is_new: false })
}

/// What a stale item has of the one that it replaces.
#[derive(Debug, Clone, Copy)]
struct Stale {
    expires_s: i64,
    /// Somebody was told to renew it.
    is_won: bool,
}

/// Compares the number of the item that was found with that for which an update was meant; what the
/// new item takes over, if it is stale.
fn compare(shard: &mut Shard, found: Option<u32>, update: &Update) -> Result<Option<Stale>, Outcome> {
    let Some(wanted) = update.compare else { return Ok(None) };
    let is_joined = matches!(update.mode, Mode::Append | Mode::Prepend);
    let Some(item) = found.and_then(|at| shard.get(at)) else {
        // There is nothing to append to, whatever number it was to have.
        if is_joined {
            return Ok(None);
        }
        shard.stats.cas_misses += 1;
        return Err(Outcome::NotFound);
    };
    if item.cas == wanted {
        shard.stats.cas_hits += 1;
        return Ok(None);
    }
    if update.invalidates && (1..item.cas).contains(&wanted) && !is_joined {
        return Ok(Some(Stale { expires_s: item.expires_s, is_won: item.is_won }));
    }
    shard.stats.cas_badval += 1;
    Err(Outcome::Exists)
}

fn done(shard: &mut Shard, at: u32, stale: Option<Stale>, len: usize) -> Outcome {
    let cas = shard.get_mut(at).map_or(0, |item| {
        if let Some(stale) = stale {
            (item.is_stale, item.is_won) = (true, stale.is_won);
        }
        item.cas
    });
    Outcome::Done { cas, len }
}
