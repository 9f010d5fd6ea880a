//! Addresses on a link, and the packets that wait for them (RFC 1122, section 2.3.2.2).
//!
//! A [`Table`] has bounds for all that strangers can make it keep: addresses, packets,
//! packets for one address, and the time that they may wait.

use std::collections::{BTreeMap, HashMap, VecDeque};

use memory::Packet;
use wire::MacAddress;

use crate::resolver::Address;

/// A second in nanoseconds.
const SECOND_NS: i64 = 1_000_000_000;
/// What an unlimited number of addresses means: memory is finite, and strangers
/// choose the addresses.
const MOST_ENTRIES: usize = 1 << 20;
/// Ages are compared in milliseconds.
const TICK_NS: i64 = SECOND_NS / 1000;
/// Polls sent at a quick pace, and the paces.
const QUICK_POLLS: u8 = 10;
const QUICK_NS: i64 = SECOND_NS / 10;
const SLOW_NS: i64 = 2 * SECOND_NS;

/// Bounds of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets that may wait.
    pub packets: usize,
    /// Packets that may wait for one address.
    pub packets_each: usize,
    /// When too many packets wait, one in so many of them goes; not zero.
    pub slim: usize,
    /// Addresses that are kept, a million at most.
    pub addresses: usize,
    /// How long an answer counts; zero for ever.
    pub timeout_ns: i64,
    /// How long packets wait; zero for as long as there is room.
    pub wait_ns: i64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            packets: 2048,
            packets_each: usize::MAX,
            slim: 2,
            addresses: usize::MAX,
            timeout_ns: 300 * SECOND_NS,
            wait_ns: 0,
        }
    }
}

/// What a table knows of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbor<A> {
    /// The address.
    pub address: A,
    /// Who has it, if anybody said so.
    pub mac: Option<MacAddress>,
    /// Whether that still counts.
    pub is_valid: bool,
    /// How long ago it was said, in nanoseconds.
    pub age_ns: i64,
}

/// A place in the order of ages: the time of the last word, then who came first.
type Age = (i64, i64);

#[derive(Debug)]
struct Entry {
    mac: Option<MacAddress>,
    age: Age,
    polled_ns: i64,
    polls: u8,
    waiting: VecDeque<Packet>,
    /// Since when any have waited.
    since_ns: i64,
}

impl Entry {
    /// Whether it may be asked for again, which is noted.
    fn poll(&mut self, now_ns: i64) -> bool {
        let pace = if self.polls >= QUICK_POLLS { SLOW_NS } else { QUICK_NS };
        let may = now_ns >= self.polled_ns + pace;
        if may {
            self.polled_ns = now_ns;
            self.polls = self.polls.saturating_add(1);
        }
        may
    }
}

/// What became of a packet that was to wait.
#[derive(Debug)]
pub enum Held {
    /// It waits.
    Waits {
        /// Whether the address must be asked for.
        ask: bool,
    },
    /// Too many wait for this address.
    Refused(Packet),
}

/// Who has an address, as an answer said.
#[derive(Debug)]
pub struct Learned<A> {
    /// The address.
    pub address: A,
    /// Who has it.
    pub mac: MacAddress,
    /// The packets that waited for it, the first first.
    pub released: VecDeque<Packet>,
}

/// Addresses, the packets that wait for them, and bounds for both.
#[derive(Debug)]
pub struct Table<A> {
    limits: Limits,
    entries: HashMap<A, Entry>,
    ages: BTreeMap<Age, A>,
    /// Those of `ages` that packets wait for.
    holding: BTreeMap<Age, A>,
    sequence: i64,
    waiting: usize,
    drops: u64,
    /// Addresses that packets wait for, and since when; the first came first. Some were
    /// told of since. Used when packets wait for a limited time.
    unresolved: VecDeque<(i64, A)>,
    /// When to look at those again.
    deadline_ns: Option<i64>,
}

impl<A: Address> Table<A> {
    /// An empty table.
    ///
    /// # Panics
    /// When `slim` is zero.
    pub fn new(limits: Limits) -> Table<A> {
        assert!(limits.slim > 0, "one in zero packets is no share");
        Table {
            limits: Limits { addresses: limits.addresses.clamp(1, MOST_ENTRIES), ..limits },
            entries: HashMap::new(),
            ages: BTreeMap::new(),
            holding: BTreeMap::new(),
            sequence: 0,
            waiting: 0,
            drops: 0,
            unresolved: VecDeque::new(),
            deadline_ns: None,
        }
    }

    fn is_expired(&self, age: Age, now_ns: i64) -> bool {
        let end = age.0.saturating_add(self.limits.timeout_ns);
        self.limits.timeout_ns != 0 && end.div_euclid(TICK_NS) < now_ns.div_euclid(TICK_NS)
    }

