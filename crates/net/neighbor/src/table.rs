//! Addresses on a link, and the packets that wait for them (RFC 1122, section 2.3.2.2).
//!
//! A [`Table`] has bounds for all that strangers can make it keep and send ([`Limits`]):
//! addresses, those that nobody answers for, packets, packets for one address, the time that
//! they may wait, and requests. What a packet costs does not depend on how many others wait.

use std::collections::{HashMap, VecDeque};

use memory::Packet;
use wire::MacAddress;

use crate::limits::{Limits, Pace, SECOND_NS};
use crate::orders::{Age, Entry, Orders};
use crate::resolver::Address;

/// Ages are compared in milliseconds.
const TICK_NS: i64 = SECOND_NS / 1000;

/// What a table knows of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbor<A> {
    /// The protocol address: IPv4 or IPv6.
    pub address: A,
    /// Who has it, if anybody said so.
    pub mac: Option<MacAddress>,
    /// Whether that still counts.
    pub is_valid: bool,
    /// How long ago it was said, in nanoseconds.
    pub age_ns: i64,
}

/// What became of a packet that was to wait.
#[derive(Debug)]
pub enum Held {
    /// The table has the packet until an answer comes.
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
    /// The protocol address that was answered for.
    pub address: A,
    /// The Ethernet address of who has it.
    pub mac: MacAddress,
    /// The packets that waited for it, the first first.
    pub released: VecDeque<Packet>,
}

/// Addresses, the packets that wait for them, and bounds for both.
#[derive(Debug)]
pub struct Table<A> {
    limits: Limits,
    entries: HashMap<A, Entry>,
    orders: Orders<A>,
    pace: Pace,
    sequence: i64,
    waiting: usize,
    drops: u64,
    evictions: u64,
    /// When to look again at the addresses that packets wait for.
    deadline_ns: Option<i64>,
    /// How often something that was known became wrong.
    version: u64,
}

impl<A: Address> Table<A> {
    /// An empty table.
    ///
    /// # Panics
    /// When `slim` is zero.
    pub fn new(limits: Limits) -> Table<A> {
        assert!(limits.slim > 0, "one in zero packets is no share");
        Table {
            limits: limits.checked(),
            entries: HashMap::new(),
            orders: Orders::new(),
            pace: Pace::default(),
            sequence: 0,
            waiting: 0,
            drops: 0,
            evictions: 0,
            deadline_ns: None,
            version: 0,
        }
    }

    /// Another number whenever something that was known became wrong, but for its age.
    pub(crate) fn version(&self) -> u64 {
        self.version
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
        let ask = poll_ns != 0 && now_ns >= live.saturating_add(poll_ns) && entry.poll(now_ns, || true);
        Some((mac, ask))
    }

    /// Until when who has an address is what [`lookup`](Table::lookup) says, without a word
    /// about asking again; `None` when nobody is known to have it.
    pub(crate) fn fresh_until(&self, address: A, now_ns: i64, poll_ns: i64) -> Option<i64> {
        let entry = self.entries.get(&address)?;
        if entry.mac.is_none() || self.is_expired(entry.age, now_ns) {
            return None;
        }
        let after = |ns: i64| if ns == 0 { i64::MAX } else { entry.age.0.saturating_add(ns) };
        let asked = after(poll_ns).max(entry.polled_ns + entry.poll_pace_ns());
        Some(after(self.limits.timeout_ns).min(asked))
    }

    /// The entry of an address, made if there is none, with who has it if that is known.
    fn ensure(&mut self, address: A, mac: Option<MacAddress>, now_ns: i64, gone: &mut Vec<Packet>) {
        if self.entries.contains_key(&address) {
            return;
        }
        while mac.is_none() && self.orders.incomplete.len() >= self.limits.incomplete {
            self.evict(gone);
        }
        if self.entries.len() >= self.limits.addresses {
            self.expire(now_ns, gone);
        }
        while self.entries.len() >= self.limits.addresses {
            self.evict(gone);
        }
        let (age, since) = (self.next_age(now_ns), self.next_age(now_ns));
        let polled_ns = now_ns - SECOND_NS;
        let entry = Entry { mac, age, polled_ns, polls: 0, waiting: VecDeque::new(), since };
        self.orders.enter(address, &entry, false);
        self.entries.insert(address, entry);
    }

    /// Forgets the oldest address that nobody answered for, else the oldest, to make room.
    fn evict(&mut self, gone: &mut Vec<Packet>) {
        let oldest = self.orders.incomplete.first_key_value();
        let Some((_, &address)) = oldest.or_else(|| self.orders.ages.first_key_value()) else { return };
        self.evictions += 1;
        self.forget(address, gone);
    }

    fn forget(&mut self, address: A, gone: &mut Vec<Packet>) {
        let Some(entry) = self.entries.remove(&address) else { return };
        self.version += u64::from(entry.mac.is_some());
        self.orders.leave(&entry);
        self.waiting -= entry.waiting.len();
        self.drops += entry.waiting.len() as u64;
        gone.extend(entry.waiting);
    }

