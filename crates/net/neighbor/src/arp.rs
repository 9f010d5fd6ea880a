//! ARP messages (RFC 826) as Ethernet frames.

use std::net::Ipv4Addr;

use wire::MacAddress;
use wire::arp::{self, Operation, Repr};
use wire::ethernet::{self, EtherType};

use crate::resolver::Address;

/// Bytes of a frame with an ARP packet, without padding.
pub const FRAME_LEN: usize = ethernet::HEADER_LEN + arp::LEN;

/// A frame to `dst` with an ARP packet, from the packet's sender.
pub fn frame(packet: &Repr, dst: MacAddress) -> [u8; FRAME_LEN] {
    let mut bytes = [0; FRAME_LEN];
    let mut frame = ethernet::Frame::new_unchecked(&mut bytes[..]);
    ethernet::Repr { dst, src: packet.sender_mac, ethertype: EtherType::ARP }.emit(&mut frame);
    packet.emit(&mut arp::Packet::new_unchecked(frame.payload_mut()));
    bytes
}

/// The ARP packet in a frame; `None` when the frame has none, or one that is not about
/// IPv4 addresses on Ethernet.
pub fn parse(frame: &[u8]) -> Option<Repr> {
    let frame = ethernet::Frame::new_checked(frame).ok().filter(|f| f.ethertype() == EtherType::ARP)?;
    Repr::parse(&arp::Packet::new_checked(frame.payload()).ok()?).ok()
}

impl Address for Ipv4Addr {
    const ETHERTYPE: EtherType = EtherType::IPV4;
    type Request = [u8; FRAME_LEN];

    fn is_unspecified(self) -> bool {
        Ipv4Addr::is_unspecified(&self)
    }

    fn group_mac(self) -> Option<MacAddress> {
        if self.is_broadcast() {
            return Some(MacAddress::BROADCAST);
        }
        self.is_multicast().then(|| MacAddress::of_ipv4_group(self))
    }

    fn request(self, mac: MacAddress, target: Ipv4Addr, known: Option<MacAddress>) -> [u8; FRAME_LEN] {
        let request = Repr {
            operation: Operation::REQUEST,
            sender_mac: mac,
            sender_ip: self,
            target_mac: MacAddress::default(),
            target_ip: target,
        };
        frame(&request, known.unwrap_or(MacAddress::BROADCAST))
    }

    /// An answer from a group's Ethernet address is ignored (RFC 1812, section
    /// 3.3.2), nor one about 0.0.0.0, which is the sender's address while it has none
    /// (RFC 5227, section 1.1).
    fn answer(frame: &[u8]) -> Option<(Ipv4Addr, MacAddress)> {
        sender(frame, Operation::REPLY)
    }

    fn asker(frame: &[u8], mac: MacAddress) -> Option<(Ipv4Addr, MacAddress)> {
        let link = ethernet::Header::of(frame)?;
        let is_to_us = link.dst() == mac || link.dst() == MacAddress::BROADCAST;
        let told = sender(frame, Operation::REQUEST);
        told.filter(|(_, sender)| is_to_us && *sender == link.src() && *sender != mac)
    }
}

/// The sender of a message of this kind, if that is a host.
fn sender(frame: &[u8], operation: Operation) -> Option<(Ipv4Addr, MacAddress)> {
    let packet = parse(frame).filter(|packet| packet.operation == operation)?;
    let ip = packet.sender_ip;
    // Packets to these are for groups, or for nobody (RFC 1122, section 3.2.1.3).
    let is_host = !(ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast());
    (is_host && packet.sender_mac.is_station()).then_some((ip, packet.sender_mac))
}
