//! `AddressTranslator`: the addresses of IPv6 packets of one side made others, by a list or as flows come.

use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;

use graph::annotation::{DST_IP6, PacketAnnotations};
use graph::class::{Handlers, Headers, mandatory, read, rest};
use graph::value::{Scope, Value};
use graph::{Action, Class, Conf, ConfFault, Cx, Each, PerPacket, ip_header};
use memory::Packet;
use port::Reason;
use wire::ip::{Ports, Protocol, checksum_offset};
use wire::{checksum, icmpv6, ipv6};

use super::ip6;
use super::ip6_packet::unparse;
use super::leases::Leases;

/// The class of what translates addresses.
pub static CLASS: Class = Class {
    name: "AddressTranslator",
    brief: "gives hosts other IPv6 addresses, and ports, towards the outside",
    doc: "Packets begin with their IPv6 header. Those on their way out pass input and output 0: their source, \
          an inner address, becomes the mapped one. Those on their way in pass input and output 1: their \
          destination, a mapped address, becomes the inner one. Checksums of TCP, UDP and ICMPv6 follow.\n\n\
          Behind STATIC and as many static mappings stands whether there are others, made as flows come. If \
          so, three arguments follow: whether flows have ports of their own, whether packets on their way in \
          make mappings (else those on their way out do), and either addresses, which one host has at a time, \
          or one address and a range of ports, `ADDRESS FIRST LAST`, which one flow has at a time; an echo's \
          identifier is its port. When all are taken, those come free that nobody used for 300 seconds; Click \
          never frees one. Fragments, other protocols and extension headers are dropped, and, where \
          flows have ports, ICMPv6 messages that are no echoes; what an ICMPv6 error quotes stays as it was. \
          An address of a static mapping is not given to other hosts; a range of ports may be of one, and \
          answers of its flows come back to them.",
    ports: "2/2",
    processing: "h/h",
    arguments: &[
        mandatory("STATIC", "how many static mappings follow"),
        rest(
            "ARGUMENT",
            "if STATIC is not 0, whether they are of ports, and each `INNER MAPPED` or `INNER PORT MAPPED PORT`; \
             then whether there are dynamic ones; if so, whether of ports, whether made inwards, and what there \
             is to give",
        ),
    ],
    handlers: &Handlers::<AddressTranslator>(&[read(
        "table",
        "the mappings, a line each: inner address, mapped address; of ports with them, and dynamic ones with the \
         protocol and the peer",
        AddressTranslator::table,
    )]),
    drops: &[
        Reason::BadInput,
        Reason::TooShort,
        Reason::AnotherProtocol,
        Reason::NoFreeAddress,
        Reason::NoFlow,
    ],
    example: "at :: AddressTranslator(0, 1, 1, 0, ::1.0.0.1 6000 6010); rt6 -> [0]at; at[1] -> rt6;",
    see: &["ProtocolTranslator64", "ProtocolTranslator46", "IPAddrRewriter"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |setup, conf| {
        let translator = read_arguments(conf)?;
        if translator.left > 0 {
            setup.warn(format!("{} arguments behind the last that means something", translator.left));
        }
        Ok(Each::boxed(translator))
    },
    ..Class::BASE
};

// Places in the class's drops.
const BAD: usize = 0;
const TOO_SHORT: usize = 1;
const UNTRANSLATED: usize = 2;
const NO_FREE: usize = 3;
const NO_MAPPING: usize = 4;

// Places in a static mapping.
const INNER: usize = 0;
const MAPPED: usize = 1;

/// Which way packets go, as their port says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Out of the network whose addresses are translated.
    Out,
    /// Into that network.
    In,
}

/// One end of a flow; without a port where there is none, or it does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct End {
    address: Ipv6Addr,
    port: Option<u16>,
}

/// Whose packet it is: `near` is the end that is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Flow {
    near: End,
    far: End,
    protocol: u8,
}

/// What mappings are made of as flows come.
#[derive(Debug)]
enum Dynamic {
    /// Nothing: there are static ones alone.
    Nothing,
    /// Addresses, which hosts are given.
    Addresses { all: Vec<Ipv6Addr>, numbers: HashMap<Ipv6Addr, usize>, leases: Leases<Ipv6Addr> },
    /// Ports of one address, which flows are given.
    Ports { address: Ipv6Addr, first: u16, leases: Leases<Flow> },
}