    /// Who has an address, and whether it is time to ask again, which is noted. With
    /// a `poll_ns` of zero it never is.
    pub fn lookup(&mut self, address: A, now_ns: i64, poll_ns: i64) -> Option<(MacAddress, bool)> {
        let age = self.entries.get(&address)?.age;
        if self.is_expired(age, now_ns) {
            return None;
        }
        let entry = self.entries.get_mut(&address)?;
        let mac = entry.mac?;
        let live = age.0;
        let ask = poll_ns != 0 && now_ns >= live.saturating_add(poll_ns) && entry.poll(now_ns);
        Some((mac, ask))
    }

    /// The entry of an address, made if there is none.
    fn ensure(&mut self, address: A, now_ns: i64, gone: &mut Vec<Packet>) {
        if self.entries.contains_key(&address) {
            return;
        }
        if self.entries.len() >= self.limits.addresses {
            self.expire(now_ns, self.limits.addresses - 1, gone);
        }
        let age = self.next_age(now_ns);
        let polled_ns = now_ns - SECOND_NS;
        let waiting = VecDeque::new();
        let entry = Entry { mac: None, age, polled_ns, polls: 0, waiting, since_ns: now_ns };
        self.entries.insert(address, entry);
        self.ages.insert(age, address);
    }

    fn next_age(&mut self, live_ns: i64) -> Age {
        self.sequence += 1;
        (live_ns, self.sequence)
    }

    fn set_age(&mut self, address: A, age: Age) {
        if let Some(entry) = self.entries.get_mut(&address) {
            let before = std::mem::replace(&mut entry.age, age);
            self.ages.remove(&before);
            self.ages.insert(age, address);
            if self.holding.remove(&before).is_some() {
                self.holding.insert(age, address);
            }
        }
    }

    /// Says who has an address, nobody for `None`; the packets that waited for it.
    pub fn insert(
        &mut self,
        address: A,
        mac: Option<MacAddress>,
        now_ns: i64,
        gone: &mut Vec<Packet>,
    ) -> VecDeque<Packet> {
        self.ensure(address, now_ns, gone);
        let age = self.next_age(now_ns);
        self.set_age(address, age);
        let Some(entry) = self.entries.get_mut(&address) else { return VecDeque::new() };
        (entry.mac, entry.polls, entry.polled_ns) = (mac, 0, now_ns - SECOND_NS);
        let ready = if mac.is_some() { std::mem::take(&mut entry.waiting) } else { VecDeque::new() };
        if !ready.is_empty() {
            self.holding.remove(&entry.age);
        }
        self.waiting -= ready.len();
        ready
    }

    /// Learns who has an address from a received frame: `None`, and nothing changed, when the
    /// frame is no valid answer to a request ([`Address::answer`]). An answer counts
    /// whether or not anybody asked, as in Click, and takes the place of what was known.
    pub fn learn(&mut self, frame: &[u8], now_ns: i64, gone: &mut Vec<Packet>) -> Option<Learned<A>> {
        let (address, mac) = A::answer(frame)?;
        let released = self.insert(address, Some(mac), now_ns, gone);
        Some(Learned { address, mac, released })
    }

    /// Has a packet wait until somebody says who has an address.
    pub fn hold(&mut self, address: A, packet: Packet, now_ns: i64, gone: &mut Vec<Packet>) -> Held {
        self.ensure(address, now_ns, gone);
        // An address that packets are sent to does not expire; it is as old as it may be.
        // In whole milliseconds: of those that come together, the last counts as the
        // oldest.
        let oldest = now_ns - now_ns.rem_euclid(TICK_NS) - self.limits.timeout_ns;
        let each = self.limits.packets_each;
        let Some(entry) = self.entries.get(&address) else { return Held::Refused(packet) };
        let is_full = entry.waiting.len() >= each;
        if self.limits.timeout_ns != 0 && entry.age.0 < oldest {
            self.sequence += 1;
            self.set_age(address, (oldest, -self.sequence));
        }
        if is_full {
            self.drops += 1;
            return Held::Refused(packet);
        }
        self.waiting += 1;
        if self.waiting > self.limits.packets {
            self.slim(now_ns, gone);
        }
        let Some(entry) = self.entries.get_mut(&address) else { return Held::Refused(packet) };
        if self.limits.wait_ns > 0 && entry.waiting.is_empty() {
            entry.since_ns = now_ns;
            self.unresolved.push_back((now_ns, address));
            self.deadline_ns.get_or_insert(now_ns + self.limits.wait_ns.min(SECOND_NS));
        }
        if entry.waiting.is_empty() {
            self.holding.insert(entry.age, address);
        }
        entry.waiting.push_back(packet);
        Held::Waits { ask: entry.poll(now_ns) }
    }

    /// Packets wait so long at most from now on.
    pub fn set_wait(&mut self, wait_ns: i64) {
        self.limits.wait_ns = wait_ns;
    }

    /// When [`give_up`](Table::give_up) is due; `None` while no packet waits, or packets may
    /// wait for as long as there is room. Addresses that expire need no call: they do not
    /// count any more, and go when there is need for room.
    pub fn next_deadline(&self) -> Option<i64> {
        self.deadline_ns
    }

