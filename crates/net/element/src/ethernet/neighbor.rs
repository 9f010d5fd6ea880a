//! `IP6NDAdvertiser`, `IP6NDSolicitor`: who has which IPv6 address on an Ethernet
//! (RFC 4861; RFC 2464 for the addresses of groups).

use std::net::Ipv6Addr;
use std::sync::Arc;

use graph::class::{Handlers, Headers, action, call, keyword, mandatory, read, rest, write};
use graph::value::{Ethernet, Prefix6, Value};
use graph::{Action, Class, Cx, Each, Element, Fault, Next, PerPacket, Tally, TimerId};
use memory::annotation::Header;
use memory::{Batch, Packet};
use neighbor::Held;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{MacAddress, icmpv6, ipv6, ndp};

use super::arp_table::{self, SharedTable};
use super::encap::{LEN as ETHER, prepend};
use super::resolution_timer::{GIVE_UP, ResolutionTimer};
use crate::annotation::{DST_IP6, PacketAnnotations};
use crate::ip::{header, ip6};

/// The class of what answers.
pub static ADVERTISER: Class = Class {
    name: "IP6NDAdvertiser",
    brief: "answers IPv6 neighbour solicitations",
    doc: "Solicitations for an address that an entry covers become the answer; the longest prefix counts. \
          Whoever checks whether its own address is taken is told so as well. All other packets are dropped.",
    arguments: &[rest("ENTRY", "`IP6/LENGTH… ETH`: who has these addresses")],
    drops: &["no solicitation for an address here"],
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
                        return Err(Fault::new(format!("argument {i} has more than one Ethernet address")));
                    }
                    _ => return Err(Fault::new(format!("argument {i} should be `IP6/MASK ETHADDR'"))),
                }
            }
            if prefixes.is_empty() {
                return Err(Fault::new(format!("argument {i} had no IP6 address and masks")));
            }
            let ethernet = ethernet.ok_or_else(|| Fault::new(format!("argument {i}: missing ETH")))?;
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
        arp_table::ENTRY_PACKET_CAPACITY,
        arp_table::SLIM_FACTOR,
        arp_table::TIMEOUT,
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
        write("insert", "`IP ETH`: who has an address", |solicitor, cx, value| {
            let gone = solicitor.table.insert_entry(value, cx.now_ns())?;
            gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
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
    drops: &["no destination", "waited in vain", "no headroom", "no buffers"],
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
            address,
            ethernet,
            poll_ns: poll.0.max(0),
            table: Arc::new(table),
            resolution,
            queries: Tally::default(),
            drops: Tally::default(),
        }))
    },
    ..Class::BASE
};

const NO_DESTINATION: usize = 0;
const IN_VAIN: usize = 1;
const NO_HEADROOM: usize = 2;
const NO_BUFFERS: usize = 3;

/// A message of either kind: its fixed part, and one option.
const MESSAGE: usize = ndp::HEADER_LEN + ndp::ADDRESS_OPTION_LEN;
const FRAME: usize = ETHER + ip6::LEN + MESSAGE;

/// The Ethernet address of a group.
fn group_address(group: Ipv6Addr) -> [u8; 6] {
    MacAddress::of_ipv6_group(group).0
}

/// What a neighbour message says.
struct Said<'a> {
    kind: u8,
    src: Ipv6Addr,
    target: Ipv6Addr,
    link_src: [u8; 6],
    options: &'a [u8],
}

/// Reads a frame's neighbour message, if it is a valid one (RFC 4861, 7.1).
fn parse(frame: &[u8]) -> Option<Said<'_>> {
    let link = ethernet::Frame::new_checked(frame).ok()?;
    let (fixed, rest) = link.into_payload().split_first_chunk::<{ ip6::LEN }>()?;
    let ip = ipv6::Header::new(fixed);
    let valid = link.ethertype() == EtherType::IPV6
        && ip.version() == 6
        && ip.next_header() == Protocol::ICMPV6
        && ip.hop_limit() == ndp::HOP_LIMIT;
    let message = rest.get(..ip.payload_len())?;
    let (head, options) = message.split_first_chunk()?;
    let head = ndp::Header::new(head);
    let target = head.target();
    let sound = valid
        && head.code() == 0
        && !target.is_multicast()
        && icmpv6::Packet::new_unchecked(message).verify_checksum(ip.addresses());
    let (kind, link_src) = (head.message_type(), link.src().0);
    sound.then_some(Said { kind, src: ip.src(), target, link_src, options })
}