/// An `AddressTranslator` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct AddressTranslator {
    /// Static mappings as they were listed.
    listed: Vec<[End; 2]>,
    /// What stands for the near end of packets out and in.
    fixed: [HashMap<End, End>; 2],
    fixed_ports: bool,
    /// The way of packets that make mappings.
    makes: Way,
    dynamic: Dynamic,
    /// Arguments that nobody read.
    left: usize,
}

/// Arguments in their order, whose number is told with what is wrong.
struct Arguments<'a> {
    texts: std::vec::IntoIter<String>,
    at: usize,
    scope: Scope<'a>,
}

impl Arguments<'_> {
    /// The next argument as `read` understands it.
    fn next<T>(
        &mut self,
        what: &str,
        read: impl FnOnce(&str, &Scope<'_>) -> Option<T>,
    ) -> Result<T, ConfFault> {
        self.at += 1;
        let text = self.texts.next();
        let value = text.as_deref().and_then(|text| read(text, &self.scope));
        value.ok_or_else(|| ConfFault::new(format!("argument {} should be : {what}", self.at)))
    }

    fn bool(&mut self) -> Result<bool, ConfFault> {
        self.next("bool", value)
    }
}

fn value<T: Value>(text: &str, scope: &Scope<'_>) -> Option<T> {
    T::parse(text, scope).ok()
}

fn read_arguments(conf: &mut Conf<'_>) -> Result<AddressTranslator, ConfFault> {
    let count: u32 = conf.mandatory("STATIC")?;
    let mut arguments = Arguments { texts: conf.rest().into_iter(), at: 1, scope: *conf.scope() };
    conf.complete()?;
    let fixed_ports = count > 0 && arguments.bool()?;
    let mut listed = vec![];
    for _ in 0..count {
        listed.push(match fixed_ports {
            true => arguments.next("<IP6Address> <port> <IP6Address> <port>", |text, scope| {
                let [inner, port, mapped, mapped_port] = words(text)?;
                Some([end(inner, Some(port), scope)?, end(mapped, Some(mapped_port), scope)?])
            }),
            false => arguments.next("<IP6Address> <IP6Address>", |text, scope| {
                let [inner, mapped] = words(text)?;
                Some([end(inner, None, scope)?, end(mapped, None, scope)?])
            }),
        }?);
    }
    let (mut makes, mut dynamic) = (Way::Out, Dynamic::Nothing);
    if arguments.bool()? {
        let of_ports = arguments.bool()?;
        makes = if arguments.bool()? { Way::In } else { Way::Out };
        dynamic = if of_ports {
            ports(&mut arguments)?
        } else {
            // Answers to an address of a static mapping go to its host.
            let side = if makes == Way::Out { MAPPED } else { INNER };
            addresses(&mut arguments, listed.iter().map(|ends| ends[side].address).collect())?
        };
    }
    let mut fixed = [HashMap::new(), HashMap::new()];
    for [inner, mapped] in &listed {
        // The first that is listed counts. Messages of ICMPv6 have no ports.
        let without = |end: &End| End { port: None, ..*end };
        for (from, to) in [(*inner, *mapped), (without(inner), without(mapped))] {
            fixed[Way::Out as usize].entry(from).or_insert(to);
            fixed[Way::In as usize].entry(to).or_insert(from);
        }
    }
    Ok(AddressTranslator { listed, fixed, fixed_ports, makes, dynamic, left: arguments.texts.len() })
}

/// The words of an argument, if there are so many.
fn words<const N: usize>(text: &str) -> Option<[&str; N]> {
    text.split_whitespace().collect::<Vec<_>>().try_into().ok()
}

fn end(address: &str, port: Option<&str>, scope: &Scope<'_>) -> Option<End> {
    let address = value(address, scope)?;
    Some(End { address, port: port.map(|port| value(port, scope).ok_or(())).transpose().ok()? })
}

