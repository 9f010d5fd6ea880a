//! What a table keeps of each address, and the orders in which addresses are looked for.

use std::collections::{BTreeMap, VecDeque};

use memory::Packet;
use wire::MacAddress;

use crate::limits::SECOND_NS;
use crate::resolver::Address;

/// Polls sent at a quick pace, and the paces.
const QUICK_POLLS: u8 = 10;
const QUICK_NS: i64 = SECOND_NS / 10;
const SLOW_NS: i64 = 2 * SECOND_NS;

/// A place in the order of ages: the time of the last word, then who came first.
pub(crate) type Age = (i64, i64);

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) mac: Option<MacAddress>,
    pub(crate) age: Age,
    pub(crate) polled_ns: i64,
    pub(crate) polls: u8,
    pub(crate) waiting: VecDeque<Packet>,
    /// Since when any have waited, and which address began first.
    pub(crate) since: Age,
}

impl Entry {
    /// How long after one request for it another may be sent.
    pub(crate) fn poll_pace_ns(&self) -> i64 {
        if self.polls >= QUICK_POLLS { SLOW_NS } else { QUICK_NS }
    }

    /// Whether it may be asked for again, if `allowed` says so too, which is noted.
    pub(crate) fn poll(&mut self, now_ns: i64, allowed: impl FnOnce() -> bool) -> bool {
        let may = now_ns >= self.polled_ns + self.poll_pace_ns() && allowed();
        if may {
            self.polled_ns = now_ns;
            self.polls = self.polls.saturating_add(1);
        }
        may
    }
}

/// The entries in the orders in which they are looked for, so that none is searched.
#[derive(Debug)]
pub(crate) struct Orders<A> {
    /// All, the oldest first.
    pub(crate) ages: BTreeMap<Age, A>,
    /// Those that nobody has answered for, the oldest first.
    pub(crate) incomplete: BTreeMap<Age, A>,
    /// Those that packets wait for, the oldest first.
    pub(crate) holding: BTreeMap<Age, A>,
    /// The same, by since when they wait. Used when packets wait for a limited time.
    pub(crate) unresolved: BTreeMap<Age, A>,
}

impl<A: Address> Orders<A> {
    pub(crate) fn new() -> Orders<A> {
        let [ages, incomplete, holding, unresolved] = [const { BTreeMap::new() }; 4];
        Orders { ages, incomplete, holding, unresolved }
    }

    /// Enters an entry that is in none; `timed` when packets wait for a limited time.
    pub(crate) fn enter(&mut self, address: A, entry: &Entry, timed: bool) {
        self.ages.insert(entry.age, address);
        if entry.mac.is_none() {
            self.incomplete.insert(entry.age, address);
        }
        if !entry.waiting.is_empty() {
            self.wait(address, entry, timed);
        }
    }

    /// Packets wait for an entry, which none did.
    pub(crate) fn wait(&mut self, address: A, entry: &Entry, timed: bool) {
        self.holding.insert(entry.age, address);
        if timed {
            self.unresolved.insert(entry.since, address);
        }
    }

    /// No packet waits any more for an entry.
    pub(crate) fn release(&mut self, entry: &Entry) {
        self.holding.remove(&entry.age);
        self.unresolved.remove(&entry.since);
    }

    /// Takes an entry out as it was entered.
    pub(crate) fn leave(&mut self, entry: &Entry) {
        self.ages.remove(&entry.age);
        if entry.mac.is_none() {
            self.incomplete.remove(&entry.age);
        }
        if !entry.waiting.is_empty() {
            self.release(entry);
        }
    }
}
