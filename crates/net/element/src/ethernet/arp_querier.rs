//! `ARPQuerier`: Ethernet headers for IPv4 packets, with the address of whoever has
//! the next hop's; asks for it if need be (RFC 826; RFC 1122, 2.3.2).

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::class::{Handlers, action, both, call, keyword, mandatory, read, write};
use graph::clock::SECOND_NS;
use graph::element::account::{Account, WaitingIn};
use graph::element::kernel::Kernel;
use graph::value::{Ethernet, Prefix4, Span, Value, parse_alone};
use graph::{Class, Conf, ConfFault, Cx, Element, Named, Next, PerThreadCounter, Refused, TimerId};
use memory::annotation::Header;
use memory::{Batch, Packet};
use neighbor::{Cache, Held, Learned, Resolution, Resolver, arp};
use wire::{MacAddress, ethernet};

use super::arp_table::{self, SharedTable};
use super::encap::{LEN, prepend};
use super::resolution_timer::{GIVE_UP, ResolutionTimer};
use crate::kernels;
use crate::standard::same_kind;
use graph::annotation::{PacketAnnotations, VLAN_TCI};
use port::Reason;

pub static CLASS: Class = Class {
    name: "ARPQuerier",
    brief: "puts Ethernet headers in front of IPv4 packets, and asks for the addresses it needs",
    doc: "Input 0 takes IPv4 packets whose destination annotation is the next hop; they leave at output 0 \
          in Ethernet frames. While nobody said who has the next hop's address they wait, and a request \
          leaves at the last output. Input 1 takes the answers. Requests for one address are sent ten times \
          a second, later every other second; an address in use is asked for again after POLL_TIMEOUT. \
          Broadcast and multicast addresses need no request. With three outputs requests leave at output 1, \
          and packets for whose next hop nobody answered within GIVE_UP at output 2, as they came: an \
          ICMPError behind it tells their senders that the host is unreachable (RFC 1812, 3.3.2).",
    ports: "2/1-3",
    processing: "h/h",
    flow: "xy/x",
    arguments: &[
        mandatory("IP", "this host's address, with a prefix for its broadcast address"),
        mandatory("ETH", "this host's Ethernet address; may be left out when one name stands for both"),
        arp_table::CAPACITY,
        arp_table::ENTRY_CAPACITY,
        arp_table::INCOMPLETE_CAPACITY,
        arp_table::ENTRY_PACKET_CAPACITY,
        arp_table::SLIM_FACTOR,
        arp_table::TIMEOUT,
        arp_table::REQUEST_RATE,
        keyword("BROADCAST", "the broadcast address; that of the prefix"),
        keyword("TABLE", "an ARPTable to use; one of its own"),
        keyword("POLL_TIMEOUT", "when an address in use is asked for again, 0 for never; 60 s"),
        keyword("BROADCAST_POLL", "whether it is asked for with a broadcast even then; false"),
        GIVE_UP,
    ],
    handlers: &Handlers::<ArpQuerier>(&[
        call("table", "`IP VALID ETH AGE`, a line for each address, the oldest first", |querier, cx, _| {
            Ok(querier.table.listing(cx.now_ns()))
        }),
        read("stats", "packets dropped and requests sent, in words", |querier| {
            let killed = querier.drops.sum() + querier.table.lock().drops();
            format!("{killed} packets killed\n{} ARP queries sent\n", querier.queries.sum())
        }),
        read("count", "addresses in the table", |querier| querier.table.lock().len().to_string()),
        read("length", "packets that wait", |querier| querier.table.lock().waiting().to_string()),
        read("evictions", arp_table::EVICTIONS, |querier| querier.table.lock().evictions().to_string()),
        read("suppressed", arp_table::SUPPRESSED, |querier| querier.table.lock().suppressed().to_string()),
        read("queries", "requests sent", |querier| querier.queries.sum().to_string()),
        read("responses", "answers that came", |querier| querier.responses.sum().to_string()),
        read("drops", "packets dropped that never waited", |querier| querier.drops.sum().to_string()),
        both(
            "broadcast",
            "the broadcast address",
            |querier| shown(&querier.host.broadcast),
            |querier, _, value| set(&querier.host.broadcast, value),
        ),
        both(
            "ipaddr",
            "this host's address",
            |querier| shown(&querier.host.address),
            |querier, _, value| set(&querier.host.address, value),
        ),
        write("insert", arp_table::INSERT, |querier, cx, value| {
            let evicted = querier.table.insert_entry(value, cx.now_ns())?;
            evicted.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
            Ok(())
        }),
        write("delete", "forgets who has an address", |querier, cx, value| {
            let evicted = querier.table.delete_entry(value, cx.now_ns())?;
            evicted.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
            Ok(())
        }),
        action("clear", "forgets all, and sets counts to zero", |querier, cx| {
            [&querier.queries, &querier.responses, &querier.drops]
                .into_iter()
                .for_each(PerThreadCounter::reset);
            let mut gone = vec![];
            querier.table.lock().clear(&mut gone);
            gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
        }),
    ]),
    drops: &[
        Reason::NoDestination,
        Reason::WaitedInVain,
        Reason::NoHeadroom,
        Reason::NoBuffers,
        Reason::NoOwnAddress,
    ],
    account: Account::Keeps(&WaitingIn(ArpQuerier::waiting)),
    example: "q :: ARPQuerier(10.0.0.1/24, 0:0:c0:ae:67:ef);\nrt -> [0]q -> ToDevice(p);\n\
              c :: Classifier(12/0806 20/0002, -); c[0] -> [1]q;",
    see: &["ARPTable", "ARPResponder", "EtherEncap", "ARPFaker"],
    live: true,
    kernel: Kernel::Excluded(kernels::LOCK),
    make: |setup, conf| Ok(Box::new(ArpQuerier::parse(conf, setup.outputs)?)),
    ..Class::BASE
};

