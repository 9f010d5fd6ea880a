//! `IP6NDAdvertiser`, `IP6NDSolicitor`: who has which IPv6 address on an Ethernet
//! (RFC 4861; RFC 2464 for the addresses of groups).

use std::net::Ipv6Addr;
use std::sync::Arc;

use graph::class::{Handlers, Headers, action, call, keyword, mandatory, read, rest, write};
use graph::element::account::{Account, WaitingIn};
use graph::value::{Ethernet, Prefix6, Value};
use graph::{Action, Class, ConfFault, Cx, Each, Element, Next, PerPacket, PerThreadCounter, TimerId};
use memory::annotation::Header;
use memory::{Batch, Packet};
use neighbor::{Cache, Held, Learned, Resolution, Resolver, nd};
use wire::MacAddress;

use super::arp_table::{self, SharedTable};
use super::encap::{LEN as ETHER, prepend};
use super::resolution_timer::{GIVE_UP, ResolutionTimer};
use crate::ip::ip6;
use graph::annotation::{DST_IP6, PacketAnnotations};
use graph::ip_header;
use port::Reason;

/// The class of what answers.
pub static ADVERTISER: Class = Class {
    name: "IP6NDAdvertiser",
    brief: "answers IPv6 neighbour solicitations",
    doc: "Solicitations for an address that an entry covers become the answer; the longest prefix counts. \
          Whoever checks whether its own address is taken is told so as well. All other packets are dropped.",
    arguments: &[rest("ENTRY", "`IP6/LENGTH… ETH`: who has these addresses")],
    drops: &[Reason::NoSolicitation],
    example: "c :: Classifier(12/86dd 20/3aff 54/87, -);\n\
              c[0] -> IP6NDAdvertiser(2001:db8::1 00:e0:29:05:e5:6f) -> ToDevice(p);",
    see: &["IP6NDSolicitor", "ARPResponder", "Classifier"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let scope = *conf.scope();
        let mut entries = vec![];
        for (i, argument) in conf.rest().iter().enumerate() {
            let (mut prefixes, mut ethernet) = (vec![], None);
            for word in argument.split_whitespace() {
                match (Prefix6::parse(word, &scope), Ethernet::parse(word, &scope)) {
                    (Ok(prefix), _) => prefixes.push(prefix),
                    (_, Ok(found)) if ethernet.is_none() => ethernet = Some(found),
                    (_, Ok(_)) => {
                        return Err(ConfFault::new(format!(
                            "argument {i} has more than one Ethernet address"
                        )));
                    }
                    _ => return Err(ConfFault::new(format!("argument {i} should be `IP6/MASK ETHADDR'"))),
                }
            }
            if prefixes.is_empty() {
                return Err(ConfFault::new(format!("argument {i} had no IP6 address and masks")));
            }
            let ethernet = ethernet.ok_or_else(|| ConfFault::new(format!("argument {i}: missing ETH")))?;
            entries.extend(prefixes.into_iter().map(|prefix| (prefix, ethernet)));
        }
        // The longest first, so that the first that fits is the one.
        entries.sort_by_key(|(prefix, _)| 128 - prefix.length);
        Ok(Each::boxed(Advertiser { entries: entries.into() }))
    },
    ..Class::BASE
};

