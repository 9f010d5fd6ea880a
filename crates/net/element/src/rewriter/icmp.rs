//! `ICMPRewriter`: errors about packets that were rewritten (RFC 5508, 4.2).

use std::net::Ipv4Addr;
use std::sync::Arc;

use graph::class::{Headers, keyword, mandatory};
use graph::element::kernel::Kernel;
use graph::value::{Raw, parse_alone};
use graph::{Action, Class, Cx, Each, Named, PerPacket, Setup};
use memory::Packet;
use wire::icmpv4::offset::{CHECKSUM, IDENTIFIER, SEQUENCE};
use wire::ip::{Ports, Protocol};
use wire::{checksum, icmpv4, ipv4, udp};

use super::apply::{Annotate, changed, changed_u32, set_addresses, sum_at};
use super::classes::is_rewriter;
use super::flow_id::FlowId;
use super::flows::Ask;
use super::kind::{DCCP, ICMP, TCP, UDP, addresses};
use super::mapper::all;
use super::rewriter::{Core, now_ms};
use crate::kernels;
use graph::annotation::{AnnotationOffset, PacketAnnotations};
use graph::ip_header::{self, u16_at};
use port::Reason;

pub static CLASS: Class = Class {
    name: "ICMPRewriter",
    brief: "rewrites ICMP errors about packets that rewriters changed",
    doc: "An error that answers a rewritten packet goes to the host that sent it, and quotes the packet as \
          that host sent it; all checksums follow. It leaves at output 0, or where its flow's packets leave, \
          counted from the OFFSET in `NAME:OFFSET`. Other packets are dropped.",
    ports: "1/1-",
    processing: "h/h",
    arguments: &[
        mandatory("MAPS", "rewriters to ask, `NAME` or `NAME:OFFSET`, separated by spaces"),
        keyword("DST_ANNO", "whether the destination annotation follows; true"),
        keyword("REPLY_ANNO", "a byte that rewriters kept of a flow's first packet; none"),
    ],
    drops: &[Reason::NoKnownFlow, Reason::NotIcmp],
    example: "rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);\nicmp -> ICMPRewriter(rw) -> inside;",
    see: &["IPRewriter", "ICMPPingRewriter", "IPAddrRewriter"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Excluded(kernels::LOCK),
    make: |setup, conf| {
        let Raw(maps) = conf.mandatory("MAPS")?;
        let destination = conf.keyword("DST_ANNO")?.unwrap_or(true);
        let reply = conf.keyword::<AnnotationOffset<1>>("REPLY_ANNO")?.map(|place| place.0);
        conf.complete()?;
        let names: Vec<Name> = maps.split_whitespace().map(Name::parse).collect();
        let wrong: Vec<String> = names.iter().filter_map(|name| name.wrong(setup)).collect();
        let none = wrong.len() == names.len();
        let none = none.then(|| "no IP rewriters supplied".to_string());
        let all: Vec<String> = wrong.into_iter().chain(none).collect();
        if !all.is_empty() {
            return Err(all.join("\n").into());
        }
        let annotate = Annotate { destination, reply, aggregate: false };
        Ok(Each::boxed(IcmpRewriter { names, maps: vec![], annotate }))
    },
    ..Class::BASE
};

/// A rewriter's name, and where its outputs are among this element's.
#[derive(Debug, Clone)]
struct Name {
    text: String,
    name: String,
    /// `Some(None)` is not a number.
    offset: Option<Option<i32>>,
}

impl Name {
    fn parse(text: &str) -> Name {
        let (name, offset) = match text.split_once(':') {
            Some((name, offset)) => (name, Some(parse_alone::<i32>(offset).ok())),
            None => (text, None),
        };
        Name { text: text.into(), name: name.into(), offset }
    }

    /// Where its outputs begin, if they are not all the first.
    fn offset(&self) -> Option<usize> {
        usize::try_from(self.offset.flatten()?).ok()
    }

    /// What is wrong with it, if that can be said before elements are made.
    fn wrong(&self, setup: &Setup<'_>) -> Option<String> {
        let refused = |name: &str| Some(format!("{name} not an IP rewriter"));
        let element = setup.find(&self.name);
        let Some(element) = element.filter(|_| self.offset != Some(None)) else {
            return refused(if self.offset == Some(None) { &self.text } else { &self.name });
        };
        let end = self.offset().map_or(0, |offset| offset.saturating_add(element.pull_outputs.len()));
        if end > setup.outputs {
            let plural = if setup.outputs == 1 { "output" } else { "outputs" };
            return Some(format!("{} port offset requires more than {} {plural}", self.text, setup.outputs));
        }
        if is_rewriter(element.kind) { None } else { refused(&self.name) }
    }
}

/// An `ICMPRewriter` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct IcmpRewriter {
    names: Vec<Name>,
    /// The rewriters, and where their outputs are among this one's.
    maps: Vec<Map>,
    annotate: Annotate,
}

/// What an error quotes: where its transport header is, if that tells the flow.
struct Quote {
    protocol: u8,
    /// Of the packets that answer the quoted one.
    id: FlowId,
    transport: Option<usize>,
}

