//! `ICMPError`: tells the sender of a packet what became of it (RFC 792; RFC 1812,
//! 4.3.2 and 5.2.7).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use graph::class::{Handlers, Headers, both, keyword, mandatory, positional};
use graph::element::kernel::Kernel;
use graph::value::{Raw, Value};
use graph::{Action, Class, ConfFault, Cx, Each, PerPacket, Refused};
use memory::annotation::{Header, Reach};
use memory::{DATA_ROOM, HEADROOM, Packet};
use wire::icmpv4::{self, NEEDS_FRAGMENTS, PARAMETER_PROBLEM, REDIRECT, UNREACHABLE};
use wire::ip::Protocol;
use wire::{ipv4, ipv4_option as option, option_list};

use super::kind;
use crate::kernels;
use graph::annotation::{FIX_IP_SRC, ICMP_PARAMETER_PROBLEM, PacketAnnotations};
use graph::chain::Bytes;
use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "ICMPError",
    brief: "makes an ICMP error message for the sender of each packet",
    doc: "A packet becomes an error message with its first bytes, from SRC to the packet's source. There is \
          none for ICMP errors, later fragments, broadcasts, and addresses that are nobody's; such packets \
          are dropped. A redirect names the destination annotation as the better gateway, a parameter \
          problem the byte that its annotation says. FixIPSrc puts the address of the port in that the \
          message leaves by.",
    arguments: &[
        mandatory("SRC", "whom the message is from"),
        mandatory(
            "TYPE",
            "`unreachable`, `sourcequench`, `redirect`, `timeexceeded`, `parameterproblem`, or its number",
        ),
        positional("CODE", "`net`, `host`, `port`, `needfrag`, `transit`, `reassembly`, … or its number; 0"),
        positional("BADADDRS", "addresses whose packets are not answered, such as local broadcast addresses"),
        keyword("MTU", "the longest message, in bytes; 576"),
        keyword("PMTU", "what `needfrag` says is the longest packet; 0"),
        keyword("SET_FIX_ANNO", "whether FixIPSrc is to set the source; true"),
    ],
    handlers: &Handlers::<IcmpError>(&[
        both(
            "src",
            "whom the message is from",
            |error| Ipv4Addr::from_bits(error.set[0].load(Ordering::Relaxed)).to_string(),
            |error, cx, value| {
                error.set[0].store(Ipv4Addr::parse(value, &cx.scope())?.to_bits(), Ordering::Relaxed);
                Ok(())
            },
        ),
        both(
            "mtu",
            "the longest message",
            |error| error.set[1].load(Ordering::Relaxed).to_string(),
            |error, cx, value| error.set_length(1, cx, value),
        ),
        both(
            "pmtu",
            "what `needfrag` says is the longest packet",
            |error| error.set[2].load(Ordering::Relaxed).to_string(),
            |error, cx, value| error.set_length(2, cx, value),
        ),
    ]),
    drops: &[Reason::NoAnswerDue, Reason::NoIpHeader],
    example: "dt :: DecIPTTL; dt[1] -> ICMPError(18.26.4.24, timeexceeded) -> rt;",
    see: &["DecIPTTL", "FixIPSrc", "IPGWOptions", "IPFragmenter", "ICMP6Error"],
    costs: "makes a new packet for each",
    headers: Headers { needs_network: true, finds_network: true, ..Class::BASE.headers },
    live: true,
    kernel: Kernel::Excluded(kernels::ORDER),
    make: |setup, conf| {
        let scope = *conf.scope();
        let src: Ipv4Addr = conf.mandatory("SRC")?;
        let kind: String = conf.mandatory("TYPE")?;
        let code: Option<String> = conf.positional("CODE")?;
        let bad = conf.positional::<Raw>("BADADDRS")?.unwrap_or(Raw(String::new()));
        let mtu: u32 = conf.keyword("MTU")?.unwrap_or(576);
        let pmtu: u32 = conf.keyword("PMTU")?.unwrap_or(0);
        let fix = conf.keyword("SET_FIX_ANNO")?.unwrap_or(true);
        conf.complete()?;
        let kind = kind::number(&kind).ok_or_else(|| ConfFault::new("TYPE: expected ICMP type"))?;
        let kind = u8::try_from(kind).map_err(|_| "ICMP type must be between 0 and 255")?;
        if !icmpv4::is_error(kind) {
            return Err(format!("ICMP type {kind} is not an error type").into());
        }
        let code = kind::code(kind, code.as_deref().unwrap_or("0"));
        let code = code.ok_or("argument 2 takes ICMP code (integer between 0 and 255)")?;
        let bad = bad.0.split_whitespace().map(|word| Ipv4Addr::parse(word, &scope));
        let bad = bad.collect::<Result<Vec<_>, _>>().map_err(|e| format!("BADADDRS: {e}"))?;
        let set = [src.to_bits(), mtu, pmtu].map(AtomicU32::new);
        // All of a router's count together, as Click's do.
        let Numbers(numbers) = &*setup.common::<Numbers>();
        let numbers = numbers.clone();
        Ok(Each::boxed(IcmpError { set: Arc::new(set), kind, code, bad: bad.into(), fix, numbers }))
    },
    ..Class::BASE
};