/// The class of what asks.
pub static SOLICITOR: Class = Class {
    name: "IP6NDSolicitor",
    brief: "puts Ethernet headers in front of IPv6 packets, and asks for the addresses it needs",
    doc: "Input 0 takes IPv6 packets whose destination annotation is the next hop; they leave at output 0 in \
          Ethernet frames. While nobody said who has the next hop's address they wait, and a solicitation \
          leaves at the last output. Input 1 takes the advertisements. Groups need no solicitation. With three \
          outputs solicitations leave at output 1, and packets for whose next hop nobody answered within \
          GIVE_UP at output 2, as they came: an ICMP6Error behind it tells their senders (RFC 4861, 7.2.2).",
    ports: "2/1-3",
    processing: "h/h",
    flow: "xy/x",
    arguments: &[
        mandatory("IP", "this host's address"),
        mandatory("ETH", "this host's Ethernet address"),
        arp_table::CAPACITY,
        arp_table::ENTRY_CAPACITY,
        arp_table::INCOMPLETE_CAPACITY,
        arp_table::ENTRY_PACKET_CAPACITY,
        arp_table::SLIM_FACTOR,
        arp_table::TIMEOUT,
        arp_table::REQUEST_RATE,
        keyword("POLL_TIMEOUT", "when an address in use is asked for again, 0 for never; 60 s"),
        GIVE_UP,
    ],
    handlers: &Handlers::<Solicitor>(&[
        call("table", "`IP VALID ETH AGE`, a line for each address, the oldest first", |solicitor, cx, _| {
            Ok(solicitor.table.listing(cx.now_ns()))
        }),
        read("stats", "packets dropped and solicitations sent, in words", |solicitor| {
            let killed = solicitor.drops.sum() + solicitor.table.lock().drops();
            format!("{killed} packets killed\n{} neighbor solicitations sent\n", solicitor.queries.sum())
        }),
        read("count", "addresses in the table", |solicitor| solicitor.table.lock().len().to_string()),
        read("length", "packets that wait", |solicitor| solicitor.table.lock().waiting().to_string()),
        read("evictions", arp_table::EVICTIONS, |solicitor| solicitor.table.lock().evictions().to_string()),
        read("suppressed", arp_table::SUPPRESSED, |solicitor| {
            solicitor.table.lock().suppressed().to_string()
        }),
        write("insert", arp_table::INSERT, |solicitor, cx, value| {
            let evicted = solicitor.table.insert_entry(value, cx.now_ns())?;
            evicted.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
            Ok(())
        }),
        write("delete", "forgets who has an address", |solicitor, cx, value| {
            let gone = solicitor.table.delete_entry(value, cx.now_ns())?;
            gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
            Ok(())
        }),
        action("clear", "forgets all", |solicitor, cx| {
            let mut gone = vec![];
            solicitor.table.lock().clear(&mut gone);
            gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
        }),
    ]),
    drops: &[Reason::NoDestination, Reason::WaitedInVain, Reason::NoHeadroom, Reason::NoBuffers],
    account: Account::Keeps(&WaitingIn(|solicitor: &Solicitor| solicitor.table.lock().waiting())),
    example: "nds :: IP6NDSolicitor(2001:db8::1, 00:e0:29:05:e5:6f);\nrt -> [0]nds -> ToDevice(p);",
    see: &["IP6NDAdvertiser", "ARPQuerier", "LookupIP6Route"],
    make: |setup, conf| {
        let table = SharedTable::parse(conf)?;
        let resolution = ResolutionTimer::parse(conf, setup.outputs)?;
        let address: Ipv6Addr = conf.mandatory("IP")?;
        let ethernet: Ethernet = conf.mandatory("ETH")?;
        let poll = conf.keyword("POLL_TIMEOUT")?.unwrap_or(graph::value::Span(60_000_000_000));
        conf.complete()?;
        Ok(Box::new(Solicitor {
            resolver: Resolver { poll_ns: poll.0.max(0), ..Resolver::new(MacAddress(ethernet.0), address) },
            table: Arc::new(table),
            cache: Cache::default(),
            resolution,
            queries: PerThreadCounter::default(),
            drops: PerThreadCounter::default(),
        }))
    },
    ..Class::BASE
};

const NO_DESTINATION: usize = 0;
const IN_VAIN: usize = 1;
const NO_HEADROOM: usize = 2;
const NO_BUFFERS: usize = 3;

/// An `IP6NDAdvertiser` element; [`ADVERTISER`] says what it does.
#[derive(Debug, Clone)]
pub struct Advertiser {
    entries: Arc<[(Prefix6, Ethernet)]>,
}

impl Advertiser {
    fn lookup(&self, address: Ipv6Addr) -> Option<MacAddress> {
        let covers = |prefix: &Prefix6| {
            let differs = prefix.address.to_bits() ^ address.to_bits();
            differs.leading_zeros() >= u32::from(prefix.length)
        };
        self.entries.iter().find(|(prefix, _)| covers(prefix)).map(|(_, ethernet)| MacAddress(ethernet.0))
    }

    fn answer(&self, frame: &[u8]) -> Option<[u8; nd::FRAME_LEN]> {
        let asked = nd::solicitation(frame)?;
        Some(asked.advertise(self.lookup(asked.target)?, true))
    }
}

