//! `CheckTCPHeader`, `CheckUDPHeader`: let only sound TCP segments and UDP datagrams
//! pass (RFC 9293, RFC 768).

use graph::Class;
use memory::Packet;
use wire::ip::Protocol;
use wire::{checksum, tcp, udp};

use super::checksum::pseudo_header;
use crate::ip::header_check::{self, BAD_CHECKSUM};
use graph::chain::Bytes;
use graph::ip_header;
use port::Reason;

const TCP_REASONS: &[Reason] = &[Reason::NotTcp, Reason::BadLength, Reason::BadTcpChecksum];
const UDP_REASONS: &[Reason] = &[Reason::NotUdp, Reason::BadLength, Reason::BadUdpChecksum];

/// The class for TCP.
pub static TCP: Class = Class {
    name: "CheckTCPHeader",
    brief: "lets only packets with a sound TCP header pass",
    doc: "Checks protocol, lengths and checksum. Bad packets go to output 1, or are dropped.",
    drops: TCP_REASONS,
    example: "CheckIPHeader(14) -> CheckTCPHeader",
    see: &["CheckIPHeader", "CheckUDPHeader", "CheckICMPHeader", "SetTCPChecksum"],
    make: |_, conf| header_check::make(conf, "TCP", TCP_REASONS, check_tcp),
    ..header_check::CLASS
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
    make: |_, conf| header_check::make(conf, "UDP", UDP_REASONS, check_udp),
    ..header_check::CLASS
};

const WRONG_PROTOCOL: usize = 0;
const BAD_LENGTH: usize = 1;

/// The IP header and what follows it, in a packet of a protocol.
fn split_at(packet: &Packet, protocol: Protocol) -> Option<(&[u8], Bytes<'_>)> {
    ip_header::split_all(packet).filter(|(header, _)| ip_header::protocol(header) == protocol)
}

/// What is wrong with the checksum over the first `length` bytes behind the IP header.
fn is_bad_sum(header: &[u8], payload: Bytes<'_>, length: usize) -> Option<usize> {
    let Some(sum) = payload.sum(length) else { return Some(BAD_LENGTH) };
    let sum = checksum::combine(pseudo_header(header, length), sum);
    (!checksum::is_right(sum)).then_some(BAD_CHECKSUM)
}

fn check_tcp(packet: &Packet) -> Option<usize> {
    let Some((header, rest)) = split_at(packet, Protocol::TCP) else { return Some(WRONG_PROTOCOL) };
    let length = ip_header::total_len(header).checked_sub(header.len());
    let said = tcp::Header::of(rest.first()).map_or(0, |tcp| tcp.header_len());
    match length.filter(|length| (tcp::HEADER_LEN..=*length).contains(&said)) {
        Some(length) => is_bad_sum(header, rest, length),
        None => Some(BAD_LENGTH),
    }
}

fn check_udp(packet: &Packet) -> Option<usize> {
    let Some((header, rest)) = split_at(packet, Protocol::UDP) else { return Some(WRONG_PROTOCOL) };
    let Some(udp) = udp::Header::of(rest.first()) else { return Some(BAD_LENGTH) };
    let length = udp.total_len();
    match udp.checksum() {
        _ if !(udp::HEADER_LEN..=rest.len()).contains(&length) => Some(BAD_LENGTH),
        0 => None, // there is none
        _ => is_bad_sum(header, rest, length),
    }
}
