//! `ARPTable`: who has which IPv4 address, and the packets that wait to know
//! (RFC 826; RFC 1122, 2.3.2). IPv6's neighbours are kept in the same way.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::{Debug, Display, Write};
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::class::{Argument, Handlers, action, call, keyword, read, write};
use graph::clock::SECOND_NS;
use graph::value::{Ethernet, Scope, Span, Value};
use graph::{Class, Conf, Cx, Element, Fault, Refused, TimerId};
use memory::Packet;

pub(super) const CAPACITY: Argument = keyword("CAPACITY", "packets that may wait, 0 for no limit; 2048");
pub(super) const ENTRY_CAPACITY: Argument = keyword("ENTRY_CAPACITY", "addresses kept, 0 for a million; 0");
pub(super) const ENTRY_PACKET_CAPACITY: Argument =
    keyword("ENTRY_PACKET_CAPACITY", "packets that may wait for one address, 0 for no limit; 0");
pub(super) const SLIM_FACTOR: Argument =
    keyword("CAPACITY_SLIM_FACTOR", "when too many packets wait, one in so many of them goes; 2");
pub(super) const TIMEOUT: Argument = keyword("TIMEOUT", "how long an answer counts, 0 for ever; 300 s");

/// The class.
pub static CLASS: Class = Class {
    name: "ARPTable",
    brief: "keeps who has which IPv4 address, for several ARPQueriers",
    doc: "A table that ARPQueriers share by their TABLE argument. When more packets wait than CAPACITY, the \
          oldest go.",
    ports: "0/0",
    processing: "a/a",
    arguments: &[CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, SLIM_FACTOR, TIMEOUT],
    handlers: &Handlers::<ArpTable>(&[
        call("table", "`IP VALID ETH AGE`, a line for each address, the oldest first", |table, cx, _| {
            Ok(table.table.lock().listing(cx.now_ns()))
        }),
        read("drops", "packets dropped because they waited too long, or too many did", |table| {
            table.table.lock().drops().to_string()
        }),
        read("count", "addresses", |table| table.table.lock().count()),
        read("length", "packets that wait", |table| table.table.lock().length()),
        write("insert", "`IP ETH`: who has an address", |table, cx, value| {
            let gone = table.table.lock().insert_entry(value, cx.now_ns())?;
            gone.into_iter().for_each(|packet| cx.drop(0, packet));
            Ok(())
        }),
        write("delete", "forgets who has an address", |table, cx, value| {
            let gone = table.table.lock().delete_entry(value, cx.now_ns())?;
            gone.into_iter().for_each(|packet| cx.drop(0, packet));
            Ok(())
        }),
        action("clear", "forgets all, and drops what waits", |table, cx| {
            let mut gone = vec![];
            table.table.lock().clear(&mut gone);
            gone.into_iter().for_each(|packet| cx.drop(0, packet));
        }),
    ]),
    drops: &["waited in vain"],
    example: "t :: ARPTable(TIMEOUT 60); q :: ARPQuerier(10.0.0.1, 0:0:c0:ae:67:ef, TABLE t);",
    see: &["ARPQuerier", "ARPResponder"],
    make: |setup, conf| {
        let table: Arc<SharedTable> = Arc::new(SharedTable::parse(conf)?);
        conf.complete()?;
        setup.share(table.clone());
        Ok(Box::new(ArpTable { table }))
    },
    ..Class::BASE
};

/// What an unlimited number of addresses means: memory is finite, and strangers
/// choose the addresses.
const MOST_ENTRIES: usize = 1 << 20;
/// Ages are compared in milliseconds.
const TICK_NS: i64 = SECOND_NS / 1000;
/// Polls sent at a quick pace, and the paces.
const QUICK_POLLS: u8 = 10;
const QUICK_NS: i64 = SECOND_NS / 10;
const SLOW_NS: i64 = 2 * SECOND_NS;

/// An address that hosts have on a link: IPv4 or IPv6.
pub(super) trait Address: Copy + Eq + Hash + Display + Debug + Value + Send + 'static {}

impl Address for Ipv4Addr {}
impl Address for Ipv6Addr {}

/// A table that elements share.
#[derive(Debug)]
pub(super) struct SharedTable<A: Address = Ipv4Addr>(Mutex<Table<A>>);