impl PerPacket for Advertiser {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(answer) = self.answer(packet) else { return Action::drop(0) };
        if let Some(tail) = packet.split_next() {
            cx.free_tail(tail);
        }
        packet.clear_annotations();
        if packet.copy_at(memory::HEADROOM, &answer).is_err() {
            return Action::drop(0);
        }
        packet.set_header(Header::Link, 0);
        ip_header::mark(packet, ETHER, ip6::LEN);
        Action::ON
    }

    fn replicate(&self) -> Option<Advertiser> {
        Some(self.clone())
    }
}

/// An `IP6NDSolicitor` element; [`SOLICITOR`] says what it does.
pub struct Solicitor {
    resolver: Resolver<Ipv6Addr>,
    table: Arc<SharedTable<Ipv6Addr>>,
    cache: Cache<Ipv6Addr>,
    resolution: ResolutionTimer,
    queries: PerThreadCounter,
    drops: PerThreadCounter,
}

impl Solicitor {
    /// Asks for an address: all whose address ends like it, or whoever had it.
    fn ask(&mut self, cx: &mut Cx<'_>, target: Ipv6Addr, known: Option<MacAddress>) {
        let asked = self.resolver.request(target, known);
        let Some(mut packet) = cx.packet(&asked) else { return cx.count_drops(NO_BUFFERS, 1) };
        packet.set_header(Header::Link, 0);
        ip_header::mark(&mut packet, ETHER, ip6::LEN);
        self.queries.add(1);
        cx.emit(1.min(cx.outputs() - 1), packet);
    }

    fn send(&mut self, cx: &mut Cx<'_>, mut packet: Packet, dst: MacAddress) {
        if cx.has_headroom(&mut packet, ETHER) && prepend(&mut packet, &self.resolver.header(dst)) {
            cx.emit(0, packet);
        } else {
            self.drops.add(1);
            cx.drop(NO_HEADROOM, packet);
        }
    }

    fn resolve(&mut self, cx: &mut Cx<'_>, packet: Packet, now_ns: i64) {
        let address = Ipv6Addr::from(packet.bytes_at::<16>(DST_IP6));
        let found = self.cache.lookup(&self.table, &self.resolver, address, now_ns);
        match found {
            Resolution::Known(dst) => return self.send(cx, packet, dst),
            Resolution::Refresh(dst) => {
                self.ask(cx, address, Some(dst));
                return self.send(cx, packet, dst);
            }
            Resolution::Unspecified => {
                self.drops.add(1);
                return cx.drop(NO_DESTINATION, packet);
            }
            Resolution::Unknown => {}
        }
        let mut gone = vec![];
        let kept = self.table.lock().hold(address, packet, now_ns, &mut gone);
        self.resolution.set(cx, &self.table);
        match kept {
            Held::Waits { ask: false } => {}
            Held::Waits { ask: true } => self.ask(cx, address, None),
            Held::Refused(packet) => gone.push(packet),
        }
        gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
    }

    fn learn(&mut self, cx: &mut Cx<'_>, frame: &[u8], now_ns: i64) {
        let mut gone = vec![];
        let learned = self.table.lock().learn(frame, now_ns, &mut gone);
        gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
        let Some(Learned { mac, released, .. }) = learned else { return };
        released.into_iter().for_each(|packet| self.send(cx, packet, mac));
    }
}

impl Element for Solicitor {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.table.start_expiry(cx, None);
        self.resolution.init(cx, &self.table);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        let now_ns = cx.now_ns();
        if input == 1 {
            batch.iter().for_each(|packet| self.learn(cx, packet, now_ns));
            cx.free_batch(batch);
        } else {
            batch.drain().for_each(|packet| self.resolve(cx, packet, now_ns));
        }
        Next::Done
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if self.resolution.is_timer(timer) {
            for (address, ()) in self.resolution.fire(cx, &self.table, IN_VAIN, |_| ()) {
                self.ask(cx, address, None);
            }
            return;
        }
        self.table.expire(cx, timer, IN_VAIN);
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        self.resolution.set_anyway(cx);
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Solicitor>() else { return };
        self.queries.add(old.queries.own());
        self.drops.add(old.drops.own());
        let own = |of: &Solicitor| (of.resolver.address, of.resolver.mac);
        if own(self) == own(old) {
            self.table.lock().adopt(&mut old.table.lock());
        }
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Solicitor {
            resolver: self.resolver,
            table: self.table.clone(),
            cache: Cache::default(),
            resolution: self.resolution.for_another(),
            queries: self.queries.for_another(),
            drops: self.drops.for_another(),
        }))
    }
}