/// The identification of the next message.
#[derive(Debug)]
struct Numbers(Arc<AtomicU16>);

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers(Arc::new(AtomicU16::new(1)))
    }
}

/// An `ICMPError` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct IcmpError {
    /// Source, MTU and path MTU: the same in all threads.
    set: Arc<[AtomicU32; 3]>,
    kind: u8,
    code: u8,
    bad: Arc<[Ipv4Addr]>,
    fix: bool,
    numbers: Arc<AtomicU16>,
}

impl IcmpError {
    fn is_unicast(&self, address: Ipv4Addr) -> bool {
        !address.is_broadcast() && !address.is_multicast() && !self.bad.contains(&address)
    }

    /// Whether the packet's sender is told (RFC 1812, 4.3.2.7).
    fn is_due(&self, packet: &Packet, header: &[u8], payload: &[u8]) -> bool {
        let (src, dst) = ip_header::ends(header);
        let link = packet.annotations().reach;
        let is_icmp_error = ip_header::protocol(header) == Protocol::ICMP
            && payload.first().is_none_or(|kind| icmpv4::is_error(*kind));
        let valid = self.is_unicast(src) && !matches!(src.octets()[0], 0 | 127 | 240..);
        valid
            && self.is_unicast(dst)
            && !is_icmp_error
            && !matches!(link, Reach::Broadcast | Reach::Multicast)
            && ip_header::is_first_fragment(header)
    }

    /// The options of the answer to a packet that came by a source route: the same
    /// route back (RFC 1812, 4.3.2.6).
    fn route_back(option: &[u8]) -> Vec<u8> {
        let length = usize::from(option[2]) - 1;
        let mut back = vec![option[0], length as u8, 4];
        for hop in option[3..length].rchunks_exact(4) {
            back.extend_from_slice(hop);
        }
        back.resize(back.len().next_multiple_of(4), 0);
        back
    }