    fn next_age(&mut self, live_ns: i64) -> Age {
        self.sequence += 1;
        (live_ns, self.sequence)
    }

    /// Changes an entry, and its places in the orders with it.
    fn change<R>(&mut self, address: A, change: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        let entry = self.entries.get_mut(&address)?;
        self.orders.leave(entry);
        let changed = change(entry);
        self.orders.enter(address, entry, self.limits.wait_ns > 0);
        Some(changed)
    }

    /// Says who has an address, nobody for `None`. Packets that wait for it go on waiting, as in
    /// Click, until an answer comes ([`insert`](Table::insert) releases them).
    pub fn enter(&mut self, address: A, mac: Option<MacAddress>, now_ns: i64, gone: &mut Vec<Packet>) {
        self.ensure(address, mac, now_ns, gone);
        let age = self.next_age(now_ns);
        // Groups are known without an entry.
        let mut is_wrong = address.group_mac().is_some();
        self.change(address, |entry| {
            is_wrong |= entry.mac.is_some() && entry.mac != mac;
            (entry.age, entry.mac, entry.polls, entry.polled_ns) = (age, mac, 0, now_ns - SECOND_NS);
        });
        self.version += u64::from(is_wrong);
    }

    /// Says who has an address, nobody for `None`; the packets that waited for it.
    pub fn insert(
        &mut self,
        address: A,
        mac: Option<MacAddress>,
        now_ns: i64,
        gone: &mut Vec<Packet>,
    ) -> VecDeque<Packet> {
        self.enter(address, mac, now_ns, gone);
        let Some(entry) = self.entries.get_mut(&address).filter(|_| mac.is_some()) else {
            return VecDeque::new();
        };
        if !entry.waiting.is_empty() {
            self.orders.release(entry);
        }
        let ready = std::mem::take(&mut entry.waiting);
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
        self.ensure(address, None, now_ns, gone);
        // An address that packets are sent to does not expire; it is as old as it may be.
        // In whole milliseconds: of those that come together, the last counts as the
        // oldest.
        let oldest = now_ns - now_ns.rem_euclid(TICK_NS) - self.limits.timeout_ns;
        let each = self.limits.packets_each;
        let Some(entry) = self.entries.get(&address) else { return Held::Refused(packet) };
        let is_full = entry.waiting.len() >= each;
        if self.limits.timeout_ns != 0 && entry.age.0 < oldest {
            self.sequence += 1;
            let age = (oldest, -self.sequence);
            self.change(address, |entry| entry.age = age);
        }
        if is_full {
            self.drops += 1;
            return Held::Refused(packet);
        }
        self.waiting += 1;
        if self.waiting > self.limits.packets {
            self.slim(now_ns, gone);
        }
        let since = self.next_age(now_ns);
        let Some(entry) = self.entries.get_mut(&address) else {
            (self.waiting, self.drops) = (self.waiting - 1, self.drops + 1);
            return Held::Refused(packet);
        };
        let (is_first, is_timed) = (entry.waiting.is_empty(), self.limits.wait_ns > 0);
        entry.waiting.push_back(packet);
        if is_first {
            entry.since = since;
            self.orders.wait(address, entry, is_timed);
            if is_timed {
                self.deadline_ns.get_or_insert(now_ns + self.limits.wait_ns.min(SECOND_NS));
            }
        }
        Held::Waits { ask: entry.poll(now_ns, || self.pace.allow(self.limits.requests, now_ns)) }
    }

    /// What it may keep and send.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// It may keep and send so much from now on, but for how long packets wait
    /// ([`set_wait`](Table::set_wait)). What is too much goes when something else comes.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = Limits { wait_ns: self.limits.wait_ns, ..limits.checked() };
        self.version += 1;
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
    /// not asked for within a second are shown to `ask`, the first packet for each, as far
    /// as requests may be sent; whether any go on waiting.
    pub fn give_up(&mut self, now_ns: i64, gone: &mut Vec<Packet>, mut ask: impl FnMut(A, &Packet)) -> bool {
        let latest_ns = now_ns.saturating_sub(self.limits.wait_ns);
        while let Some((&since, &address)) = self.orders.unresolved.first_key_value() {
            if since.0 > latest_ns {
                break;
            }
            self.orders.unresolved.remove(&since);
            let Some(entry) = self.entries.get_mut(&address) else { continue };
            self.orders.release(entry);
            self.waiting -= entry.waiting.len();
            gone.extend(entry.waiting.drain(..));
            entry.polls = 0;
        }
        for &address in self.orders.unresolved.values() {
            let Some(entry) = self.entries.get_mut(&address) else { continue };
            let is_due = now_ns.saturating_sub(entry.polled_ns) >= SECOND_NS;
            let Some(first) = entry.waiting.front().filter(|_| is_due) else { continue };
            if self.pace.allow(self.limits.requests, now_ns) {
                entry.polled_ns = now_ns;
                ask(address, first);
            }
        }
        let is_any_left = !self.orders.unresolved.is_empty();
        let pace_ns = self.limits.wait_ns.min(SECOND_NS);
        self.deadline_ns = is_any_left.then_some(now_ns.saturating_add(pace_ns));
        is_any_left
    }