/// What all threads' copies have in common.
#[derive(Debug)]
struct Host {
    address: AtomicU32,
    broadcast: AtomicU32,
    ethernet: Ethernet,
    poll_ns: i64,
    broadcast_poll: bool,
}

impl Host {
    /// The resolver of the host as it is now.
    #[inline(always)]
    fn resolver(&self) -> Resolver<Ipv4Addr> {
        Resolver {
            mac: MacAddress(self.ethernet.0),
            address: Ipv4Addr::from_bits(self.address.load(Ordering::Relaxed)),
            broadcast: Some(Ipv4Addr::from_bits(self.broadcast.load(Ordering::Relaxed))),
            poll_ns: self.poll_ns,
            polls_all: self.broadcast_poll,
        }
    }
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It has its header.
    Sent,
    /// It has its header, and its address is asked for again.
    SentAndAsk,
    /// Its address is not known.
    Unknown,
    /// The header of packets to this address has no room, and whether it is asked for again.
    NoHeadroom { dst: MacAddress, asks: bool },
    /// Dropped, for this reason.
    Drop(usize),
}

/// What a request takes over from the packet that it is sent for.
#[derive(Debug, Clone, Copy)]
struct Cause {
    timestamp_ns: i64,
    tci: [u8; 2],
}

impl Cause {
    fn of(packet: &Packet) -> Cause {
        Cause { timestamp_ns: packet.annotations().timestamp_ns, tci: packet.bytes_at(VLAN_TCI) }
    }
}

const NO_DESTINATION: usize = 0;
const IN_VAIN: usize = 1;
const NO_HEADROOM: usize = 2;
const NO_BUFFERS: usize = 3;
const UNCONFIGURED: usize = 4;

/// An `ARPQuerier` element; [`CLASS`] says what it does.
pub struct ArpQuerier {
    host: Arc<Host>,
    table: Arc<SharedTable>,
    cache: Cache<Ipv4Addr>,
    resolution: ResolutionTimer,
    /// The name of the table, when it is another element's.
    table_name: Option<String>,
    queries: PerThreadCounter,
    responses: PerThreadCounter,
    drops: PerThreadCounter,
    warned: bool,
    outcomes: Box<[Outcome; Batch::MAX]>,
}