fn quote(message: &[u8]) -> Option<Quote> {
    let bytes = message.get(icmpv4::HEADER_LEN..)?;
    let ip = ipv4::Header::of(bytes)?;
    let length = ip.header_len();
    if ip.version() != 4 || length < ip_header::LEN {
        return None;
    }
    let protocol = ip.protocol().0;
    let mut id = FlowId { src: ip.dst().to_bits(), dst: ip.src().to_bits(), ..FlowId::default() };
    let rest = bytes.get(length..).filter(|_| !ip.is_later_fragment()).unwrap_or(&[]);
    let known = match (protocol, Ports::of(rest)) {
        (TCP | UDP | DCCP, Some(ports)) if rest.len() >= udp::HEADER_LEN => {
            (id.src_port, id.dst_port) = (ports.dst(), ports.src());
            true
        }
        (ICMP, _) if rest.len() >= SEQUENCE && rest.first() == Some(&icmpv4::ECHO_REQUEST) => {
            id.src_port = u16_at(rest, IDENTIFIER);
            true
        }
        _ => false,
    };
    Some(Quote { protocol, id, transport: known.then_some(icmpv4::HEADER_LEN + length) })
}

/// Rewrites the quoted packet as its sender sent it; the error's checksum follows.
fn restore(message: &mut [u8], quote: &Quote, src: u32, dst: u32, to: FlowId) {
    let before = checksum::sum(&message[CHECKSUM + 2..]);
    let ip = &mut message[icmpv4::HEADER_LEN..];
    let (old_src, old_dst) = addresses(ip);
    set_addresses(ip, (src, dst));
    if let Some(transport) = quote.transport.and_then(|at| message.get_mut(at..)) {
        let at = if quote.protocol == ICMP { Some(CHECKSUM) } else { sum_at(quote.protocol, transport) };
        let mut sum = at.map_or(0, |at| u16_at(transport, at));
        if quote.protocol == ICMP {
            sum = changed(sum, u16_at(transport, IDENTIFIER), to.dst_port);
            transport[IDENTIFIER..SEQUENCE].copy_from_slice(&to.dst_port.to_be_bytes());
        } else if let Some(mut ports) = Ports::of_mut(transport) {
            sum = changed_u32(changed_u32(sum, old_src, src), old_dst, dst);
            sum = changed(changed(sum, ports.src(), to.dst_port), ports.dst(), to.src_port);
            ports.set_src(to.dst_port);
            ports.set_dst(to.src_port);
        }
        if let Some(at) = at {
            transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
    let sum = changed(u16_at(message, CHECKSUM), before, checksum::sum(&message[CHECKSUM + 2..]));
    message[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}

impl IcmpRewriter {
    /// Rewrites an error; its output.
    fn rewrite(&self, packet: &mut Packet, now: i64) -> Option<usize> {
        let (ip, message) = ip_header::split_mut(packet)?;
        let quote = quote(message).filter(|_| message.first().is_some_and(|kind| icmpv4::is_error(*kind)))?;
        let found = self.maps.iter().find_map(|(core, offset)| {
            core.ask(quote.protocol, quote.id, Ask::Back, now, |flow, _, entry| {
                let back = entry.back;
                let output = offset.map_or(0, |offset| offset + flow.output(back));
                (flow.rewritten(back), output, back.then_some(flow.annotation))
            })
        });
        let (to, output, annotation) = found?;
        // A flow of addresses alone leaves the other one as it is.
        let or = |ours: u32, theirs: u32| if ours == 0 { theirs } else { ours };
        let (src, dst) = (or(to.dst, quote.id.dst), or(to.src, quote.id.src));
        let ends = addresses(ip);
        let outer = (ends.1 == quote.id.dst).then_some(src);
        if let Some(address) = outer {
            set_addresses(ip, (ends.0, address));
        }
        restore(message, &quote, src, dst, to);
        if let Some(address) = outer.filter(|_| self.annotate.destination) {
            packet.set_dst_ip(Ipv4Addr::from_bits(address));
        }
        if let (Some(at), Some(annotation)) = (self.annotate.reply, annotation) {
            packet.set_u8_at(at, annotation);
        }
        Some(output)
    }
}

/// A rewriter, and where it writes an annotation.
type Map = (Arc<Core>, Option<usize>);

impl IcmpRewriter {
    /// The rewriters that are named, each with where it writes an annotation.
    fn find_maps(&self, named: &Named<'_>) -> Result<Vec<Map>, String> {
        let find = |name: &Name| {
            let core = named.shared::<Core>(&name.name);
            Ok((core.ok_or_else(|| format!("{} not an IP rewriter", name.name))?, name.offset()))
        };
        all(self.names.iter().map(find))
    }
}

impl PerPacket for IcmpRewriter {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.find_maps(named).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.maps = self.find_maps(&cx.named())?;
        Ok(())
    }

    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if ip_header::split(packet).is_none_or(|(ip, _)| ip_header::protocol(ip) != Protocol::ICMP) {
            return Action::drop(1);
        }
        self.rewrite(packet, now_ms(cx)).map_or(Action::drop(0), Action::out)
    }

    fn replicate(&self) -> Option<IcmpRewriter> {
        Some(self.clone())
    }
}