/// The header of a frame with an IPv6 packet.
fn link_header(src: [u8; 6], dst: [u8; 6]) -> ethernet::Repr {
    ethernet::Repr { dst: MacAddress(dst), src: MacAddress(src), ethertype: EtherType::IPV6 }
}

/// A message to be sent.
struct Message {
    kind: u8,
    flags: u8,
    link: ([u8; 6], [u8; 6]),
    ends: (Ipv6Addr, Ipv6Addr),
    target: Ipv6Addr,
    option: (u8, [u8; 6]),
}

impl Message {
    /// As a frame.
    fn frame(&self) -> [u8; FRAME] {
        let mut bytes = [0; FRAME];
        let mut frame = ethernet::Frame::new_unchecked(&mut bytes[..]);
        let link = link_header(self.link.0, self.link.1);
        link.emit(&mut frame);
        let mut packet = ipv6::Packet::new_unchecked(frame.payload_mut());
        let (src, dst) = self.ends;
        let mut ip = packet.header_mut();
        let addresses = ip.fill(src, dst, Protocol::ICMPV6, MESSAGE as u16, ndp::HOP_LIMIT);
        let message = packet.payload_mut();
        if let Some((head, option)) = message.split_first_chunk_mut() {
            let mut head = ndp::Header::new(head);
            head.set_message_type(self.kind);
            head.set_flags(self.flags);
            head.set_target(self.target);
            if let Some(mut option) = ndp::AddressOption::of_mut(option) {
                option.set_kind(self.option.0);
                option.set_mac(MacAddress(self.option.1));
            }
        }
        icmpv6::Packet::new_unchecked(message).fill_checksum(addresses);
        bytes
    }
}

/// See [`ADVERTISER`].
#[derive(Debug, Clone)]
pub struct Advertiser {
    entries: Arc<[(Prefix6, Ethernet)]>,
}

impl Advertiser {
    fn lookup(&self, address: Ipv6Addr) -> Option<[u8; 6]> {
        let covers = |prefix: &Prefix6| {
            let differs = prefix.address.to_bits() ^ address.to_bits();
            differs.leading_zeros() >= u32::from(prefix.length)
        };
        self.entries.iter().find(|(prefix, _)| covers(prefix)).map(|(_, ethernet)| ethernet.0)
    }

    fn answer(&self, frame: &[u8]) -> Option<[u8; FRAME]> {
        let asked = parse(frame).filter(|said| said.kind == icmpv6::NEIGHBOR_SOLICITATION)?;
        let own = self.lookup(asked.target)?;
        // Whoever has no address yet checks whether another has it: all are told.
        let (dst, link_dst, flags) = match asked.src.is_unspecified() {
            true => (ndp::ALL_NODES, group_address(ndp::ALL_NODES), ndp::ROUTER | ndp::OVERRIDE),
            false => (asked.src, asked.link_src, ndp::ROUTER | ndp::SOLICITED | ndp::OVERRIDE),
        };
        let answer = Message {
            kind: icmpv6::NEIGHBOR_ADVERTISEMENT,
            flags,
            link: (own, link_dst),
            ends: (asked.target, dst),
            target: asked.target,
            option: (ndp::TARGET_ADDRESS, own),
        };
        Some(answer.frame())
    }
}

impl PerPacket for Advertiser {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(answer) = self.answer(packet) else { return Action::drop(0) };
        if let Some(tail) = packet.split_next() {
            cx.free(tail);
        }
        packet.clear_annotations();
        if packet.copy_at(memory::HEADROOM, &answer).is_err() {
            return Action::drop(0);
        }
        packet.set_header(Header::Link, 0);
        header::mark(packet, ETHER, ip6::LEN);
        Action::ON
    }

    fn replicate(&self) -> Option<Advertiser> {
        Some(self.clone())
    }
}

/// See [`SOLICITOR`].
pub struct Solicitor {
    address: Ipv6Addr,
    ethernet: Ethernet,
    poll_ns: i64,
    table: Arc<SharedTable<Ipv6Addr>>,
    resolution: ResolutionTimer,
    queries: Tally,
    drops: Tally,
}

