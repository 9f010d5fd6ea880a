//! `CheckICMPHeader`: lets only sound ICMP messages pass (RFC 792).

use graph::Class;
use memory::Packet;
use wire::ip::Protocol;
use wire::{checksum, icmpv4};

use crate::ip::header_check::{self, BAD_CHECKSUM};
use graph::ip_header;
use port::Reason;

const REASONS: &[Reason] = &[Reason::NotIcmp, Reason::BadLength, Reason::BadIcmpChecksum];

pub static CLASS: Class = Class {
    name: "CheckICMPHeader",
    brief: "lets only packets with a sound ICMP message pass",
    doc: "Checks the message's length, as far as its type says one, and its checksum. Bad packets go to \
          output 1, or are dropped.",
    drops: REASONS,
    example: "CheckIPHeader(14) -> CheckICMPHeader",
    see: &["CheckIPHeader", "CheckTCPHeader", "CheckUDPHeader", "ICMPPingResponder"],
    make: |_, conf| header_check::make(conf, "ICMP", REASONS, check),
    ..header_check::CLASS
};

const NOT_ICMP: usize = 0;
const BAD_LENGTH: usize = 1;

fn check(packet: &Packet) -> Option<usize> {
    let Some((header, message)) =
        ip_header::split_all(packet).filter(|(header, _)| ip_header::protocol(header) == Protocol::ICMP)
    else {
        return Some(NOT_ICMP);
    };
    debug_assert!(header.len() >= ip_header::LEN);
    let length = message.len();
    let Some(icmp) = icmpv4::Header::of(message.first()) else { return Some(BAD_LENGTH) };
    let kind = icmp.message_type();
    let fits = match kind {
        _ if icmpv4::is_error(kind) => length >= icmpv4::HEADER_LEN + icmpv4::LEAST_QUOTED,
        icmpv4::TIMESTAMP | icmpv4::TIMESTAMP_REPLY | icmpv4::INFORMATION | icmpv4::INFORMATION_REPLY => {
            length == icmpv4::header_len(kind)
        }
        _ => true,
    };
    match fits {
        false => Some(BAD_LENGTH),
        true if !message.sum(length).is_some_and(checksum::is_right) => Some(BAD_CHECKSUM),
        true => None,
    }
}
