//! `AggregateIPFlows`: an aggregate for each TCP connection and UDP flow.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use graph::class::{Handlers, NOT_TAKEN_OVER, action, keyword, read};
use graph::clock::SECOND_NS;
use graph::value::Span;
use graph::{Class, Cx, Element, Named, Next};
use memory::annotation::Header;
use memory::{Batch, Packet};
use wire::tcp::Flags;
use wire::{ipv4, tcp};

use super::flow_key::{Hosts, Seen, TCP, UDP, parse, telling};
use super::notice::Notifier;
use super::trace_info::{Stats, TraceInfo};
use graph::annotation::{AGGREGATE, PAINT, PacketAnnotations};
use graph::ip_header::{LEN, is_first_fragment, is_fragment, u16_at};
use port::Reason;

/// Fragments that are held altogether.
const MOST_FRAGMENTS: usize = 4096;
/// Packets held of one pair of hosts, which are looked through when one of them goes: those of
/// a datagram of 64 KiB on links of 576 bytes.
const MOST_OF_PAIR: usize = 128;

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
        read("nflows", "flows it knows", |flows| flows.flows.len().to_string()),
        action("clear", "ends all flows, and lets fragments go", |flows, cx| {
            flows.reap(cx, i64::MAX / SECOND_NS);
            flows.notifier.clone().sweep(cx);
        }),
    ]),
    drops: &[Reason::NoFlow, Reason::FragmentWithoutFirst, Reason::TooManyFlows, NOT_TAKEN_OVER],
    example: "FromDump(in.pcap, STOP true, FORCE_IP true) -> af :: AggregateIPFlows -> AggregateCounter -> Discard",
    see: &["AggregateIP", "AggregateIPAddrPair", "AggregateCounter", "ToIPFlowDumps", "AggregateLast"],
    make: |setup, conf| {
        let seconds = |n: Option<u32>, usual: i64| n.map_or(usual, i64::from);
        let tcp = seconds(conf.keyword("TCP_TIMEOUT")?, 86400);
        let tcp_done = seconds(conf.keyword("TCP_DONE_TIMEOUT")?, 30);
        let mut span = |key, usual| -> Result<i64, graph::ConfFault> {
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
            flows: HashMap::new(),
            keys: HashMap::new(),
            turn: 0,
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

/// A connection or flow between two hosts, by its ports.
#[derive(Debug)]
pub(super) struct Flow {
    /// Ports of the lower address and of the other.
    pub(super) ports: (u16, u16),
    pub(super) aggregate: u32,
    pub(super) last_ns: i64,
    /// When it had its last packet, among all packets.
    turn: u64,
    /// Which sides have closed it, a bit for each.
    over: u8,
    /// The first packet came from the higher address.
    pub(super) reverse: bool,
    pub(super) stats: Stats,
}

impl Flow {
    /// A flow that begins with a packet, with the next aggregate.
    fn new(next: &mut u32, seen: &Seen, ports: (u16, u16), at: i64) -> Flow {
        let aggregate = *next;
        *next = next.wrapping_add(1).max(1);
        let (reverse, stats) = (seen.flipped, Stats::default());
        Flow { ports, aggregate, last_ns: at, turn: 0, over: 0, reverse, stats }
    }
}

/// A flow's hosts, and its ports in their order.
type Key = (Hosts, (u16, u16));

/// Two hosts that have flows.
#[derive(Debug, Default)]
struct Pair {
    /// Pairs are gone through in the order in which they came.
    number: u64,
    held: VecDeque<Packet>,
}

/// An `AggregateIPFlows` element; [`CLASS`] says what it does.
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
    flows: HashMap<Key, Flow>,
    /// Which flow has an aggregate.
    keys: HashMap<u32, Key>,
    /// Packets of flows, all in all.
    turn: u64,
    held: usize,
    next: u32,
    /// The time of the last packet, in seconds.
    active: i64,
    reap_at: Option<i64>,
    warned: bool,
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
        self.pair(seen.hosts)?;
        let key = (seen.hosts, ports);
        let room = self.flows.len() < self.capacity;
        self.turn += 1;
        let flow = match self.flows.entry(key) {
            Entry::Vacant(_) if !room => return None,
            Entry::Vacant(place) => {
                let stats = self.trace.begin(cx, at);
                let flow = Flow { stats, ..Flow::new(&mut self.next, seen, ports, at) };
                self.keys.insert(flow.aggregate, key);
                place.insert(flow)
            }
            Entry::Occupied(known) => {
                let flow = known.into_mut();
                let age = (at / SECOND_NS).saturating_sub(flow.last_ns / SECOND_NS);
                let dead =
                    age > self.timeouts.of(seen.hosts.protocol, flow.over) || flow.over == 3 && seen.syn;
                if dead {
                    self.trace.end(cx, (seen.hosts.a, seen.hosts.b), flow);
                    self.notifier.end(flow.aggregate);
                    self.keys.remove(&flow.aggregate);
                    // As in Click, one that begins anew goes on counting.
                    let mut stats = self.trace.begin(cx, at);
                    stats.packets = flow.stats.packets;
                    *flow = Flow { stats, ..Flow::new(&mut self.next, seen, ports, at) };
                    self.keys.insert(flow.aggregate, key);
                }
                flow
            }
        };
        flow.turn = self.turn;
        let colour = u8::from(seen.flipped ^ flow.reverse) | u8::from(seen.error) << 1;
        Some((flow.aggregate, colour))
    }

    /// Notes down what a packet that goes on tells of its flow.
    fn account(&mut self, key: Key, packet: &Packet) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
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
        let Some(seen) = parse(&packet, self.icmp) else { return aside(cx, 0, packet) };
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
        if let Some(ports) = seen.ports {
            self.account((seen.hosts, ports), &packet);
        }
        cx.emit(0, packet);
    }

    /// Lets packets go that were held: those that are too old to wait, and whole ones
    /// at the front.
    fn release(&mut self, cx: &mut Cx<'_>, hosts: Hosts) {
        let oldest = (self.active - self.timeouts.fragment).saturating_mul(SECOND_NS);
        while let Some(pair) = self.pairs.get_mut(&hosts)
            && let Some(head) = pair.held.front()
        {
            let whole = telling(head, self.icmp).is_none_or(|(ip, _)| !is_fragment(ip));
            let full = self.held > MOST_FRAGMENTS || pair.held.len() > MOST_OF_PAIR;
            if !(whole || full || head.annotations().timestamp_ns < oldest) {
                return;
            }
            self.held -= 1;
            if let Some(packet) = release_one(cx, pair, self.icmp) {
                if let Some(&key) = self.keys.get(&packet.u32_at(AGGREGATE)) {
                    self.account(key, &packet);
                }
                cx.emit(0, packet);
            }
        }
    }

    /// The flows of each pair of hosts, those that had packets last first.
    fn by_pair(&self) -> HashMap<Hosts, Vec<Key>> {
        let mut turns: Vec<(u64, Key)> = self.flows.iter().map(|(key, flow)| (flow.turn, *key)).collect();
        turns.sort_unstable_by_key(|(turn, _)| Reverse(*turn));
        let mut by_pair: HashMap<Hosts, Vec<Key>> = HashMap::new();
        turns.into_iter().for_each(|(_, key)| by_pair.entry(key.0).or_default().push(key));
        by_pair
    }

    /// Ends flows that were silent for long, at the time `now`.
    fn reap(&mut self, cx: &mut Cx<'_>, now: i64) {
        let mut order: Vec<(u64, Hosts)> = self.pairs.iter().map(|(hosts, p)| (p.number, *hosts)).collect();
        order.sort_unstable_by_key(|(number, hosts)| hosts.rank(*number));
        let active = std::mem::replace(&mut self.active, now);
        let mut by_pair = self.by_pair();
        for (_, hosts) in order {
            self.release(cx, hosts);
            if self.pairs.get(&hosts).is_none_or(|pair| !pair.held.is_empty()) {
                continue;
            }
            let mut are_left = false;
            for key in by_pair.remove(&hosts).unwrap_or_default() {
                let Some(flow) = self.flows.get(&key) else { continue };
                let timeout = self.timeouts.of(hosts.protocol, flow.over);
                if flow.last_ns / SECOND_NS >= now.saturating_sub(timeout) {
                    are_left = true;
                    continue;
                }
                self.notifier.end(flow.aggregate);
                self.trace.end(cx, (hosts.a, hosts.b), flow);
                self.keys.remove(&flow.aggregate);
                self.flows.remove(&key);
            }
            if !are_left {
                self.pairs.remove(&hosts);
            }
        }
        self.active = active;
    }
}