    /// Packets that waited were dropped.
    pub fn count_drops(&mut self, count: u64) {
        self.drops += count;
    }

    /// Forgets addresses that expired.
    pub fn expire(&mut self, now_ns: i64, gone: &mut Vec<Packet>) {
        while let Some((&age, &address)) = self.orders.ages.first_key_value() {
            if !self.is_expired(age, now_ns) {
                break;
            }
            self.forget(address, gone);
        }
    }

    /// Makes room: packets that wait for the oldest addresses go first. One packet is
    /// counted as waiting that is not there yet.
    fn slim(&mut self, now_ns: i64, gone: &mut Vec<Packet>) {
        self.expire(now_ns, gone);
        let most = (self.limits.packets - self.limits.packets / self.limits.slim).max(1);
        while self.waiting > most {
            let Some((_, address)) = self.orders.holding.first_key_value() else { return };
            let Some(entry) = self.entries.get_mut(address) else { return };
            if let Some(packet) = entry.waiting.pop_front() {
                gone.push(packet);
                self.waiting -= 1;
                self.drops += 1;
            }
            if entry.waiting.is_empty() {
                self.orders.release(entry);
            }
        }
    }

    /// Forgets all addresses; packets that waited are put into `gone`, and counted as drops.
    pub fn clear(&mut self, gone: &mut Vec<Packet>) {
        self.orders = Orders::new();
        for (_, entry) in self.entries.drain() {
            self.drops += entry.waiting.len() as u64;
            gone.extend(entry.waiting);
        }
        self.waiting = 0;
        self.deadline_ns = None;
        self.version += 1;
    }

    /// Takes over what another table knows. The copies of one element ask one after the
    /// other: what the first took stays.
    pub fn adopt(&mut self, old: &mut Table<A>) {
        if old.entries.is_empty() {
            self.drops += std::mem::take(&mut old.drops);
            return;
        }
        std::mem::swap(&mut self.entries, &mut old.entries);
        std::mem::swap(&mut self.orders, &mut old.orders);
        (self.sequence, self.waiting, self.drops) = (old.sequence, old.waiting, old.drops);
        self.evictions = old.evictions;
        (self.version, old.version) = (self.version + 1, old.version + 1);
        (old.waiting, old.drops) = (0, 0);
        self.orders.unresolved.clear();
        if self.limits.wait_ns > 0 {
            let waiting = self.entries.iter().filter(|(_, entry)| !entry.waiting.is_empty());
            self.orders.unresolved.extend(waiting.map(|(address, entry)| (entry.since, *address)));
            let since = self.orders.unresolved.first_key_value();
            self.deadline_ns = since.map(|((since_ns, _), _)| since_ns + self.limits.wait_ns.min(SECOND_NS));
        }
    }

    /// Packets that were dropped because they waited too long, or too many did.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Addresses that were forgotten before they expired, because others needed their place.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Requests that were not sent, because there were too many ([`Limits::requests`]).
    pub fn suppressed(&self) -> u64 {
        self.pace.suppressed
    }

    /// How often expired addresses are looked for.
    pub fn expiry_interval_ns(&self) -> Option<i64> {
        (self.limits.timeout_ns != 0).then_some(self.limits.timeout_ns + SECOND_NS)
    }

    /// All that is known, the oldest first.
    pub fn iter(&self, now_ns: i64) -> impl Iterator<Item = Neighbor<A>> {
        self.orders.ages.values().filter_map(move |address| {
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use memory::{Backing, Dma, Options, Pool};

    use super::*;

    /// A sender and a host that answers can have an address wait millions of times between two
    /// looks at those that wait, and a scan can do so with as many addresses: nothing is kept
    /// of what is over.
    #[test]
    fn what_waited_leaves_nothing_behind() {
        let dma = Dma::new(Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, 64).expect("memory");
        let limits = Limits { wait_ns: SECOND_NS, packets: 8, incomplete: 16, ..Limits::default() };
        let mut table = Table::new(limits);
        for n in 0..10_000_u32 {
            let mut gone = vec![];
            for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::from_bits(n)] {
                let packet = pool.alloc().expect("few wait");
                assert!(matches!(table.hold(address, packet, 0, &mut gone), Held::Waits { .. }));
            }
            gone.extend(table.insert(Ipv4Addr::LOCALHOST, Some(MacAddress([2; 6])), 0, &mut vec![]));
            gone.into_iter().for_each(|packet| pool.free(packet));
        }
        let Orders { ages, incomplete, holding, unresolved } = &table.orders;
        assert_eq!((table.len(), ages.len(), incomplete.len()), (17, 17, 16));
        let waiting = table.entries.values().filter(|entry| !entry.waiting.is_empty()).count();
        assert_eq!((holding.len(), unresolved.len()), (waiting, waiting));
        let mut gone = vec![];
        table.clear(&mut gone);
        gone.into_iter().for_each(|packet| pool.free(packet));
    }
}
