//! `AggregateIPFlows`: an aggregate for each TCP connection and UDP flow.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use graph::class::{Handlers, action, keyword, read};
use graph::clock::SECOND_NS;
use graph::value::Span;
use graph::{Class, Cx, Element, Next};
use memory::annotation::Header;
use memory::{Batch, Packet};
use wire::ip::{Ports, Protocol};
use wire::tcp::Flags;
use wire::{icmpv4, ipv4, tcp};

use super::notice::Notifier;
use super::trace_info::{Stats, TraceInfo};
use graph::annotation::{AGGREGATE, PAINT, PacketAnnotations};
use graph::ip_header::{LEN, is_first_fragment, is_fragment, u16_at, u32_at};

const TCP: u8 = Protocol::TCP.0;
const UDP: u8 = Protocol::UDP.0;
const ICMP: u8 = Protocol::ICMP.0;
/// Fragments that are held altogether.
const MOST_FRAGMENTS: usize = 4096;
/// Buckets of a new hash table of Click's.
const BUCKETS: u32 = 63;
/// Packets held of one pair of hosts.
const MOST_OF_PAIR: usize = 1024;

/// The class.
pub static CLASS: Class = Class {
    name: "AggregateIPFlows",
    brief: "numbers TCP connections and UDP flows",
    doc: "Each packet's aggregate is its flow's number, from 1 on; its colour is 0 in the direction of the flow's \
          first packet, 1 in the other. A flow ends when it was silent for its timeout, or a connection is \
          closed and begun anew. With ICMP, errors about a flow belong to it, with colours 2 and 3. With \
          FRAGMENTS, fragments wait until the first one has come, and so do later packets between the same \
          hosts: write `clear` at the end. Times are those of the packets. What is none of that goes to \
          output 1, or is dropped, as are packets of new flows when there are CAPACITY already.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        keyword("TCP_TIMEOUT", "for connections, in seconds; 86400"),
        keyword("TCP_DONE_TIMEOUT", "for connections that were closed, in seconds; 30"),
        keyword("UDP_TIMEOUT", "for UDP flows; 60 s"),
        keyword("FRAGMENT_TIMEOUT", "for fragments; 30 s"),
        keyword("REAP", "how often flows are looked through; 20 minutes"),
        keyword("ICMP", "errors belong to the flow they are about; false"),
        keyword("TRACEINFO", "a file that is told of each flow, in XML; none"),
        keyword("SOURCE", "the element whose `filename` and `packet_filepos` stand in it; none"),
        keyword("FRAGMENTS", "fragments belong to flows; true where packets are pushed"),
        keyword("CAPACITY", "flows at the most; 1048576"),
    ],
    handlers: &Handlers::<Flows>(&[
        read("nflows", "flows it knows", |flows| flows.flows.to_string()),
        action("clear", "ends all flows, and lets fragments go", |flows, cx| {
            flows.reap(cx, i64::MAX / SECOND_NS);
            flows.notifier.clone().sweep(cx);
        }),
    ]),
    drops: &["no flow", "fragment without a first one", "too many flows"],
    example: "FromDump(in.pcap, STOP true, FORCE_IP true) -> af :: AggregateIPFlows -> AggregateCounter -> Discard",
    see: &["AggregateIP", "AggregateIPAddrPair", "AggregateCounter", "ToIPFlowDumps", "AggregateLast"],
    make: |setup, conf| {
        let seconds = |n: Option<u32>, usual: i64| n.map_or(usual, i64::from);
        let tcp = seconds(conf.keyword("TCP_TIMEOUT")?, 86400);
        let tcp_done = seconds(conf.keyword("TCP_DONE_TIMEOUT")?, 30);
        let mut span = |key, usual| -> Result<i64, graph::Fault> {
            Ok(conf.keyword::<Span>(key)?.map_or(usual, |span| span.0 / SECOND_NS))
        };
        let udp = span("UDP_TIMEOUT", 60)?;
        let fragment = span("FRAGMENT_TIMEOUT", 30)?;
        let reap_every = span("REAP", 1200)?;
        let icmp = conf.keyword("ICMP")?.unwrap_or(false);
        let trace = TraceInfo::new(conf.keyword("TRACEINFO")?, conf.keyword("SOURCE")?);
        let fragments = conf.keyword("FRAGMENTS")?;
        let capacity = conf.keyword("CAPACITY")?.unwrap_or(1 << 20);
        conf.complete()?;
        let notifier = Arc::new(Notifier::default());
        setup.share(notifier.clone());
        Ok(Box::new(Flows {
            timeouts: Timeouts { tcp, tcp_done, udp, fragment },
            reap_every,
            icmp,
            trace,
            fragments,
            hold: false,
            capacity,
            notifier,
            pairs: HashMap::new(),
            next_pair: 0,
            flows: 0,
            held: 0,
            next: 1,
            active: 0,
            reap_at: None,
            warned: false,
        }))
    },
    ..Class::BASE
};