impl ArpQuerier {
    fn parse(conf: &mut Conf<'_>, outputs: usize) -> Result<ArpQuerier, ConfFault> {
        let scope = *conf.scope();
        let resolution = ResolutionTimer::parse(conf, outputs)?;
        let table: SharedTable = SharedTable::parse(conf)?;
        let broadcast: Option<Ipv4Addr> = conf.keyword("BROADCAST")?;
        let table_name: Option<String> = conf.keyword("TABLE")?;
        let poll = conf.keyword("POLL_TIMEOUT")?.unwrap_or(Span(60 * SECOND_NS));
        let broadcast_poll = conf.keyword("BROADCAST_POLL")?.unwrap_or(false);
        let (ip, eth) = (conf.keyword::<Prefix4>("IP")?, conf.keyword::<Ethernet>("ETH")?);
        let mut rest = conf.rest();
        let wanted = usize::from(ip.is_none()) + usize::from(eth.is_none());
        if rest.len() == 1 && wanted == 2 {
            rest.push(rest[0].clone()); // a name that stands for both
        }
        if rest.len() > wanted {
            return Err("too many arguments".into());
        }
        let mut rest = rest.iter();
        let missing = |what: &str| ConfFault::new(format!("{what}: required argument missing"));
        let prefix = match ip {
            Some(prefix) => prefix,
            None => Prefix4::parse(rest.next().ok_or_else(|| missing("IP"))?, &scope)
                .map_err(|e| ConfFault::new(format!("IP: {e}")))?,
        };
        let ethernet = match eth {
            Some(ethernet) => ethernet,
            None => Ethernet::parse(rest.next().ok_or_else(|| missing("ETH"))?, &scope)
                .map_err(|e| ConfFault::new(format!("ETH: {e}")))?,
        };
        let of_prefix = prefix.address | !prefix.mask;
        let of_prefix = if of_prefix == prefix.address { Ipv4Addr::BROADCAST } else { of_prefix };
        let host = Host {
            address: AtomicU32::new(prefix.address.to_bits()),
            broadcast: AtomicU32::new(broadcast.unwrap_or(of_prefix).to_bits()),
            ethernet,
            poll_ns: poll.0.max(0),
            broadcast_poll,
        };
        Ok(ArpQuerier {
            host: Arc::new(host),
            table: Arc::new(table),
            cache: Cache::default(),
            resolution,
            table_name,
            queries: PerThreadCounter::default(),
            responses: PerThreadCounter::default(),
            drops: PerThreadCounter::default(),
            warned: false,
            outcomes: Box::new([Outcome::Sent; Batch::MAX]),
        })
    }

    /// This host's address, as a number.
    fn address(&self) -> u32 {
        self.host.address.load(Ordering::Relaxed)
    }

    /// Packets that wait in a table of its own.
    fn waiting(&self) -> usize {
        if self.table_name.is_some() { 0 } else { self.table.lock().waiting() }
    }

    /// Puts headers in front of the packets whose next hop is known; whether that
    /// was all.
    fn resolve(&mut self, batch: &mut Batch, now_ns: i64) -> bool {
        let resolver = self.host.resolver();
        let mut all = true;
        for (place, packet) in batch.iter_mut().enumerate() {
            let found = self.cache.lookup(&self.table, &resolver, packet.dst_ip(), now_ns);
            let mut send = |dst, asks| match (prepend(packet, &resolver.header(dst)), asks) {
                (true, false) => Outcome::Sent,
                (true, true) => Outcome::SentAndAsk,
                (false, asks) => Outcome::NoHeadroom { dst, asks },
            };
            let outcome = match found {
                Resolution::Known(dst) => send(dst, false),
                Resolution::Refresh(dst) => send(dst, true),
                Resolution::Unspecified => Outcome::Drop(NO_DESTINATION),
                Resolution::Unknown => Outcome::Unknown,
            };
            all &= outcome == Outcome::Sent;
            self.outcomes[place] = outcome;
        }
        all
    }

    /// Sends a request for an address on behalf of a packet of which `of` tells: to
    /// whoever had it, if that is known.
    fn ask(&mut self, cx: &mut Cx<'_>, target: Ipv4Addr, of: Cause, known: Option<MacAddress>) {
        let Some(mut asked) = cx.packet(&self.host.resolver().request(target, known)) else {
            return cx.count_drops(NO_BUFFERS, 1);
        };
        asked.set_header(Header::Link, 0);
        asked.set_header(Header::Network, LEN);
        asked.annotations_mut().timestamp_ns = of.timestamp_ns;
        asked.set_bytes_at(VLAN_TCI, of.tci);
        self.queries.add(1);
        cx.emit(1.min(cx.outputs() - 1), asked);
    }

    fn keep(&mut self, cx: &mut Cx<'_>, packet: Packet, now_ns: i64) {
        let address = packet.dst_ip();
        let cause = Cause::of(&packet);
        let mut gone = vec![];
        let kept = self.table.lock().hold(address, packet, now_ns, &mut gone);
        self.resolution.set(cx, &self.table);
        match kept {
            Held::Waits { ask: false } => {}
            Held::Waits { ask: true } => self.ask(cx, address, cause, None),
            Held::Refused(packet) => gone.push(packet),
        }
        gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
    }

    /// Packets that cannot all be sent at once.
    #[cold]
    fn sort_out(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, now_ns: i64) -> Next {
        for (place, packet) in batch.drain().enumerate() {
            match self.outcomes[place] {
                Outcome::Sent => cx.emit(0, packet),
                Outcome::SentAndAsk => {
                    let known = ethernet::Header::of(&packet).map(|header| header.dst());
                    self.ask(cx, packet.dst_ip(), Cause::of(&packet), known);
                    cx.emit(0, packet);
                }
                Outcome::Unknown => self.keep(cx, packet, now_ns),
                Outcome::NoHeadroom { dst, asks } => {
                    if asks {
                        self.ask(cx, packet.dst_ip(), Cause::of(&packet), Some(dst));
                    }
                    self.send(cx, packet, dst);
                }
                Outcome::Drop(reason) => {
                    if reason == NO_DESTINATION && !self.warned {
                        self.warned = true;
                        let me = format!("{} :: {}", cx.name(), cx.class());
                        cx.say(&format!("{me}: would query for 0.0.0.0; missing dest IP addr annotation?\n"));
                    }
                    self.drops.add(1);
                    cx.drop(reason, packet);
                }
            }
        }
        Next::Done
    }