impl<A: Address> SharedTable<A> {
    pub(super) fn parse(conf: &mut Conf<'_>) -> Result<SharedTable<A>, Fault> {
        let capacity: usize = conf.keyword("CAPACITY")?.unwrap_or(2048);
        let entries: usize = conf.keyword("ENTRY_CAPACITY")?.unwrap_or(0);
        let each: usize = conf.keyword("ENTRY_PACKET_CAPACITY")?.unwrap_or(0);
        let slim: usize = conf.keyword("CAPACITY_SLIM_FACTOR")?.unwrap_or(2);
        let timeout = conf.keyword("TIMEOUT")?.unwrap_or(Span(300 * SECOND_NS));
        if slim == 0 {
            return Err("CAPACITY_SLIM_FACTOR cannot be zero".into());
        }
        let unlimited = |n: usize| if n == 0 { usize::MAX } else { n };
        Ok(SharedTable(Mutex::new(Table {
            capacity: unlimited(capacity),
            entry_capacity: unlimited(entries).min(MOST_ENTRIES),
            each: unlimited(each),
            slim,
            timeout_ns: timeout.0.max(0),
            entries: HashMap::new(),
            ages: BTreeMap::new(),
            sequence: 0,
            waiting: 0,
            drops: 0,
            patience_ns: 0,
            hopes: VecDeque::new(),
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the order of ages: the time of the last word, then who came first.
type Age = (i64, i64);

#[derive(Debug)]
struct Entry {
    ethernet: Option<Ethernet>,
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
pub(super) enum Kept {
    /// It waits; whether the address must be asked for.
    Waits { ask: bool },
    /// Too many wait for this address.
    Refused(Packet),
}

/// Addresses, the packets that wait for them, and bounds for both.
#[derive(Debug)]
pub(super) struct Table<A> {
    capacity: usize,
    entry_capacity: usize,
    each: usize,
    slim: usize,
    timeout_ns: i64,
    entries: HashMap<A, Entry>,
    ages: BTreeMap<Age, A>,
    sequence: i64,
    waiting: usize,
    drops: u64,
    /// How long packets wait at most; 0 for as long as there is room.
    patience_ns: i64,
    /// Addresses that packets wait for, and since when; the first came first. Some were
    /// told of since.
    hopes: VecDeque<(i64, A)>,
}

impl<A: Address> Table<A> {
    fn is_expired(&self, age: Age, now_ns: i64) -> bool {
        let end = age.0.saturating_add(self.timeout_ns);
        self.timeout_ns != 0 && end.div_euclid(TICK_NS) < now_ns.div_euclid(TICK_NS)
    }

    /// Who has an address, and whether it is time to ask again, which is noted. With
    /// a `poll_ns` of zero it never is.
    pub(super) fn lookup(&mut self, address: A, now_ns: i64, poll_ns: i64) -> Option<(Ethernet, bool)> {
        let age = self.entries.get(&address)?.age;
        if self.is_expired(age, now_ns) {
            return None;
        }
        let entry = self.entries.get_mut(&address)?;
        let ethernet = entry.ethernet?;
        let live = age.0;
        let ask = poll_ns != 0 && now_ns >= live.saturating_add(poll_ns) && entry.poll(now_ns);
        Some((ethernet, ask))
    }

    /// The entry of an address, made if there is none.
    fn ensure(&mut self, address: A, now_ns: i64, gone: &mut Vec<Packet>) {
        if self.entries.contains_key(&address) {
            return;
        }
        if self.entries.len() >= self.entry_capacity {
            self.expire(now_ns, self.entry_capacity - 1, gone);
        }
        let age = self.next_age(now_ns);
        let polled_ns = now_ns - SECOND_NS;
        let waiting = VecDeque::new();
        let entry = Entry { ethernet: None, age, polled_ns, polls: 0, waiting, since_ns: now_ns };
        self.entries.insert(address, entry);
        self.ages.insert(age, address);
    }

    fn next_age(&mut self, live_ns: i64) -> Age {
        self.sequence += 1;
        (live_ns, self.sequence)
    }

    fn set_age(&mut self, address: A, age: Age) {
        if let Some(entry) = self.entries.get_mut(&address) {
            self.ages.remove(&entry.age);
            entry.age = age;
            self.ages.insert(age, address);
        }
    }

    /// Says who has an address, nobody for `None`; the packets that waited for it.
    pub(super) fn insert(
        &mut self,
        address: A,
        ethernet: Option<Ethernet>,
        now_ns: i64,
        gone: &mut Vec<Packet>,
    ) -> VecDeque<Packet> {
        self.ensure(address, now_ns, gone);
        let age = self.next_age(now_ns);
        self.set_age(address, age);
        let Some(entry) = self.entries.get_mut(&address) else { return VecDeque::new() };
        (entry.ethernet, entry.polls, entry.polled_ns) = (ethernet, 0, now_ns - SECOND_NS);
        let ready = if ethernet.is_some() { std::mem::take(&mut entry.waiting) } else { VecDeque::new() };
        self.waiting -= ready.len();
        ready
    }

    /// Has a packet wait until somebody says who has an address.
    pub(super) fn keep(&mut self, address: A, packet: Packet, now_ns: i64, gone: &mut Vec<Packet>) -> Kept {
        self.ensure(address, now_ns, gone);
        // An address that packets are sent to does not expire; it is as old as it may be.
        // In whole milliseconds: of those that come together, the last counts as the
        // oldest.
        let oldest = now_ns - now_ns.rem_euclid(TICK_NS) - self.timeout_ns;
        let each = self.each;
        let Some(entry) = self.entries.get(&address) else { return Kept::Refused(packet) };
        let is_full = entry.waiting.len() >= each;
        if self.timeout_ns != 0 && entry.age.0 < oldest {
            self.sequence += 1;
            self.set_age(address, (oldest, -self.sequence));
        }
        if is_full {
            self.drops += 1;
            return Kept::Refused(packet);
        }
        self.waiting += 1;
        if self.waiting > self.capacity {
            self.slim(now_ns, gone);
        }
        let Some(entry) = self.entries.get_mut(&address) else { return Kept::Refused(packet) };
        if self.patience_ns > 0 && entry.waiting.is_empty() {
            entry.since_ns = now_ns;
            self.hopes.push_back((now_ns, address));
        }
        entry.waiting.push_back(packet);
        Kept::Waits { ask: entry.poll(now_ns) }
    }

    /// Packets wait so long at most.
    pub(super) fn set_patience(&mut self, patience_ns: i64) {
        self.patience_ns = patience_ns;
    }

    /// Packets that waited too long go to `gone`. Of the others those whose address was
    /// not asked for within a second are shown to `ask`; whether any go on waiting.
    pub(super) fn lose_patience(
        &mut self,
        now_ns: i64,
        gone: &mut Vec<Packet>,
        mut ask: impl FnMut(A, &Packet),
    ) -> bool {
        for (since_ns, address) in std::mem::take(&mut self.hopes) {
            let Some(entry) = self.entries.get_mut(&address).filter(|e| e.since_ns == since_ns) else {
                continue; // somebody answered, or nobody waits any more
            };
            let Some(first) = entry.waiting.front() else { continue };
            if now_ns.saturating_sub(since_ns) >= self.patience_ns {
                self.waiting -= entry.waiting.len();
                gone.extend(entry.waiting.drain(..));
                entry.polls = 0;
                continue;
            }
            if now_ns.saturating_sub(entry.polled_ns) >= SECOND_NS {
                entry.polled_ns = now_ns;
                ask(address, first);
            }
            self.hopes.push_back((since_ns, address));
        }
        !self.hopes.is_empty()
    }

    /// Packets that waited were dropped.
    pub(super) fn count_drops(&mut self, count: u64) {
        self.drops += count;
    }

    /// Forgets addresses that expired, and the oldest beyond `most`.
    pub(super) fn expire(&mut self, now_ns: i64, most: usize, gone: &mut Vec<Packet>) {
        while let Some((&age, &address)) = self.ages.first_key_value() {
            if !self.is_expired(age, now_ns) && self.entries.len() <= most {
                break;
            }
            self.ages.remove(&age);
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
        let most = (self.capacity - self.capacity / self.slim).max(1);
        for address in self.ages.values() {
            let Some(entry) = self.entries.get_mut(address) else { continue };
            while self.waiting > most {
                let Some(packet) = entry.waiting.pop_front() else { break };
                gone.push(packet);
                self.waiting -= 1;
                self.drops += 1;
            }
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self, gone: &mut Vec<Packet>) {
        self.ages.clear();
        for (_, entry) in self.entries.drain() {
            self.drops += entry.waiting.len() as u64;
            gone.extend(entry.waiting);
        }
        self.waiting = 0;
    }

    /// Takes over what another table knows. The copies of one element ask one after the
    /// other: what the first took stays.
    pub(super) fn adopt(&mut self, old: &mut Table<A>) {
        if old.entries.is_empty() {
            self.drops += std::mem::take(&mut old.drops);
            return;
        }
        std::mem::swap(&mut self.entries, &mut old.entries);
        std::mem::swap(&mut self.ages, &mut old.ages);
        (self.sequence, self.waiting, self.drops) = (old.sequence, old.waiting, old.drops);
        (old.waiting, old.drops) = (0, 0);
        self.hopes.clear();
        if self.patience_ns > 0 {
            let waiting = self.entries.iter_mut().filter(|(_, entry)| !entry.waiting.is_empty());
            self.hopes.extend(waiting.map(|(address, entry)| (entry.since_ns, *address)));
        }
    }

    pub(super) fn drops(&self) -> u64 {
        self.drops
    }

    /// How often expired addresses are looked for.
    pub(super) fn pace_ns(&self) -> Option<i64> {
        (self.timeout_ns != 0).then_some(self.timeout_ns + SECOND_NS)
    }

    /// `IP VALID ETH AGE`, a line for each address, the oldest first.
    pub(super) fn listing(&self, now_ns: i64) -> String {
        let mut out = String::new();
        for address in self.ages.values() {
            let Some(entry) = self.entries.get(address) else { continue };
            let known = entry.ethernet.is_some() && !self.is_expired(entry.age, now_ns);
            let ethernet = entry.ethernet.unwrap_or(Ethernet([0xFF; 6]));
            let us = (now_ns - entry.age.0).max(0) / 1000;
            let age = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
            let _ = writeln!(out, "{address} {} {ethernet} {age}", u8::from(known));
        }
        out
    }

    /// How many addresses there are.
    pub(super) fn count(&self) -> String {
        self.entries.len().to_string()
    }

    /// How many packets wait.
    pub(super) fn length(&self) -> String {
        self.waiting.to_string()
    }

    /// Enters who has an address, as `IP ETH` says; packets that can go on now.
    pub(super) fn insert_entry(&mut self, entry: &str, now_ns: i64) -> Result<Vec<Packet>, Refused> {
        let (scope, mut words) =
            (Scope { element: "", names: &Default::default() }, entry.split_whitespace());
        let address = A::parse(word(&mut words, "IP")?, &scope).map_err(|e| format!("IP: {e}"))?;
        let ethernet = Ethernet::parse(word(&mut words, "ETH")?, &scope).map_err(|e| format!("ETH: {e}"))?;
        let known = (ethernet.0 != [0xFF; 6]).then_some(ethernet);
        Ok(self.insert(address, known, now_ns, &mut vec![]).into_iter().collect())
    }

    /// Forgets who has an address; packets that go.
    pub(super) fn delete_entry(&mut self, address: &str, now_ns: i64) -> Result<Vec<Packet>, Refused> {
        let (scope, mut words) =
            (Scope { element: "", names: &Default::default() }, address.split_whitespace());
        let address = A::parse(word(&mut words, "IP")?, &scope).map_err(|e| format!("IP: {e}"))?;
        let mut gone = vec![];
        self.insert(address, None, now_ns, &mut gone);
        Ok(gone)
    }
}

/// The next word of what is written to a handler.
fn word<'a>(words: &mut impl Iterator<Item = &'a str>, what: &str) -> Result<&'a str, String> {
    words.next().ok_or_else(|| format!("{what}: required argument missing"))
}

/// See [`CLASS`].
#[derive(Debug)]
pub struct ArpTable {
    table: Arc<SharedTable>,
}

impl Element for ArpTable {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(pace) = self.table.lock().pace_ns() {
            let timer = cx.new_timer();
            cx.set_timer_after(timer, pace);
        }
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let mut gone = vec![];
        let pace = {
            let mut table = self.table.lock();
            table.expire(cx.now_ns(), usize::MAX, &mut gone);
            table.pace_ns()
        };
        gone.into_iter().for_each(|packet| cx.drop(0, packet));
        if let Some(pace) = pace {
            cx.set_timer_after(timer, pace);
        }
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<ArpTable>() {
            self.table.lock().adopt(&mut old.table.lock());
        }
    }
}
