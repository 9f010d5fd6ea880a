//! `ICMP6Error`, `ICMP6PingResponder`: ICMP for IPv6 (RFC 4443).

use std::net::Ipv6Addr;

use graph::class::{Headers, keyword, mandatory};
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::annotation::{Header, Reach};
use memory::{HEADROOM, Packet};
use wire::icmpv6::{self, PARAMETER_PROBLEM, REDIRECT, TOO_BIG};
use wire::ip::Protocol;
use wire::{ipv6, ndp};

use crate::ip::ip6;
use graph::annotation::{DST_IP6, FIX_IP_SRC, ICMP_PARAMETER_PROBLEM, PacketAnnotations};
use graph::chain::Bytes;
use graph::ip_header;
use port::Reason;

const NEEDS: Headers = Headers { needs_network: true, ..Class::BASE.headers };

/// The class of what tells of errors.
pub static ERROR: Class = Class {
    name: "ICMP6Error",
    brief: "makes an ICMPv6 error message for the sender of each IPv6 packet",
    doc: "A packet becomes an error message with its first bytes, 1,280 bytes in all at most. There is none \
          for ICMPv6 errors, and none to or for groups, but for packets too big (RFC 4443, 2.4). A redirect \
          names the destination annotation as the better gateway, a parameter problem the byte that its \
          annotation says.",
    arguments: &[
        mandatory("SRC", "whom the message is from"),
        mandatory(
            "TYPE",
            "1 unreachable, 2 packet too big, 3 time exceeded, 4 parameter problem, 137 redirect",
        ),
        mandatory("CODE", "its code; 0"),
        keyword("PMTU", "what `packet too big` says is the longest packet; 1500"),
    ],
    drops: &[Reason::NoAnswerDue, Reason::NoIpHeader],
    example: "dh :: DecIP6HLIM; dh[1] -> ICMP6Error(2001:db8::1, 3, 0) -> rt;",
    see: &["DecIP6HLIM", "IP6Fragmenter", "ICMPError"],
    headers: Headers { needs_network: true, finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let src: Ipv6Addr = conf.mandatory("SRC")?;
        let kind: u8 = conf.mandatory("TYPE")?;
        let code: u8 = conf.mandatory("CODE")?;
        let pmtu: u32 = conf.keyword("PMTU")?.unwrap_or(1500);
        conf.complete()?;
        if !matches!(kind, 1..=4 | REDIRECT) {
            return Err(format!("ICMP6 type {kind} is not an error or redirect type").into());
        }
        Ok(Each::boxed(Icmp6Error { src, kind, code, pmtu }))
    },
    ..Class::BASE
};

/// The class of what answers.
pub static RESPONDER: Class = Class {
    name: "ICMP6PingResponder",
    brief: "answers ICMPv6 echo requests",
    doc: "An echo request becomes its reply: addresses exchanged, a full hop limit, the checksum right. All \
          other packets, and requests with extension headers, go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    drops: &[Reason::NoEchoRequest],
    example: "CheckIP6Header(OFFSET 14) -> ICMP6PingResponder -> rt;",
    see: &["ICMPPingResponder", "ICMP6Error"],
    headers: NEEDS,
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(Ping6Responder))
    },
    ..Class::BASE
};

/// What every link can carry (RFC 8200, 5).
const MOST: usize = 1280;

/// An `ICMP6Error` element; [`ERROR`] says what it does.
#[derive(Debug, Clone)]
pub struct Icmp6Error {
    src: Ipv6Addr,
    kind: u8,
    code: u8,
    pmtu: u32,
}