/// How long flows are remembered, in seconds.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    tcp: i64,
    tcp_done: i64,
    udp: i64,
    fragment: i64,
}

impl Timeouts {
    fn of(&self, protocol: u8, over: u8) -> i64 {
        match (protocol, over) {
            (UDP, _) => self.udp,
            (_, 3) => self.tcp_done,
            _ => self.tcp,
        }
    }
}

/// A protocol and two hosts, the lower address first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Hosts {
    protocol: u8,
    a: u32,
    b: u32,
}

impl Hosts {
    /// When it is its turn, among those that came as the first, second, ...: TCP before
    /// UDP, in the order in which Click's hash table has them when it is small.
    fn rank(&self, number: u64) -> (u8, u32, Reverse<u64>) {
        let (one, other) = (self.a.swap_bytes(), self.b.swap_bytes());
        let (low, high) = (one.min(other), one.max(other));
        let hash = (low << 12).wrapping_add(high).wrapping_add(low >> 20 & 0x1F);
        (self.protocol, hash % BUCKETS, Reverse(number))
    }
}

/// A flow.
#[derive(Debug)]
pub(super) struct Flow {
    /// Ports of the lower address and of the other.
    pub(super) ports: (u16, u16),
    pub(super) aggregate: u32,
    pub(super) last_ns: i64,
    /// Which sides have closed it, a bit for each.
    over: u8,
    /// The first packet came from the higher address.
    pub(super) reverse: bool,
    pub(super) stats: Stats,
}

/// All between two hosts.
#[derive(Debug, Default)]
struct Pair {
    /// Pairs are gone through in the order in which they came.
    number: u64,
    /// Those that had packets last at the end.
    flows: Vec<Flow>,
    held: VecDeque<Packet>,
}

/// What a packet says of its flow.
struct Seen {
    hosts: Hosts,
    /// Ports in the order of the hosts; `None` behind the first fragment.
    ports: Option<(u16, u16)>,
    /// From the higher address to the lower.
    flipped: bool,
    /// It is an ICMP error.
    error: bool,
    fragment: bool,
    syn: bool,
}

/// See [`CLASS`].
pub struct Flows {
    timeouts: Timeouts,
    reap_every: i64,
    icmp: bool,
    trace: TraceInfo,
    fragments: Option<bool>,
    /// Fragments are held.
    hold: bool,
    capacity: usize,
    notifier: Arc<Notifier>,
    pairs: HashMap<Hosts, Pair>,
    next_pair: u64,
    flows: usize,
    held: usize,
    next: u32,
    /// The time of the last packet, in seconds.
    active: i64,
    reap_at: Option<i64>,
    warned: bool,
}