/// The addresses that hosts are given: all arguments that are left, except those that are `taken`.
fn addresses(arguments: &mut Arguments<'_>, taken: HashSet<Ipv6Addr>) -> Result<Dynamic, ConfFault> {
    let (mut all, mut numbers) = (vec![], HashMap::new());
    while arguments.texts.len() > 0 {
        let address: Ipv6Addr = arguments.next("<IP6Address>", value)?;
        if taken.contains(&address) {
            continue;
        }
        // One that stands there twice is given once.
        numbers.entry(address).or_insert_with(|| {
            all.push(address);
            all.len() - 1
        });
    }
    let leases = Leases::new(all.len());
    Ok(Dynamic::Addresses { all, numbers, leases })
}

/// The ports that flows are given.
fn ports(arguments: &mut Arguments<'_>) -> Result<Dynamic, ConfFault> {
    arguments.next("<IP6Address> <first port> <last port>", |text, scope| {
        let [address, first, last] = words(text)?;
        let (first, last): (u16, u16) = (value(first, scope)?, value(last, scope)?);
        let leases = (1..=last).contains(&first).then(|| Leases::new(usize::from(last - first) + 1))?;
        Some(Dynamic::Ports { address: value(address, scope)?, first, leases })
    })
}

impl AddressTranslator {
    /// What the near end of a packet becomes, or why it is dropped.
    fn translated(&mut self, way: Way, flow: Flow, now_ns: i64) -> Result<End, usize> {
        // An answer of a flow is this flow's, also where a static mapping has the same address.
        if let (Dynamic::Ports { address, first, leases }, true) = (&mut self.dynamic, self.makes != way) {
            let number = flow.near.port.and_then(|port| port.checked_sub(*first));
            let is_meant = |held: &Flow| (held.far, held.protocol) == (flow.far, flow.protocol);
            let number = number.filter(|_| flow.near.address == *address);
            if let Some(held) = number.and_then(|number| leases.holder(number.into(), now_ns, is_meant)) {
                return Ok(held.near);
            }
        }
        let has_ports = self.fixed_ports && flow.protocol != Protocol::ICMPV6.0;
        let near = End { port: flow.near.port.filter(|_| has_ports), ..flow.near };
        if let Some(to) = self.fixed[way as usize].get(&near) {
            return Ok(End { port: to.port.or(flow.near.port), ..*to });
        }
        let makes = self.makes == way;
        let other = |address| End { address, ..flow.near };
        match &mut self.dynamic {
            Dynamic::Nothing => Err(NO_MAPPING),
            Dynamic::Addresses { all, leases, .. } if makes => {
                let number = leases.of(near.address, now_ns).ok_or(NO_FREE)?;
                Ok(other(all[number]))
            }
            Dynamic::Addresses { numbers, leases, .. } => {
                let holder = numbers.get(&near.address).and_then(|n| leases.holder(*n, now_ns, |_| true));
                holder.map(other).ok_or(NO_MAPPING)
            }
            Dynamic::Ports { .. } if flow.near.port.is_none() => Err(UNTRANSLATED),
            Dynamic::Ports { address, first, leases } if makes => {
                let number = leases.of(flow, now_ns).ok_or(NO_FREE)?;
                Ok(End { address: *address, port: Some(*first + number as u16) })
            }
            Dynamic::Ports { .. } => Err(NO_MAPPING),
        }
    }

    /// Translates a packet, or says why it is dropped.
    fn translate(&mut self, way: Way, packet: &mut Packet, now_ns: i64) -> Result<(), usize> {
        let ip = ipv6::Header::of(packet).ok_or(BAD)?;
        if ip.version() != 6 || packet.total_len() - ip6::LEN < ip.payload_len() {
            return Err(BAD);
        }
        let (src, dst, protocol, length) = (ip.src(), ip.dst(), ip.next_header(), ip.payload_len());
        let (header, payload) = packet.split_first_chunk_mut::<{ ip6::LEN }>().ok_or(BAD)?;
        let length = length.min(payload.len());
        let payload = &mut payload[..length];
        let (near, far) = if way == Way::Out { (src, dst) } else { (dst, src) };
        let (port, far_port) = end_ports(protocol, payload, way)?;
        let (near, far) = (End { address: near, port }, End { address: far, port: far_port });
        let new = self.translated(way, Flow { near, far, protocol: protocol.0 }, now_ns)?;
        resum(protocol, payload, near, new).ok_or(TOO_SHORT)?;
        let mut ip = ipv6::Header::new(header);
        match way {
            Way::Out => ip.set_src(new.address),
            Way::In => ip.set_dst(new.address),
        }
        if let Some(port) = new.port {
            set_port(protocol, payload, way, port).ok_or(TOO_SHORT)?;
        }
        if way == Way::In {
            packet.set_bytes_at(DST_IP6, new.address.octets());
        }
        ip_header::mark(packet, 0, ip6::LEN);
        Ok(())
    }

