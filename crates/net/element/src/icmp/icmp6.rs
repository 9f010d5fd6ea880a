//! `ICMP6Error`, `ICMP6PingResponder`: ICMP for IPv6 (RFC 4443).

use std::net::Ipv6Addr;

use graph::class::{Headers, keyword, mandatory};
use graph::{Class, Cx, Each, Fate, PerPacket};
use memory::annotation::{Header, Reach};
use memory::{HEADROOM, Packet};
use wire::checksum;

use crate::annotation::{DST_IP6, FIX_IP_SRC, ICMP_PARAMETER_PROBLEM, Notes};
use crate::ip::{header, ip6};

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
    drops: &["no answer is due", "no IP header"],
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
    drops: &["no echo request"],
    example: "CheckIP6Header(OFFSET 14) -> ICMP6PingResponder -> rt;",
    see: &["ICMPPingResponder", "ICMP6Error"],
    headers: NEEDS,
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(Ping6Responder))
    },
    ..Class::BASE
};

const TOO_BIG: u8 = 2;
const PARAMETER_PROBLEM: u8 = 4;
const REDIRECT: u8 = 137;
const ICMP6: u8 = 58;
/// What every link can carry (RFC 8200, 5).
const MOST: usize = 1280;

/// Sets the checksum of an ICMPv6 message between two addresses.
pub(crate) fn fill_checksum(message: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
    message[2..4].fill(0);
    let pseudo = checksum::pseudo_header_v6(src, dst, ICMP6, message.len() as u32);
    let sum = !checksum::combine(pseudo, checksum::sum(message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// See [`ERROR`].
#[derive(Debug, Clone)]
pub struct Icmp6Error {
    src: Ipv6Addr,
    kind: u8,
    code: u8,
    pmtu: u32,
}

impl Icmp6Error {
    fn is_due(&self, packet: &Packet, header: &[u8; ip6::LEN], payload: &[u8]) -> bool {
        let (src, dst) = (ip6::address_at(header, 8), ip6::address_at(header, 24));
        let is_error =
            header[6] == ICMP6 && payload.first().is_none_or(|kind| *kind < 128 || *kind == REDIRECT);
        let to_group =
            dst.is_multicast() || matches!(packet.annotations().reach, Reach::Broadcast | Reach::Multicast);
        let may_group = self.kind == TOO_BIG || (self.kind, self.code) == (PARAMETER_PROBLEM, 2);
        let nobody = src.is_multicast() || src.is_unspecified() || src.is_loopback();
        !is_error && !nobody && (!to_group || may_group)
    }

    fn message(&self, packet: &Packet, room: &mut [u8; MOST]) -> Option<usize> {
        let (header, payload) = ip6::split(packet)?;
        if !self.is_due(packet, header, payload) {
            return None;
        }
        let dst = ip6::address_at(header, 8);
        let head = if self.kind == REDIRECT { 40 } else { 8 };
        let whole = packet.header(Header::Network)?;
        let quoted = &whole[..whole.len().min(MOST - ip6::LEN - head)];
        let total = ip6::LEN + head + quoted.len();
        let (ip, icmp) = room[..total].split_at_mut(ip6::LEN);
        ip[0] = 0x60;
        ip[4..6].copy_from_slice(&(icmp.len() as u16).to_be_bytes());
        (ip[6], ip[7]) = (ICMP6, 255);
        ip[8..24].copy_from_slice(&self.src.octets());
        ip[24..40].copy_from_slice(&dst.octets());
        (icmp[0], icmp[1]) = (self.kind, self.code);
        match self.kind {
            TOO_BIG => icmp[4..8].copy_from_slice(&self.pmtu.to_be_bytes()),
            PARAMETER_PROBLEM => icmp[7] = packet.u8_at(ICMP_PARAMETER_PROBLEM),
            REDIRECT => {
                icmp[8..24].copy_from_slice(&packet.bytes_at::<16>(DST_IP6));
                icmp[24..40].copy_from_slice(&header[24..40]);
            }
            _ => {}
        }
        icmp[head..].copy_from_slice(quoted);
        fill_checksum(icmp, self.src, dst);
        Some(total)
    }
}

impl PerPacket for Icmp6Error {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        if !packet.has_header(Header::Network) {
            return Fate::drop(1);
        }
        let mut room = [0; MOST];
        let Some(length) = self.message(packet, &mut room) else { return Fate::drop(0) };
        if let Some(tail) = packet.split_next() {
            cx.free(tail);
        }
        packet.clear_annotations();
        if packet.copy_at(HEADROOM, &room[..length]).is_err() {
            return Fate::drop(0);
        }
        header::mark(packet, 0, ip6::LEN);
        let mut dst = [0; 16];
        dst.copy_from_slice(&room[24..40]);
        packet.set_bytes_at(DST_IP6, dst);
        packet.set_u8_at(FIX_IP_SRC, 1);
        packet.annotations_mut().timestamp_ns = cx.now_ns();
        Fate::ON
    }

    fn replicate(&self) -> Option<Icmp6Error> {
        Some(self.clone())
    }
}

/// See [`RESPONDER`].
#[derive(Debug, Clone)]
pub struct Ping6Responder;

impl Ping6Responder {
    fn answer(packet: &mut Packet) -> Option<[u8; 16]> {
        let (header, message) =
            packet.header_mut(Header::Network)?.split_first_chunk_mut::<{ ip6::LEN }>()?;
        let is_request = header[6] == ICMP6 && message.len() >= 8 && message[0] == wire::icmpv6::ECHO_REQUEST;
        // Whoever asks a group, gets no answer from the group's address (RFC 4443, 4.2).
        if !is_request || header[24] == 0xFF {
            return None;
        }
        header[8..40].rotate_left(16); // which the sum does not mind
        header[7] = 255;
        let (from, sum) = (header::u16_at(message, 0), header::u16_at(message, 2));
        let sum = checksum::update(sum, from, u16::from(wire::icmpv6::ECHO_REPLY) << 8);
        (message[0], message[1]) = (wire::icmpv6::ECHO_REPLY, 0);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        header[24..].first_chunk().copied()
    }
}

impl PerPacket for Ping6Responder {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        let Some(dst) = Ping6Responder::answer(packet) else { return Fate::out_or_drop(1, 0) };
        packet.set_bytes_at(DST_IP6, dst);
        packet.annotations_mut().timestamp_ns = cx.now_ns();
        Fate::ON
    }

    fn replicate(&self) -> Option<Ping6Responder> {
        Some(self.clone())
    }
}