/// The IP header inside an ICMP error.
fn embedded(icmp: &[u8]) -> Option<&[u8]> {
    let inner = icmp.get(icmpv4::HEADER_LEN..)?;
    let length = ipv4::header_len(*inner.first()?);
    (icmpv4::is_error(*icmp.first()?) && length >= LEN && inner.len() >= length).then_some(inner)
}

/// The header that tells the flow: the packet's own, or the one an error is about.
fn telling(packet: &Packet, icmp: bool) -> Option<(&[u8], bool)> {
    let ip = packet.header(Header::Network).filter(|ip| ip.len() >= LEN)?;
    if ip[ipv4::offset::PROTOCOL] == ICMP && icmp && is_first_fragment(ip) {
        return packet.header(Header::Transport).and_then(embedded).map(|inner| (inner, true));
    }
    Some((ip, false))
}

fn look(packet: &Packet, icmp: bool) -> Option<Seen> {
    let (ip, error) = telling(packet, icmp)?;
    let (protocol, from, to) =
        (ip[ipv4::offset::PROTOCOL], u32_at(ip, ipv4::offset::SRC), u32_at(ip, ipv4::offset::DST));
    if !matches!(protocol, TCP | UDP) || (from, to) == (0, 0) {
        return None;
    }
    let hosts = Hosts { protocol, a: from.min(to), b: from.max(to) };
    // An error goes the way of the packet that it is about.
    let mut flipped = hosts.a != from;
    let mut ports = None;
    let transport = ip.get(ipv4::header_len(ip[0])..).unwrap_or(&[]);
    if is_first_fragment(ip) {
        let ports_there = Ports::of(transport)?;
        let (sport, dport) = (ports_there.src(), ports_there.dst());
        flipped ^= from == to && sport > dport;
        ports = Some(if flipped { (dport, sport) } else { (sport, dport) });
    }
    let fragment = is_fragment(ip);
    let syn = protocol == TCP
        && !error
        && transport.get(tcp::offset::FLAGS).is_some_and(|flags| Flags(*flags).contains(Flags::SYN));
    Some(Seen { hosts, ports, flipped, error, fragment, syn })
}

