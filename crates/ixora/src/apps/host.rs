//! The least that makes a host: it says where it is (ARP, RFC 826) and that it
//! is there (ICMP echo, RFC 792 and RFC 1122, section 3.2.2.6), in the frame
//! that asked. No fragments, no IP options, no VLAN tags.

use std::net::Ipv4Addr;

use wire::ethernet::{EtherType, Frame};
use wire::ip::Protocol;
use wire::{MacAddress, arp, icmpv4, ipv4};

/// A host's addresses.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub mac: MacAddress,
    pub ip: Ipv4Addr,
}

impl Host {
    /// Turns a request for this host into its answer. False, and nothing
    /// changed, when the frame is something else.
    pub fn answer(self, bytes: &mut [u8]) -> bool {
        let Ok(mut frame) = Frame::new_checked(bytes) else { return false };
        let asker = frame.src();
        let answered = !asker.is_multicast()
            && match frame.ethertype() {
                EtherType::ARP => self.resolve(frame.payload_mut()),
                EtherType::IPV4 if frame.dst() == self.mac => self.echo(frame.payload_mut()),
                _ => false,
            };
        if answered {
            frame.set_dst(asker);
            frame.set_src(self.mac);
        }
        answered
    }

    fn resolve(self, bytes: &mut [u8]) -> bool {
        let Ok(mut packet) = arp::Packet::new_checked(bytes) else { return false };
        let Ok(request) = arp::Repr::parse(&packet) else { return false };
        if request.operation != arp::Operation::REQUEST || request.target_ip != self.ip {
            return false;
        }
        request.reply(self.mac).emit(&mut packet);
        true
    }

    fn echo(self, bytes: &mut [u8]) -> bool {
        let Ok(mut packet) = ipv4::Packet::new_checked(bytes) else { return false };
        let asker = packet.src();
        let for_us = packet.dst() == self.ip
            && packet.protocol() == Protocol::ICMP
            && !packet.is_fragment()
            && packet.header_len() == ipv4::HEADER_LEN
            && packet.verify_checksum()
            // Nobody can be answered at these (RFC 1122, section 3.2.1.3).
            && !(asker.is_multicast() || asker.is_broadcast() || asker.is_unspecified());
        if !for_us || !reply(packet.payload_mut()) {
            return false;
        }
        packet.set_src(self.ip);
        packet.set_dst(asker);
        packet.set_ttl(64);
        packet.fill_checksum();
        true
    }
}

/// Turns an echo request into its reply.
fn reply(bytes: &mut [u8]) -> bool {
    let Ok(mut message) = icmpv4::Packet::new_checked(bytes) else { return false };
    if message.message_type() != icmpv4::ECHO_REQUEST || message.code() != 0 || !message.verify_checksum() {
        return false;
    }
    message.set_message_type(icmpv4::ECHO_REPLY);
    message.fill_checksum();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Host = Host { mac: MacAddress([2, 0, 0, 0, 0, 9]), ip: Ipv4Addr::new(10, 9, 9, 2) };
    const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 1];

    /// Who has 10.9.9.2? Tell 10.9.9.1. Padded to the least frame.
    fn request() -> Vec<u8> {
        let mut bytes = [&[0xFF; 6][..], &ASKER, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        bytes.extend([&ASKER[..], &[10, 9, 9, 1], &[0; 6], &[10, 9, 9, 2]].concat());
        bytes.resize(60, 0);
        bytes
    }

    /// A ping with four bytes of data.
    fn ping() -> Vec<u8> {
        let ip = [0x45, 0, 0, 32, 0, 1, 0x40, 0, 9, 1, 0x4B, 0xC8, 10, 9, 9, 1, 10, 9, 9, 2];
        let icmp = [8, 0, 0x5C, 0x6A, 0x12, 0x34, 0, 7, 0x61, 0x62, 0x27, 0xF8];
        let mut bytes = [&HOST.mac.0[..], &ASKER, &[8, 0], &ip, &icmp].concat();
        bytes.resize(60, 0);
        bytes
    }

    #[test]
    fn a_request_gets_its_answer() {
        let mut bytes = request();
        assert!(HOST.answer(&mut bytes));
        let mac = HOST.mac.0;
        assert_eq!(bytes[..12], [ASKER, mac].concat());
        assert_eq!(bytes[20..22], [0, 2]);
        assert_eq!(bytes[22..32], [&mac[..], &[10, 9, 9, 2]].concat());
        assert_eq!(bytes[32..42], [&ASKER[..], &[10, 9, 9, 1]].concat());
    }

    #[test]
    fn a_ping_gets_its_answer() {
        let mut bytes = ping();
        assert!(HOST.answer(&mut bytes));
        assert_eq!(bytes[..12], [ASKER, HOST.mac.0].concat());
        assert_eq!(bytes[22], 64, "as many hops as any");
        assert_eq!(bytes[26..34], [10, 9, 9, 2, 10, 9, 9, 1]);
        assert_eq!(bytes[34..38], [0, 0, 0x64, 0x6A], "a reply, and its checksum");
        assert_eq!(bytes[38..46], ping()[38..46], "identifier, sequence and data come back");
        assert!(ipv4::Packet::new_checked(&bytes[14..]).expect("whole").verify_checksum());
    }

    #[test]
    fn what_is_no_question_to_us_stays_as_it_is() {
        // What to change in the request and in the ping, byte by byte.
        let requests = [(6, 3), (12, 0), (14, 9), (21, 2), (41, 3)];
        let pings = [
            (5, 1),
            (6, 3),
            (14, 0x46),
            (20, 0x20),
            (23, 17),
            (24, 0),
            (26, 224),
            (33, 3),
            (34, 0),
            (35, 1),
            (36, 0),
        ];
        let changed = |from: Vec<u8>, (at, value): (usize, u8)| {
            let mut bytes = from;
            assert_ne!(bytes[at], value, "no change at {at}");
            bytes[at] = value;
            let ethertype = [bytes[12], bytes[13]];
            // A wrong checksum must not be what hides a missing check.
            let mut mend = |at: usize, range: std::ops::Range<usize>| {
                bytes[at..at + 2].fill(0);
                let sum = wire::checksum::of(&bytes[range]);
                bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            };
            match at {
                14..34 if at != 24 && ethertype == [8, 0] => mend(24, 14..34),
                34..36 if ethertype == [8, 0] => mend(36, 34..46),
                _ => {}
            }
            bytes
        };
        let requests = requests.map(|change| changed(request(), change));
        let pings = pings.map(|change| changed(ping(), change));
        for before in requests.into_iter().chain(pings) {
            let mut after = before.clone();
            assert!(!HOST.answer(&mut after), "{before:02x?}");
            assert_eq!(before, after);
        }
    }

    #[test]
    fn options_are_not_answered() {
        let mut bytes = ping();
        let header = [0x46, 0, 0, 36, 0, 1, 0x40, 0, 9, 1, 0x48, 0xC2];
        bytes[14..26].copy_from_slice(&header);
        bytes.splice(34..34, [1; 4]); // four times: no operation
        assert!(ipv4::Packet::new_checked(&bytes[14..]).expect("whole").verify_checksum());
        assert!(!HOST.answer(&mut bytes));
    }

    #[test]
    fn frames_cut_short_are_no_questions() {
        for (whole, needed) in [(request(), 42), (ping(), 46)] {
            for len in 0..needed {
                assert!(!HOST.answer(&mut whole.clone()[..len]), "{len}");
            }
        }
    }
}