    /// Writes the message, behind its IP header, into `room`, which is all zeros; its
    /// length, or `None` when none is due.
    fn message(&self, packet: &Packet, room: &mut [u8; DATA_ROOM]) -> Option<usize> {
        let (header, payload) = ip_header::split(packet)?;
        if !self.is_due(packet, header, payload) {
            return None;
        }
        let pointer = packet.u8_at(ICMP_PARAMETER_PROBLEM);
        let mut options = vec![];
        if let Some((at, route)) = source_route(header) {
            let place = at..at + usize::from(route[1]);
            let about_it =
                self.kind == PARAMETER_PROBLEM && self.code == 0 && place.contains(&pointer.into());
            match self.kind {
                REDIRECT => return None, // RFC 1812, 5.2.7.2
                _ if about_it => {}
                _ => options = IcmpError::route_back(route),
            }
        }
        let header_len = ip_header::LEN + options.len();
        let [src, mtu, pmtu] = self.set.each_ref().map(|value| value.load(Ordering::Relaxed));
        let whole = Bytes::new(packet.header(Header::Network)?, packet.next());
        let headers = header_len + icmpv4::HEADER_LEN;
        let quoted = (mtu as usize).clamp(headers + icmpv4::LEAST_QUOTED, DATA_ROOM) - headers;
        let quoted = whole.front(quoted);
        let total = headers + quoted.len();

        let (ip, message) = room[..total].split_at_mut(header_len);
        ip[ip_header::LEN..].copy_from_slice(&options);
        let mut fixed = ipv4::Header::of_mut(ip)?;
        let identification = self.numbers.fetch_add(1, Ordering::Relaxed);
        let dst = ip_header::ends(header).0;
        let whole = ipv4::Repr::between(src.into(), dst, Protocol::ICMP, total - ip_header::LEN);
        ipv4::Repr { ttl: 200, identification, ..whole }.write(&mut fixed);
        fixed.set_header_len(header_len);
        ipv4::fill_checksum(ip);

        let mut icmp = icmpv4::Header::of_mut(message)?;
        icmp.set_message_type(self.kind);
        icmp.set_code(self.code);
        match (self.kind, self.code) {
            (PARAMETER_PROBLEM, 0) => icmp.set_pointer(pointer),
            (REDIRECT, _) => icmp.set_gateway(packet.dst_ip()),
            (UNREACHABLE, NEEDS_FRAGMENTS) => icmp.set_mtu(u16::try_from(pmtu).unwrap_or(u16::MAX)),
            _ => {}
        }
        message[icmpv4::HEADER_LEN..].copy_from_slice(&quoted);
        icmpv4::fill_checksum(message);
        Some(total)
    }

    fn set_length(&self, which: usize, cx: &Cx<'_>, value: &str) -> Result<(), Refused> {
        let length = u32::parse(value, &cx.scope()).map_err(|_| "expected integer")?;
        self.set[which].store(length, Ordering::Relaxed);
        Ok(())
    }
}

/// A header's source route with routers in it, and where it is (RFC 791).
fn source_route(header: &[u8]) -> Option<(usize, &[u8])> {
    let mut at = ip_header::LEN;
    while let Some(Ok(place)) = option_list::next(header, at) {
        let (start, option) = (place.start, &header[place.clone()]);
        let behind = |next: usize| next >= option::offset::ROUTE && next <= option.len();
        let whole = |next: usize| (next - option::offset::ROUTE).is_multiple_of(option::WORD_LEN);
        if option::is_source_route(option[0])
            && option::pointer(option).is_some_and(|next| behind(next) && whole(next))
        {
            return Some((start, option));
        }
        at = place.end;
    }
    None
}

impl PerPacket for IcmpError {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if !packet.has_header(Header::Network) {
            return Action::drop(1);
        }
        let mut room = [0; DATA_ROOM];
        let Some(length) = self.message(packet, &mut room) else { return Action::drop(0) };
        if let Some(tail) = packet.split_next() {
            cx.free_tail(tail);
        }
        packet.clear_annotations();
        if packet.copy_at(HEADROOM, &room[..length]).is_err() {
            return Action::drop(0);
        }
        let Some(ip) = ipv4::Header::of(&room) else { return Action::drop(0) };
        ip_header::mark(packet, 0, ip.header_len());
        packet.set_dst_ip(ip.dst());
        packet.set_u8_at(FIX_IP_SRC, self.fix.into());
        packet.annotations_mut().timestamp_ns = cx.now_ns();
        Action::ON
    }

    fn reconfigure(&mut self, _: &mut Cx<'_>, new: IcmpError) -> Result<(), Refused> {
        *self = IcmpError { numbers: self.numbers.clone(), ..new };
        Ok(())
    }

    fn replicate(&self) -> Option<IcmpError> {
        Some(self.clone())
    }
}