impl Flows {
    /// All between two hosts, if there is room for them.
    fn pair(&mut self, hosts: Hosts) -> Option<&mut Pair> {
        let room = self.pairs.len() < self.capacity;
        match self.pairs.entry(hosts) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if !room => None,
            Entry::Vacant(place) => {
                self.next_pair += 1;
                Some(place.insert(Pair { number: self.next_pair, ..Pair::default() }))
            }
        }
    }

    /// The flow's aggregate, and the packet's colour; `None` when there are too many.
    fn find(&mut self, cx: &mut Cx<'_>, seen: &Seen, ports: (u16, u16), at: i64) -> Option<(u32, u8)> {
        let pair = self.pair(seen.hosts)?;
        let known = pair.flows.iter().position(|flow| flow.ports == ports);
        let mut before = None;
        let mut flow = match known {
            Some(known) => {
                let flow = pair.flows.remove(known);
                let age = (at / SECOND_NS).saturating_sub(flow.last_ns / SECOND_NS);
                let dead =
                    age > self.timeouts.of(seen.hosts.protocol, flow.over) || flow.over == 3 && seen.syn;
                if dead {
                    self.trace.end(cx, (seen.hosts.a, seen.hosts.b), &flow);
                    self.notifier.end(flow.aggregate);
                    before = Some(flow.stats.packets);
                }
                (!dead).then_some(flow)
            }
            None if self.flows >= self.capacity => return None,
            None => {
                self.flows += 1;
                None
            }
        };
        let flow = match flow.take() {
            Some(flow) => flow,
            None => {
                let aggregate = self.next;
                self.next = self.next.wrapping_add(1).max(1);
                let mut stats = self.trace.begin(cx, at);
                // As in Click, one that begins anew goes on counting.
                stats.packets = before.unwrap_or_default();
                Flow { ports, aggregate, last_ns: at, over: 0, reverse: seen.flipped, stats }
            }
        };
        let colour = u8::from(seen.flipped ^ flow.reverse) | u8::from(seen.error) << 1;
        let aggregate = flow.aggregate;
        if let Some(pair) = self.pairs.get_mut(&seen.hosts) {
            pair.flows.push(flow);
        }
        Some((aggregate, colour))
    }

    /// Notes down what a packet that goes on tells of its flow.
    fn account(pair: &mut Pair, packet: &Packet) {
        let aggregate = packet.u32_at(AGGREGATE);
        let Some(flow) = pair.flows.iter_mut().rev().find(|flow| flow.aggregate == aggregate) else { return };
        flow.last_ns = packet.annotations().timestamp_ns;
        let colour = packet.u8_at(PAINT);
        if colour >= 2 {
            return;
        }
        flow.stats.packets[usize::from(colour)] += 1;
        let Some(ip) = packet.header(Header::Network).filter(|ip| ip.len() >= LEN) else { return };
        let flags = packet.header(Header::Transport).and_then(|tcp| tcp.get(tcp::offset::FLAGS)).copied();
        if let Some(flags) = flags.filter(|_| ip[ipv4::offset::PROTOCOL] == TCP && is_first_fragment(ip)) {
            match Flags(flags) {
                flags if flags.contains(Flags::RST) => flow.over = 3,
                flags if flags.contains(Flags::FIN) => flow.over |= 1 << colour,
                flags if flags.contains(Flags::SYN) => flow.over = 0,
                _ => {}
            }
        }
    }

    fn handle(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        if packet.annotations().timestamp_ns == 0 {
            if !std::mem::replace(&mut self.warned, true) {
                let what = "warning: packet received without timestamp";
                cx.say(&format!("{} :: {}: {what}\n", cx.name(), cx.class()));
            }
            packet.annotations_mut().timestamp_ns = cx.now_ns();
        }
        let at = packet.annotations().timestamp_ns;
        let Some(seen) = look(&packet, self.icmp) else { return aside(cx, 0, packet) };
        let (aggregate, colour) = match seen.ports {
            None => (0, u8::from(seen.flipped) | u8::from(seen.error) << 1),
            Some(ports) => match self.find(cx, &seen, ports, at) {
                Some(found) => found,
                None => return aside(cx, 2, packet),
            },
        };
        packet.set_u32_at(AGGREGATE, aggregate);
        packet.set_u8_at(PAINT, colour);
        let hold = self.hold && seen.fragment;
        if seen.ports.is_none() && !hold {
            return aside(cx, 0, packet);
        }
        self.active = at / SECOND_NS;
        let Some(pair) = self.pair(seen.hosts) else { return aside(cx, 2, packet) };
        if hold || !pair.held.is_empty() {
            pair.held.push_back(packet);
            self.held += 1;
            return self.release(cx, seen.hosts);
        }
        Flows::account(pair, &packet);
        cx.emit(0, packet);
    }

    /// Lets packets go that were held: those that are too old to wait, and whole ones
    /// at the front.
    fn release(&mut self, cx: &mut Cx<'_>, hosts: Hosts) {
        let oldest = (self.active - self.timeouts.fragment).saturating_mul(SECOND_NS);
        let icmp = self.icmp;
        let Some(pair) = self.pairs.get_mut(&hosts) else { return };
        while let Some(head) = pair.held.front() {
            let whole = telling(head, icmp).is_none_or(|(ip, _)| !is_fragment(ip));
            let full = self.held > MOST_FRAGMENTS || pair.held.len() > MOST_OF_PAIR;
            if !(whole || full || head.annotations().timestamp_ns < oldest) {
                return;
            }
            self.held -= 1;
            Flows::release_one(cx, pair, icmp);
        }
    }

    /// Lets the first packet go that is held: with its flow's aggregate, if any fragment
    /// of the same packet told it.
    fn release_one(cx: &mut Cx<'_>, pair: &mut Pair, icmp: bool) {
        let Some(mut head) = pair.held.pop_front() else { return };
        let id =
            |packet: &Packet| telling(packet, icmp).map(|(ip, _)| u16_at(ip, ipv4::offset::IDENTIFICATION));
        let own = id(&head);
        if head.u32_at(AGGREGATE) == 0 {
            let other = pair.held.iter().find(|other| id(other) == own && other.u32_at(AGGREGATE) != 0);
            let Some(other) = other else { return cx.drop(1, head) };
            let (aggregate, colour) = (other.u32_at(AGGREGATE), other.u8_at(PAINT));
            head.set_u32_at(AGGREGATE, aggregate);
            head.set_u8_at(PAINT, colour);
        } else {
            let (aggregate, colour) = (head.u32_at(AGGREGATE), head.u8_at(PAINT));
            for other in pair.held.iter_mut().filter(|other| id(other) == own) {
                other.set_u32_at(AGGREGATE, aggregate);
                other.set_u8_at(PAINT, colour);
            }
        }
        Flows::account(pair, &head);
        cx.emit(0, head);
    }

    /// Ends flows that were silent for long, at the time `now`.
    fn reap(&mut self, cx: &mut Cx<'_>, now: i64) {
        let mut order: Vec<(u64, Hosts)> = self.pairs.iter().map(|(hosts, p)| (p.number, *hosts)).collect();
        order.sort_unstable_by_key(|(number, hosts)| hosts.rank(*number));
        let active = std::mem::replace(&mut self.active, now);
        for (_, hosts) in order {
            self.release(cx, hosts);
            let Some(pair) = self.pairs.get_mut(&hosts).filter(|pair| pair.held.is_empty()) else { continue };
            let before = pair.flows.len();
            let (trace, notifier, timeouts) = (&mut self.trace, &self.notifier, self.timeouts);
            // Those that had packets last are told first.
            for flow in pair.flows.iter().rev() {
                let timeout = timeouts.of(hosts.protocol, flow.over);
                if flow.last_ns / SECOND_NS < now.saturating_sub(timeout) {
                    notifier.end(flow.aggregate);
                    trace.end(cx, (hosts.a, hosts.b), flow);
                }
            }
            pair.flows.retain(|flow| {
                flow.last_ns / SECOND_NS >= now.saturating_sub(timeouts.of(hosts.protocol, flow.over))
            });
            self.flows -= before - pair.flows.len();
            if pair.flows.is_empty() {
                self.pairs.remove(&hosts);
            }
        }
        self.active = active;
    }
}

