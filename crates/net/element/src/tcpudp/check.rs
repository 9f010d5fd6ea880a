//! `CheckTCPHeader`, `CheckUDPHeader`: let only sound TCP segments and UDP datagrams
//! pass (RFC 9293, RFC 768).

use graph::Class;
use memory::Packet;
use wire::checksum;

use super::checksum::pseudo_header;
use crate::ip::header;
use crate::ip::judge::{self, BAD_CHECKSUM};

const TCP_REASONS: &[&str] = &["not TCP", "bad packet length", "bad TCP checksum"];
const UDP_REASONS: &[&str] = &["not UDP", "bad packet length", "bad UDP checksum"];

/// The class for TCP.
pub static TCP: Class = Class {
    name: "CheckTCPHeader",
    brief: "lets only packets with a sound TCP header pass",
    doc: "Checks protocol, lengths and checksum. Bad packets go to output 1, or are dropped.",
    drops: TCP_REASONS,
    example: "CheckIPHeader(14) -> CheckTCPHeader",
    see: &["CheckIPHeader", "CheckUDPHeader", "CheckICMPHeader", "SetTCPChecksum"],
    make: |_, conf| judge::make(conf, "TCP", TCP_REASONS, check_tcp),
    ..judge::CLASS
};

/// The class for UDP.
pub static UDP: Class = Class {
    name: "CheckUDPHeader",
    brief: "lets only packets with a sound UDP header pass",
    doc: "Checks protocol, lengths, and the checksum if there is one. Bad packets go to output 1, or are \
          dropped.",
    drops: UDP_REASONS,
    example: "CheckIPHeader(14) -> CheckUDPHeader",
    see: &["CheckIPHeader", "CheckTCPHeader", "CheckICMPHeader", "SetUDPChecksum"],
    make: |_, conf| judge::make(conf, "UDP", UDP_REASONS, check_udp),
    ..judge::CLASS
};

const WRONG_PROTOCOL: usize = 0;
const BAD_LENGTH: usize = 1;

fn is_bad_sum(header: &[u8], segment: &[u8]) -> Option<usize> {
    let sum = checksum::combine(pseudo_header(header, segment.len()), checksum::sum(segment));
    (sum != 0xFFFF).then_some(BAD_CHECKSUM)
}

fn check_tcp(packet: &Packet) -> Option<usize> {
    let Some((header, rest)) = header::split(packet).filter(|(header, _)| header[9] == 6) else {
        return Some(WRONG_PROTOCOL);
    };
    let length = usize::from(header::u16_at(header, 2)).checked_sub(header.len());
    let segment = length.and_then(|length| rest.get(..length)).filter(|segment| segment.len() >= 20);
    let header_len = |segment: &[u8]| usize::from(segment[12] >> 4) * 4;
    match segment.filter(|segment| (20..=segment.len()).contains(&header_len(segment))) {
        Some(segment) => is_bad_sum(header, segment),
        None => Some(BAD_LENGTH),
    }
}

fn check_udp(packet: &Packet) -> Option<usize> {
    let Some((header, rest)) = header::split(packet).filter(|(header, _)| header[9] == 17) else {
        return Some(WRONG_PROTOCOL);
    };
    let length = usize::from(header::u16_at(rest, 4));
    match rest.get(..length).filter(|datagram| datagram.len() >= 8) {
        None => Some(BAD_LENGTH),
        Some([_, _, _, _, _, _, 0, 0, ..]) => None, // no checksum
        Some(datagram) => is_bad_sum(header, datagram),
    }
}
