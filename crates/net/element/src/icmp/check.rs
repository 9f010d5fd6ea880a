//! `CheckICMPHeader`: lets only sound ICMP messages pass (RFC 792).

use graph::Class;
use memory::Packet;
use wire::checksum;

use crate::ip::header;
use crate::ip::judge::{self, BAD_CHECKSUM};

const REASONS: &[&str] = &["not ICMP", "bad packet length", "bad ICMP checksum"];

/// The class.
pub static CLASS: Class = Class {
    name: "CheckICMPHeader",
    brief: "lets only packets with a sound ICMP message pass",
    doc: "Checks the message's length, as far as its type says one, and its checksum. Bad packets go to \
          output 1, or are dropped.",
    drops: REASONS,
    example: "CheckIPHeader(14) -> CheckICMPHeader",
    see: &["CheckIPHeader", "CheckTCPHeader", "CheckUDPHeader", "ICMPPingResponder"],
    make: |_, conf| judge::make(conf, "ICMP", REASONS, check),
    ..judge::CLASS
};

const NOT_ICMP: usize = 0;
const BAD_LENGTH: usize = 1;

fn check(packet: &Packet) -> Option<usize> {
    let Some((header, message)) = header::split(packet).filter(|(header, _)| header[9] == 1) else {
        return Some(NOT_ICMP);
    };
    debug_assert!(header.len() >= header::LEN);
    let length = message.len();
    let fits = match message.first() {
        _ if length < 8 => false,
        Some(3 | 4 | 5 | 11 | 12) => length >= 8 + 28, // an IP header and eight bytes
        Some(13 | 14) => length == 8 + 12,
        Some(15 | 16) => length == 8,
        _ => true,
    };
    match fits {
        false => Some(BAD_LENGTH),
        true if checksum::sum(message) != 0xFFFF => Some(BAD_CHECKSUM),
        true => None,
    }
}
