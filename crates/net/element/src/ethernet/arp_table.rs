//! `ARPTable`: who has which IPv4 address, and the packets that wait to know
//! (the crate `neighbor`), as a configuration and its handlers see it. IPv6's neighbours are
//! kept in the same way.

use std::fmt::{Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::sync::Arc;

use graph::class::{Argument, Handlers, action, call, keyword, read, write};
use graph::clock::SECOND_NS;
use graph::element::account::{Account, WaitingIn};
use graph::value::{Ethernet, Scope, Span, Value};
use graph::{Class, Conf, ConfFault, Cx, Element, Refused, TimerId};
use memory::Packet;
use neighbor::{Limits, Neighbor, SyncTable, Table};
use port::Reason;
use wire::MacAddress;

use crate::standard::same_kind;

pub(super) const CAPACITY: Argument = keyword("CAPACITY", "packets that may wait, 0 for no limit; 2048");
pub(super) const ENTRY_CAPACITY: Argument =
    keyword("ENTRY_CAPACITY", "addresses kept, 0 for a million; 65536");
pub(super) const INCOMPLETE_CAPACITY: Argument = keyword(
    "INCOMPLETE_CAPACITY",
    "addresses kept that nobody answered for, 0 for as many as there are; the oldest go; 4096",
);
pub(super) const REQUEST_RATE: Argument =
    keyword("REQUEST_RATE", "requests a second for addresses that are not known, 0 for no limit; 10000");
pub(super) const ENTRY_PACKET_CAPACITY: Argument =
    keyword("ENTRY_PACKET_CAPACITY", "packets that may wait for one address, 0 for no limit; 0");
pub(super) const SLIM_FACTOR: Argument =
    keyword("CAPACITY_SLIM_FACTOR", "when too many packets wait, one in so many of them goes; 2");
pub(super) const TIMEOUT: Argument = keyword("TIMEOUT", "how long an answer counts, 0 for ever; 300 s");

/// What handlers of all tables do.
pub(super) const INSERT: &str = "`IP ETH`: who has an address; what waits for it waits for an answer still";
pub(super) const EVICTIONS: &str = "addresses forgotten early, because others needed their place";
pub(super) const SUPPRESSED: &str = "requests not sent, because of REQUEST_RATE";

pub static CLASS: Class = Class {
    name: "ARPTable",
    brief: "keeps who has which IPv4 address, for several ARPQueriers",
    doc: "A table that ARPQueriers share by their TABLE argument. When more packets wait than CAPACITY, the \
          oldest go. A scan of a network fills the table with addresses that nobody answers for: these have \
          a capacity of their own, so that none is forgotten that is known, and REQUEST_RATE bounds what is \
          asked (RFC 6583).",
    ports: "0/0",
    processing: "a/a",
    arguments: &[
        CAPACITY,
        ENTRY_CAPACITY,
        INCOMPLETE_CAPACITY,
        ENTRY_PACKET_CAPACITY,
        SLIM_FACTOR,
        TIMEOUT,
        REQUEST_RATE,
    ],
    handlers: &Handlers::<ArpTable>(&[
        call("table", "`IP VALID ETH AGE`, a line for each address, the oldest first", |table, cx, _| {
            Ok(table.table.listing(cx.now_ns()))
        }),
        read("drops", "packets dropped because they waited too long, or too many did", |table| {
            table.table.lock().drops().to_string()
        }),
        read("count", "addresses", |table| table.table.lock().len().to_string()),
        read("length", "packets that wait", |table| table.table.lock().waiting().to_string()),
        read("evictions", EVICTIONS, |table| table.table.lock().evictions().to_string()),
        read("suppressed", SUPPRESSED, |table| table.table.lock().suppressed().to_string()),
        write("insert", INSERT, |table, cx, value| {
            let evicted = table.table.insert_entry(value, cx.now_ns())?;
            evicted.into_iter().for_each(|packet| cx.drop(0, packet));
            Ok(())
        }),
        write("delete", "forgets who has an address", |table, cx, value| {
            let evicted = table.table.delete_entry(value, cx.now_ns())?;
            evicted.into_iter().for_each(|packet| cx.drop(0, packet));
            Ok(())
        }),
        action("clear", "forgets all, and drops what waits", |table, cx| {
            let mut gone = vec![];
            table.table.lock().clear(&mut gone);
            gone.into_iter().for_each(|packet| cx.drop(0, packet));
        }),
    ]),
    drops: &[Reason::WaitedInVain],
    live: true,
    account: Account::Keeps(&WaitingIn(|table: &ArpTable| table.table.lock().waiting())),
    example: "t :: ARPTable(TIMEOUT 60); q :: ARPQuerier(10.0.0.1, 0:0:c0:ae:67:ef, TABLE t);",
    see: &["ARPQuerier", "ARPResponder"],
    make: |setup, conf| {
        let table: Arc<SharedTable> = Arc::new(SharedTable::parse(conf)?);
        conf.complete()?;
        setup.share(table.clone());
        Ok(Box::new(ArpTable { table, timer: None }))
    },
    ..Class::BASE
};

/// An address that hosts have on a link, as configurations write it.
pub(super) trait Address: neighbor::Address + Display + Value {}

impl Address for Ipv4Addr {}
impl Address for Ipv6Addr {}

/// A table that elements share.
#[derive(Debug)]
pub(super) struct SharedTable<A: Address = Ipv4Addr> {
    table: SyncTable<A>,
}

impl<A: Address> Deref for SharedTable<A> {
    type Target = SyncTable<A>;

    fn deref(&self) -> &SyncTable<A> {
        &self.table
    }
}

impl<A: Address> SharedTable<A> {
    pub(super) fn parse(conf: &mut Conf<'_>) -> Result<SharedTable<A>, ConfFault> {
        let capacity: usize = conf.keyword("CAPACITY")?.unwrap_or(2048);
        let usual = Limits::default();
        let entries: usize = conf.keyword("ENTRY_CAPACITY")?.unwrap_or(usual.addresses);
        let incomplete: usize = conf.keyword("INCOMPLETE_CAPACITY")?.unwrap_or(usual.incomplete);
        let requests: u32 = conf.keyword("REQUEST_RATE")?.unwrap_or(usual.requests);
        let each: usize = conf.keyword("ENTRY_PACKET_CAPACITY")?.unwrap_or(0);
        let slim: usize = conf.keyword("CAPACITY_SLIM_FACTOR")?.unwrap_or(2);
        let timeout = conf.keyword("TIMEOUT")?.unwrap_or(Span(300 * SECOND_NS));
        if slim == 0 {
            return Err("CAPACITY_SLIM_FACTOR cannot be zero".into());
        }
        let unlimited = |n: usize| if n == 0 { usize::MAX } else { n };
        let limits = Limits {
            packets: unlimited(capacity),
            packets_each: unlimited(each),
            slim,
            addresses: unlimited(entries),
            incomplete: unlimited(incomplete),
            requests,
            timeout_ns: timeout.0.max(0),
            wait_ns: 0,
        };
        Ok(SharedTable { table: SyncTable::new(Table::new(limits)) })
    }

    /// Sets a timer for [`expire`](SharedTable::expire), if addresses expire: a new one, where
    /// there is none yet.
    pub(super) fn start_expiry(&self, cx: &mut Cx<'_>, timer: Option<TimerId>) -> Option<TimerId> {
        let Some(pace) = self.lock().expiry_interval_ns() else { return timer };
        let timer = timer.unwrap_or_else(|| cx.new_timer());
        cx.set_timer_after(timer, pace);
        Some(timer)
    }

    /// Forgets addresses that expired, drops the packets that waited for them, and sets the
    /// timer again.
    pub(super) fn expire(&self, cx: &mut Cx<'_>, timer: TimerId, reason: usize) {
        let mut gone = vec![];
        let pace = {
            let mut table = self.lock();
            table.expire(cx.now_ns(), &mut gone);
            table.expiry_interval_ns()
        };
        gone.into_iter().for_each(|packet| cx.drop(reason, packet));
        if let Some(pace) = pace {
            cx.set_timer_after(timer, pace);
        }
    }

    /// `IP VALID ETH AGE`, a line for each address, the oldest first.
    pub(super) fn listing(&self, now_ns: i64) -> String {
        let mut out = String::new();
        for Neighbor { address, mac, is_valid, age_ns } in self.lock().iter(now_ns) {
            let ethernet = Ethernet(mac.unwrap_or(MacAddress::BROADCAST).0);
            let us = age_ns / 1000;
            let age = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
            let _ = writeln!(out, "{address} {} {ethernet} {age}", u8::from(is_valid));
        }
        out
    }

    /// Enters who has an address, as `IP ETH` says; packets that waited for an address which made
    /// room for it.
    pub(super) fn insert_entry(&self, entry: &str, now_ns: i64) -> Result<Vec<Packet>, Refused> {
        let (scope, mut words) =
            (Scope { element: "", names: &Default::default() }, entry.split_whitespace());
        let address = A::parse(word(&mut words, "IP")?, &scope).map_err(|e| format!("IP: {e}"))?;
        let ethernet = Ethernet::parse(word(&mut words, "ETH")?, &scope).map_err(|e| format!("ETH: {e}"))?;
        none_left(&mut words)?;
        let mac = Some(MacAddress(ethernet.0)).filter(|mac| *mac != MacAddress::BROADCAST);
        let mut evicted = vec![];
        self.lock().enter(address, mac, now_ns, &mut evicted);
        Ok(evicted)
    }

    /// Forgets who has an address; packets that waited for an address which made room for it.
    pub(super) fn delete_entry(&self, address: &str, now_ns: i64) -> Result<Vec<Packet>, Refused> {
        let (scope, mut words) =
            (Scope { element: "", names: &Default::default() }, address.split_whitespace());
        let address = A::parse(word(&mut words, "IP")?, &scope).map_err(|e| format!("IP: {e}"))?;
        none_left(&mut words)?;
        let mut gone = vec![];
        self.lock().enter(address, None, now_ns, &mut gone);
        Ok(gone)
    }
}

/// The next word of what is written to a handler.
fn word<'a>(words: &mut impl Iterator<Item = &'a str>, what: &str) -> Result<&'a str, String> {
    words.next().ok_or_else(|| format!("{what}: required argument missing"))
}

/// That no word follows in what is written to a handler.
fn none_left<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<(), String> {
    words.next().map_or(Ok(()), |_| Err("too many arguments".to_owned()))
}

/// An `ARPTable` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct ArpTable {
    table: Arc<SharedTable>,
    timer: Option<TimerId>,
}

impl Element for ArpTable {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.timer = self.table.start_expiry(cx, None);
        Ok(())
    }

    /// What it knows stays, and what waits.
    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let new: Box<ArpTable> = same_kind(new)?;
        let limits = new.table.lock().limits();
        self.table.lock().set_limits(limits);
        self.timer = self.table.start_expiry(cx, self.timer);
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.table.expire(cx, timer, 0);
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<ArpTable>() {
            self.table.lock().adopt(&mut old.table.lock());
        }
    }
}