impl Icmp6Error {
    fn is_due(&self, packet: &Packet, ip: ipv6::Header<&[u8; ip6::LEN]>, payload: &[u8]) -> bool {
        let (src, dst) = (ip.src(), ip.dst());
        let is_error = ip.next_header() == Protocol::ICMPV6
            && payload.first().is_none_or(|kind| icmpv6::is_error(*kind) || *kind == REDIRECT);
        let to_group =
            dst.is_multicast() || matches!(packet.annotations().reach, Reach::Broadcast | Reach::Multicast);
        let may_group =
            self.kind == TOO_BIG || (self.kind, self.code) == (PARAMETER_PROBLEM, icmpv6::UNKNOWN_OPTION);
        let nobody = src.is_multicast() || src.is_unspecified() || src.is_loopback();
        !is_error && !nobody && (!to_group || may_group)
    }

    fn message(&self, packet: &Packet, room: &mut [u8; MOST]) -> Option<usize> {
        let (header, payload) = ip6::split(packet)?;
        if !self.is_due(packet, header, payload) {
            return None;
        }
        let dst = header.src();
        let head = if self.kind == REDIRECT { ndp::REDIRECT_LEN } else { icmpv6::HEADER_LEN };
        let whole = Bytes::new(packet.header(Header::Network)?, packet.next());
        let quoted = whole.front(MOST - ip6::LEN - head);
        let total = ip6::LEN + head + quoted.len();
        let (ip, message) = room[..total].split_at_mut(ip6::LEN);
        let ip = ipv6::Header::of_mut(ip)?.fill(self.src, dst, Protocol::ICMPV6, message.len() as u16, 255);
        let mut icmp = icmpv6::Header::of_mut(message)?;
        icmp.set_message_type(self.kind);
        icmp.set_code(self.code);
        match self.kind {
            TOO_BIG => icmp.set_mtu(self.pmtu),
            PARAMETER_PROBLEM => icmp.set_pointer(packet.u8_at(ICMP_PARAMETER_PROBLEM).into()),
            REDIRECT => {
                let mut redirect = ndp::Redirect::of_mut(message)?;
                redirect.set_target(packet.bytes_at::<16>(DST_IP6).into());
                redirect.set_destination(header.dst());
            }
            _ => {}
        }
        message[head..].copy_from_slice(&quoted);
        icmpv6::Packet::new_unchecked(message).fill_checksum(ip);
        Some(total)
    }
}

impl PerPacket for Icmp6Error {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if !packet.has_header(Header::Network) {
            return Action::drop(1);
        }
        let mut room = [0; MOST];
        let Some(length) = self.message(packet, &mut room) else { return Action::drop(0) };
        if let Some(tail) = packet.split_next() {
            cx.free_tail(tail);
        }
        packet.clear_annotations();
        if packet.copy_at(HEADROOM, &room[..length]).is_err() {
            return Action::drop(0);
        }
        ip_header::mark(packet, 0, ip6::LEN);
        let Some(ip) = ipv6::Header::of(&room) else { return Action::drop(0) };
        packet.set_bytes_at(DST_IP6, ip.dst().octets());
        packet.set_u8_at(FIX_IP_SRC, 1);
        packet.annotations_mut().timestamp_ns = cx.now_ns();
        Action::ON
    }

    fn replicate(&self) -> Option<Icmp6Error> {
        Some(self.clone())
    }
}

/// An `ICMP6PingResponder` element; [`RESPONDER`] says what it does.
#[derive(Debug, Clone)]
pub struct Ping6Responder;

impl Ping6Responder {
    fn answer(packet: &mut Packet) -> Option<Ipv6Addr> {
        let (header, message) =
            packet.header_mut(Header::Network)?.split_first_chunk_mut::<{ ip6::LEN }>()?;
        let mut ip = ipv6::Header::new(header);
        neighbor::reply_to_echo_v6(&mut ip, message, 255).then(|| ip.dst())
    }
}

impl PerPacket for Ping6Responder {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(dst) = Ping6Responder::answer(packet) else { return Action::out_or_drop(1, 0) };
        packet.set_bytes_at(DST_IP6, dst.octets());
        packet.annotations_mut().timestamp_ns = cx.now_ns();
        Action::ON
    }

    fn replicate(&self) -> Option<Ping6Responder> {
        Some(self.clone())
    }
}