fn aside(cx: &mut Cx<'_>, reason: usize, packet: Packet) {
    if cx.outputs() > 1 { cx.emit(1, packet) } else { cx.drop(reason, packet) }
}

impl Element for Flows {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let pulled = cx.is_pull_input(0);
        if self.fragments == Some(true) && pulled {
            return Err(
                "'FRAGMENTS true' is incompatible with pull; run this element in a push context".into()
            );
        }
        self.hold = self.fragments.unwrap_or(!pulled);
        self.trace.open(cx)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        while let Some(packet) = batch.pop_front() {
            self.handle(cx, packet);
            match self.reap_at {
                Some(at) if self.active < at => {}
                due => {
                    if due.is_some() {
                        self.reap(cx, self.active);
                    }
                    self.reap_at = Some(self.active.saturating_add(self.reap_every));
                }
            }
        }
        Next::Done
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        let mut pairs: Vec<(Hosts, Pair)> = self.pairs.drain().collect();
        pairs.sort_unstable_by_key(|(hosts, pair)| hosts.rank(pair.number));
        for (hosts, pair) in pairs {
            pair.held.into_iter().for_each(|packet| cx.free(packet));
            for flow in pair.flows.iter().rev() {
                self.trace.end(cx, (hosts.a, hosts.b), flow);
            }
        }
        self.trace.close(cx);
    }
}