/// Takes the first packet that is held: with its flow's aggregate, if any fragment of the
/// same packet told it; else it is dropped.
fn release_one(cx: &mut Cx<'_>, pair: &mut Pair, icmp: bool) -> Option<Packet> {
    let mut head = pair.held.pop_front()?;
    let id = |packet: &Packet| telling(packet, icmp).map(|(ip, _)| u16_at(ip, ipv4::offset::IDENTIFICATION));
    let own = id(&head);
    if head.u32_at(AGGREGATE) == 0 {
        let other = pair.held.iter().find(|other| id(other) == own && other.u32_at(AGGREGATE) != 0);
        let Some(other) = other else {
            cx.drop(1, head);
            return None;
        };
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
    Some(head)
}

fn aside(cx: &mut Cx<'_>, reason: usize, packet: Packet) {
    if cx.outputs() > 1 { cx.emit(1, packet) } else { cx.drop(reason, packet) }
}

impl Element for Flows {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.trace.check_names(named)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let pulled = cx.is_pull_input(0);
        if self.fragments == Some(true) && pulled {
            return Err(
                "'FRAGMENTS true' is incompatible with pull; run this element in a push context".into()
            );
        }
        self.hold = self.fragments.unwrap_or(!pulled);
        self.trace.open()
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

    /// Flows go on with their aggregates, and what is held waits on.
    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Flows>() else { return };
        self.pairs = std::mem::take(&mut old.pairs);
        self.flows = std::mem::take(&mut old.flows);
        self.keys = std::mem::take(&mut old.keys);
        self.held = std::mem::take(&mut old.held);
        (self.next_pair, self.next, self.turn) = (old.next_pair, old.next, old.turn);
        (self.active, self.reap_at) = (old.active, old.reap_at);
        self.trace.take_over(&mut old.trace);
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.trace.begin_document(cx);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        let mut by_pair = self.by_pair();
        let mut pairs: Vec<(Hosts, Pair)> = self.pairs.drain().collect();
        pairs.sort_unstable_by_key(|(hosts, pair)| hosts.rank(pair.number));
        let mut held = vec![];
        for (hosts, mut pair) in pairs {
            held.extend(pair.held.drain(..));
            for flow in by_pair.remove(&hosts).iter().flatten().filter_map(|key| self.flows.get(key)) {
                self.trace.end(cx, (hosts.a, hosts.b), flow);
            }
        }
        self.trace.close(cx);
        cx.end_waiting(held);
    }
}