impl Solicitor {
    fn ether(&self, dst: [u8; 6]) -> [u8; ETHER] {
        let (dst, src) = (MacAddress(dst), MacAddress(self.ethernet.0));
        ethernet::Header::between(dst, src, EtherType::IPV6).into_inner()
    }

    /// Asks for an address: all whose address ends like it (RFC 4291, 2.7.1), or whoever
    /// had it.
    fn ask(&mut self, cx: &mut Cx<'_>, target: Ipv6Addr, known: Option<[u8; 6]>) {
        let group = ndp::solicited_group(target);
        let (dst, link_dst) = match known {
            Some(ethernet) => (target, ethernet),
            None => (group, group_address(group)),
        };
        let asked = Message {
            kind: icmpv6::NEIGHBOR_SOLICITATION,
            flags: 0,
            link: (self.ethernet.0, link_dst),
            ends: (self.address, dst),
            target,
            option: (ndp::SOURCE_ADDRESS, self.ethernet.0),
        };
        let Some(mut packet) = cx.packet(&asked.frame()) else { return cx.count_drops(NO_BUFFERS, 1) };
        packet.set_header(Header::Link, 0);
        header::mark(&mut packet, ETHER, ip6::LEN);
        self.queries.add(1);
        cx.emit(1.min(cx.outputs() - 1), packet);
    }

    fn send(&mut self, cx: &mut Cx<'_>, mut packet: Packet, dst: [u8; 6]) {
        if prepend(&mut packet, &self.ether(dst)) {
            cx.emit(0, packet);
        } else {
            self.drops.add(1);
            cx.drop(NO_HEADROOM, packet);
        }
    }

    fn resolve(&mut self, cx: &mut Cx<'_>, packet: Packet, now_ns: i64) {
        let address = Ipv6Addr::from(packet.bytes_at::<16>(DST_IP6));
        if address.is_multicast() {
            return self.send(cx, packet, group_address(address));
        }
        if address.is_unspecified() {
            self.drops.add(1);
            return cx.drop(NO_DESTINATION, packet);
        }
        let known = self.table.lock().lookup(address, now_ns, self.poll_ns);
        if let Some((ethernet, ask)) = known {
            if ask {
                self.ask(cx, address, Some(ethernet.0));
            }
            return self.send(cx, packet, ethernet.0);
        }
        let mut gone = vec![];
        let kept = self.table.lock().hold(address, packet, now_ns, &mut gone);
        self.resolution.wait(cx);
        match kept {
            Held::Waits { ask: false } => {}
            Held::Waits { ask: true } => self.ask(cx, address, None),
            Held::Refused(packet) => gone.push(packet),
        }
        gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
    }

    fn learn(&mut self, cx: &mut Cx<'_>, frame: &[u8], now_ns: i64) {
        let said = parse(frame).filter(|said| said.kind == icmpv6::NEIGHBOR_ADVERTISEMENT);
        let Some(said) = said else { return };
        let target = ndp::address_in(said.options, ndp::TARGET_ADDRESS);
        let Some(MacAddress(ethernet)) = target.filter(|mac| !mac.is_multicast()) else { return };
        let mut gone = vec![];
        let ready = self.table.lock().insert(said.target, Some(MacAddress(ethernet)), now_ns, &mut gone);
        gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
        ready.into_iter().for_each(|packet| self.send(cx, packet, ethernet));
    }
}

impl Element for Solicitor {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(pace) = self.table.lock().expiry_interval_ns() {
            let timer = cx.new_timer();
            cx.set_timer_after(timer, pace);
        }
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
        let mut gone = vec![];
        let pace = {
            let mut table = self.table.lock();
            table.expire(cx.now_ns(), usize::MAX, &mut gone);
            table.expiry_interval_ns()
        };
        gone.into_iter().for_each(|packet| cx.drop(IN_VAIN, packet));
        if let Some(pace) = pace {
            cx.set_timer_after(timer, pace);
        }
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        self.resolution.wait(cx);
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Solicitor>() else { return };
        self.queries.add(old.queries.own());
        self.drops.add(old.drops.own());
        if (self.address, self.ethernet) == (old.address, old.ethernet) {
            self.table.lock().adopt(&mut old.table.lock());
        }
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Solicitor {
            address: self.address,
            ethernet: self.ethernet,
            poll_ns: self.poll_ns,
            table: self.table.clone(),
            resolution: self.resolution.for_another(),
            queries: self.queries.for_another(),
            drops: self.drops.for_another(),
        }))
    }
}