    /// Packets that waited too long go to `gone`. Of the others those whose address was
    /// not asked for within a second are shown to `ask`, the first packet for each; whether
    /// any go on waiting.
    pub fn give_up(&mut self, now_ns: i64, gone: &mut Vec<Packet>, mut ask: impl FnMut(A, &Packet)) -> bool {
        for (since_ns, address) in std::mem::take(&mut self.unresolved) {
            let Some(entry) = self.entries.get_mut(&address).filter(|e| e.since_ns == since_ns) else {
                continue; // somebody answered, or nobody waits any more
            };
            let Some(first) = entry.waiting.front() else { continue };
            if now_ns.saturating_sub(since_ns) >= self.limits.wait_ns {
                self.waiting -= entry.waiting.len();
                gone.extend(entry.waiting.drain(..));
                self.holding.remove(&entry.age);
                entry.polls = 0;
                continue;
            }
            if now_ns.saturating_sub(entry.polled_ns) >= SECOND_NS {
                entry.polled_ns = now_ns;
                ask(address, first);
            }
            self.unresolved.push_back((since_ns, address));
        }
        let pace_ns = self.limits.wait_ns.min(SECOND_NS);
        self.deadline_ns = (!self.unresolved.is_empty()).then_some(now_ns.saturating_add(pace_ns));
        self.deadline_ns.is_some()
    }

    /// Packets that waited were dropped.
    pub fn count_drops(&mut self, count: u64) {
        self.drops += count;
    }

    /// Forgets addresses that expired, and the oldest beyond `most`.
    pub fn expire(&mut self, now_ns: i64, most: usize, gone: &mut Vec<Packet>) {
        while let Some((&age, &address)) = self.ages.first_key_value() {
            if !self.is_expired(age, now_ns) && self.entries.len() <= most {
                break;
            }
            self.ages.remove(&age);
            self.holding.remove(&age);
            if let Some(entry) = self.entries.remove(&address) {
                self.waiting -= entry.waiting.len();
                self.drops += entry.waiting.len() as u64;
                gone.extend(entry.waiting);
            }
        }
    }

    /// Makes room: packets that wait for the oldest addresses go first. One packet is
    /// counted as waiting that is not there yet.
    fn slim(&mut self, now_ns: i64, gone: &mut Vec<Packet>) {
        self.expire(now_ns, usize::MAX, gone);
        let most = (self.limits.packets - self.limits.packets / self.limits.slim).max(1);
        while self.waiting > most {
            let Some(oldest) = self.holding.first_entry() else { return };
            let waiting = self.entries.get_mut(oldest.get()).map(|entry| &mut entry.waiting);
            if let Some(packet) = waiting.and_then(VecDeque::pop_front) {
                gone.push(packet);
                self.waiting -= 1;
                self.drops += 1;
            } else {
                oldest.remove();
            }
        }
    }

    /// Forgets all.
    pub fn clear(&mut self, gone: &mut Vec<Packet>) {
        self.ages.clear();
        self.holding.clear();
        for (_, entry) in self.entries.drain() {
            self.drops += entry.waiting.len() as u64;
            gone.extend(entry.waiting);
        }
        self.waiting = 0;
        self.unresolved.clear();
        self.deadline_ns = None;
    }

    /// Takes over what another table knows. The copies of one element ask one after the
    /// other: what the first took stays.
    pub fn adopt(&mut self, old: &mut Table<A>) {
        if old.entries.is_empty() {
            self.drops += std::mem::take(&mut old.drops);
            return;
        }
        std::mem::swap(&mut self.entries, &mut old.entries);
        std::mem::swap(&mut self.ages, &mut old.ages);
        std::mem::swap(&mut self.holding, &mut old.holding);
        (self.sequence, self.waiting, self.drops) = (old.sequence, old.waiting, old.drops);
        (old.waiting, old.drops) = (0, 0);
        self.unresolved.clear();
        if self.limits.wait_ns > 0 {
            let waiting = self.entries.iter_mut().filter(|(_, entry)| !entry.waiting.is_empty());
            self.unresolved.extend(waiting.map(|(address, entry)| (entry.since_ns, *address)));
            let since_ns = self.unresolved.iter().map(|(since_ns, _)| *since_ns).min();
            self.deadline_ns = since_ns.map(|since_ns| since_ns + self.limits.wait_ns.min(SECOND_NS));
        }
    }

    /// Packets that were dropped because they waited too long, or too many did.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// How often expired addresses are looked for.
    pub fn expiry_interval_ns(&self) -> Option<i64> {
        (self.limits.timeout_ns != 0).then_some(self.limits.timeout_ns + SECOND_NS)
    }

    /// All that is known, the oldest first.
    pub fn iter(&self, now_ns: i64) -> impl Iterator<Item = Neighbor<A>> {
        self.ages.values().filter_map(move |address| {
            let entry = self.entries.get(address)?;
            let is_valid = entry.mac.is_some() && !self.is_expired(entry.age, now_ns);
            let age_ns = (now_ns - entry.age.0).max(0);
            Some(Neighbor { address: *address, mac: entry.mac, is_valid, age_ns })
        })
    }

    /// How many addresses there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many packets wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}