    /// Answers: packets that waited for them go on.
    fn learn(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, now_ns: i64) {
        for packet in batch.iter() {
            if packet.len() >= arp::FRAME_LEN {
                self.responses.add(1);
            }
            let mut gone = vec![];
            let learned = self.table.lock().learn(packet, now_ns, &mut gone);
            gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
            let Some(Learned { mac, released, .. }) = learned else { continue };
            released.into_iter().for_each(|packet| self.send(cx, packet, mac));
        }
        cx.free_batch(batch);
    }

    /// Sends a packet to an address, if need be in another buffer that has the room.
    fn send(&mut self, cx: &mut Cx<'_>, mut packet: Packet, dst: MacAddress) {
        if cx.has_headroom(&mut packet, LEN) && prepend(&mut packet, &self.host.resolver().header(dst)) {
            cx.emit(0, packet);
        } else {
            self.drops.add(1);
            cx.drop(NO_HEADROOM, packet);
        }
    }
}

/// An address as a handler shows it.
fn shown(address: &AtomicU32) -> String {
    Ipv4Addr::from_bits(address.load(Ordering::Relaxed)).to_string()
}

/// Sets an address to what is written to a handler.
fn set(address: &AtomicU32, value: &str) -> Result<(), Refused> {
    let value = parse_alone::<Ipv4Addr>(value)?;
    address.store(value.to_bits(), Ordering::Relaxed);
    Ok(())
}

impl ArpQuerier {
    /// The table of others that is named, if one is.
    fn named_table(&self, named: &Named<'_>) -> Result<Option<Arc<SharedTable>>, String> {
        let table = |name: &String| {
            named.shared::<SharedTable>(name).ok_or_else(|| format!("TABLE: '{name}' is no ARPTable"))
        };
        self.table_name.as_ref().map(table).transpose()
    }
}

impl Element for ArpQuerier {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.named_table(named).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        match self.named_table(&cx.named())? {
            Some(table) => self.table = table,
            None => {
                self.table.start_expiry(cx, None);
            }
        }
        self.resolution.init(cx, &self.table);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        let now_ns = cx.now_ns();
        if input == 1 {
            self.learn(cx, batch, now_ns);
            return Next::Done;
        }
        if self.address() == 0 {
            self.drops.add(batch.len() as u64);
            cx.drop_batch(UNCONFIGURED, batch);
            return Next::Done;
        }
        if self.resolve(batch, now_ns) { Next::Push(0) } else { self.sort_out(cx, batch, now_ns) }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if self.resolution.is_timer(timer) {
            for (address, cause) in self.resolution.fire(cx, &self.table, IN_VAIN, Cause::of) {
                self.ask(cx, address, cause, None);
            }
            return;
        }
        self.table.expire(cx, timer, IN_VAIN);
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(ArpQuerier {
            host: self.host.clone(),
            table: self.table.clone(),
            cache: Cache::default(),
            resolution: self.resolution.for_another(),
            table_name: self.table_name.clone(),
            queries: self.queries.for_another(),
            responses: self.responses.for_another(),
            drops: self.drops.for_another(),
            warned: false,
            outcomes: Box::new([Outcome::Sent; Batch::MAX]),
        }))
    }

    /// As in Click, TABLE and which timer gives packets up stay as they were, and another address
    /// of this host forgets all addresses.
    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let new: Box<ArpQuerier> = same_kind(new)?;
        if self.table_name.is_none() {
            let mut gone = vec![];
            let mut table = self.table.lock();
            if self.address() != new.address() || self.host.ethernet != new.host.ethernet {
                table.clear(&mut gone);
            }
            table.set_limits(new.table.lock().limits());
            drop(table);
            gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
        }
        (self.host, self.cache) = (new.host, Cache::default());
        Ok(())
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        self.resolution.set_anyway(cx);
        let Some(old) = (old as &mut dyn Any).downcast_mut::<ArpQuerier>() else { return };
        let same = self.address() == old.address() && self.host.ethernet == old.host.ethernet;
        if same && self.table_name.is_none() && old.table_name.is_none() {
            self.table.lock().adopt(&mut old.table.lock());
        }
    }
}
