//! The least that makes a host: it says where it is (ARP, RFC 826; neighbour discovery,
//! RFC 4861) and that it is there (ICMP echo, RFC 792, RFC 1122 section 3.2.2.6 and RFC
//! 4443 section 4.2), in the packet that asked. No fragments, no IP options, no extension
//! headers, no VLAN tags.

use std::borrow::BorrowMut;
use std::net::IpAddr;

use memory::Packet;
use wire::arp::{self, Operation};
use wire::ethernet::{EtherType, Frame};
use wire::ip::Protocol;
use wire::{MacAddress, icmpv4, icmpv6, ipv4, ipv6};

use crate::nd;

/// Hops that an answer may take.
const HOPS: u8 = 64;

/// A host's addresses, for which it answers.
#[derive(Clone, Debug)]
pub struct Responder {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its IPv4 and IPv6 addresses.
    pub addresses: Vec<IpAddr>,
}

impl Responder {
    /// Turns a request for this host into its answer. False, and nothing changed, when the
    /// frame is something else.
    pub fn answer(&self, packet: &mut Packet) -> bool {
        let Ok(mut frame) = Frame::new_checked(&mut packet[..]) else { return false };
        let (asker, is_ours) = (frame.src(), frame.dst() == self.mac);
        let is_answered = !asker.is_multicast()
            && match frame.ethertype() {
                EtherType::ARP => self.resolve(frame.payload_mut()),
                EtherType::IPV4 if is_ours => self.echo_v4(frame.payload_mut()),
                EtherType::IPV6 if is_ours && self.echo_v6(frame.payload_mut()) => true,
                // The answer may be longer than the solicitation, which may have no option.
                EtherType::IPV6 => return self.advertise(packet),
                _ => false,
            };
        if is_answered {
            frame.set_dst(asker);
            frame.set_src(self.mac);
        }
        is_answered
    }

    fn has(&self, address: impl Into<IpAddr>) -> bool {
        self.addresses.contains(&address.into())
    }

    fn resolve(&self, bytes: &mut [u8]) -> bool {
        let Ok(mut packet) = arp::Packet::new_checked(bytes) else { return false };
        let Ok(request) = arp::Repr::parse(&packet) else { return false };
        if request.operation != Operation::REQUEST || !self.has(request.target_ip) {
            return false;
        }
        request.reply(self.mac).emit(&mut packet);
        true
    }

    fn advertise(&self, packet: &mut Packet) -> bool {
        let Some(asked) = nd::solicitation(packet).filter(|asked| self.has(asked.target)) else {
            return false;
        };
        packet.next().is_none() && packet.copy_from(&asked.advertise(self.mac, false)).is_ok()
    }

    fn echo_v4(&self, bytes: &mut [u8]) -> bool {
        let Ok(packet) = ipv4::Packet::new_checked(&mut *bytes) else { return false };
        let (asker, end) = (packet.src(), packet.total_len());
        let is_for_us = self.has(packet.dst())
            && packet.protocol() == Protocol::ICMP
            && !packet.is_fragment()
            && packet.header_len() == ipv4::HEADER_LEN
            && packet.verify_checksum()
            // Nobody can be answered at these (RFC 1122, section 3.2.1.3).
            && !(asker.is_multicast() || asker.is_broadcast() || asker.is_unspecified());
        let Some((header, message)) = bytes[..end].split_first_chunk_mut().filter(|_| is_for_us) else {
            return false;
        };
        let is_sound = icmpv4::Packet::new_checked(&*message)
            .is_ok_and(|message| message.code() == 0 && message.verify_checksum());
        is_sound && reply_to_echo_v4(&mut ipv4::Header::new(header), message, HOPS)
    }

    fn echo_v6(&self, bytes: &mut [u8]) -> bool {
        let Ok(packet) = ipv6::Packet::new_checked(&mut *bytes) else { return false };
        let (asker, addresses) = (packet.src(), packet.addresses());
        let end = ipv6::HEADER_LEN + packet.payload_len();
        let is_for_us = self.has(packet.dst()) && !(asker.is_multicast() || asker.is_unspecified());
        let Some((header, message)) = bytes[..end].split_first_chunk_mut().filter(|_| is_for_us) else {
            return false;
        };
        let is_sound = icmpv6::Packet::new_checked(&*message)
            .is_ok_and(|message| message.code() == 0 && message.verify_checksum(addresses));
        is_sound && reply_to_echo_v6(&mut ipv6::Header::new(header), message, HOPS)
    }
}

/// Turns an IPv4 packet with an echo request into one with its reply: addresses exchanged,
/// `ttl` hops left, and checksums that follow. False, and nothing changed, for all other
/// packets. `message` is what lies behind the header and its options; whether lengths,
/// checksums and addresses are right is for the caller to check.
#[inline]
pub fn reply_to_echo_v4<T>(ip: &mut ipv4::Header<T>, message: &mut [u8], ttl: u8) -> bool
where
    T: BorrowMut<[u8; ipv4::HEADER_LEN]>,
{
    let Some(mut icmp) = icmpv4::Header::of_mut(message) else { return false };
    if ip.protocol() != Protocol::ICMP || icmp.message_type() != icmpv4::ECHO_REQUEST {
        return false;
    }
    ip.swap_addresses(); // which the sum does not notice
    ip.update_ttl(ttl);
    icmp.update_to_reply();
    // Where there is nothing but zeros, they sum up to zero (RFC 1624, 3).
    if icmp.checksum() == 0 && message.iter().all(|byte| *byte == 0) {
        icmpv4::fill_checksum(message);
    }
    true
}

/// As [`reply_to_echo_v4`], for IPv6. A request to a group gets no reply, which would be
/// from the group's address (RFC 4443, section 4.2).
#[inline]
pub fn reply_to_echo_v6<T>(ip: &mut ipv6::Header<T>, message: &mut [u8], hop_limit: u8) -> bool
where
    T: BorrowMut<[u8; ipv6::HEADER_LEN]>,
{
    let Some(mut icmp) = icmpv6::Header::of_mut(message) else { return false };
    let is_request = ip.next_header() == Protocol::ICMPV6 && icmp.message_type() == icmpv6::ECHO_REQUEST;
    if !is_request || ip.dst().is_multicast() {
        return false;
    }
    ip.swap_addresses(); // which the sum does not notice
    ip.set_hop_limit(hop_limit);
    icmp.update_to_reply();
    true
}