    fn table(&self) -> String {
        let mut lines: Vec<String> = self.listed.iter().map(|[inner, to]| line(*inner, *to)).collect();
        match &self.dynamic {
            Dynamic::Nothing => {}
            Dynamic::Addresses { all, leases, .. } => {
                lines.extend(leases.holders().zip(all).map(|(holder, given)| {
                    let [holder, given] = [*holder, *given].map(|address| End { address, port: None });
                    if self.makes == Way::Out { line(holder, given) } else { line(given, holder) }
                }));
            }
            Dynamic::Ports { address, first, leases } => {
                lines.extend(leases.holders().zip(*first..=u16::MAX).map(|(flow, port)| {
                    let given = End { address: *address, port: Some(port) };
                    let [inner, mapped] =
                        if self.makes == Way::Out { [flow.near, given] } else { [given, flow.near] };
                    format!("{} {} {}", line(inner, mapped), flow.protocol, text(flow.far))
                }));
            }
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

fn line(inner: End, mapped: End) -> String {
    format!("{} {}", text(inner), text(mapped))
}

fn text(end: End) -> String {
    let port = end.port.map_or(String::new(), |port| format!(" {port}"));
    unparse(end.address) + &port
}

/// The ports of the near and the far end of a packet. An echo's identifier is the near one's.
fn end_ports(protocol: Protocol, payload: &[u8], way: Way) -> Result<(Option<u16>, Option<u16>), usize> {
    if checksum_offset(protocol).is_some_and(|at| payload.get(at..at + 2).is_none()) {
        return Err(TOO_SHORT);
    }
    match protocol {
        Protocol::TCP | Protocol::UDP => {
            let ports = Ports::of(payload).ok_or(TOO_SHORT)?;
            let (src, dst) = (Some(ports.src()), Some(ports.dst()));
            Ok(if way == Way::Out { (src, dst) } else { (dst, src) })
        }
        Protocol::ICMPV6 => {
            let icmp = icmpv6::Header::of(payload).ok_or(TOO_SHORT)?;
            let is_echo = matches!(icmp.message_type(), icmpv6::ECHO_REQUEST | icmpv6::ECHO_REPLY);
            Ok((is_echo.then(|| icmp.identifier()), None))
        }
        _ => Err(UNTRANSLATED),
    }
}

fn set_port(protocol: Protocol, payload: &mut [u8], way: Way, port: u16) -> Option<()> {
    if protocol == Protocol::ICMPV6 {
        icmpv6::Header::of_mut(payload)?.set_identifier(port);
        return Some(());
    }
    let mut ports = Ports::of_mut(payload)?;
    match way {
        Way::Out => ports.set_src(port),
        Way::In => ports.set_dst(port),
    }
    Some(())
}

/// Changes a checksum by what changes (RFC 1624): one that was wrong stays wrong. `None` where the packet
/// ends before it.
fn resum(protocol: Protocol, payload: &mut [u8], from: End, to: End) -> Option<()> {
    let field = payload.get_mut(checksum_offset(protocol)?..)?.first_chunk_mut::<2>()?;
    let old = u16::from_be_bytes(*field);
    if protocol == Protocol::UDP && old == 0 {
        return Some(()); // there is none (RFC 6935)
    }
    let words = |end: End| end.address.segments().into_iter().chain(end.port);
    let changed = words(from).zip(words(to)).filter(|(from, to)| from != to);
    let new = changed.fold(old, |sum, (from, to)| checksum::update(sum, from, to));
    let new = if protocol == Protocol::UDP { checksum::never_zero(new) } else { new };
    *field = new.to_be_bytes();
    Some(())
}

impl PerPacket for AddressTranslator {
    fn packet(&mut self, cx: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action {
        let way = if input == 0 { Way::Out } else { Way::In };
        self.translate(way, packet, cx.now_ns()).map_or_else(Action::drop, |()| Action::out(input))
    }

    /// It is there once: all packets share its mappings.
    fn replicate(&self) -> Option<AddressTranslator> {
        None
    }
}
