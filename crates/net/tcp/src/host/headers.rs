//! Whether frames of IP are for a host, and whether what their headers say can be.

use std::net::{IpAddr, Ipv4Addr};

use memory::Packet;
use wire::{Flow, checksum, ethernet, ipv4, ipv6};

use super::Host;

impl Host {
    /// The traffic class of a frame whose layers are `flow`.
    ///
    /// # Errors
    /// What it is counted for, as it is for somebody else or makes no sense.
    #[inline]
    pub(super) fn check(&mut self, packet: &Packet, flow: &Flow) -> Result<u8, &mut u64> {
        let is_ours = self.responder.addresses.contains(&flow.addresses.dst());
        let to = ethernet::Header::of(packet).map(|header| header.dst());
        let header = packet.get(flow.l3_offset()..flow.l4_offset()).unwrap_or_default();
        let (is_sound, class) = check_header(header, packet);
        match () {
            () if to != Some(self.addresses.mac) || !is_ours => Err(&mut self.lost.foreign),
            () if !is_sound => Err(&mut self.lost.malformed),
            () if !self.may_be_from(flow.addresses.src()) => Err(&mut self.lost.source),
            () => Ok(class),
        }
    }

    /// Whether another host may have an address (RFC 1122, sections 3.2.1.3 and 4.2.3.10): a segment
    /// from this host's own would have it answer itself.
    #[inline]
    fn may_be_from(&self, address: IpAddr) -> bool {
        let is_of_all = match address {
            IpAddr::V4(address) => {
                let own = self.addresses.v4;
                address.is_broadcast() || own.is_some_and(|(own, bits)| is_of_network(address, own, bits))
            }
            IpAddr::V6(_) => false,
        };
        !(is_of_all
            || address.is_multicast()
            || address.is_unspecified()
            || address.is_loopback()
            || self.responder.addresses.contains(&address))
    }
}

/// Whether an address is that of an own network, or of all hosts in it: networks of 31 and 32 bits
/// have none (RFC 3021).
#[inline]
fn is_of_network(address: Ipv4Addr, own: Ipv4Addr, bits: u8) -> bool {
    let hosts = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
    let host = address.to_bits() & hosts;
    bits < 31 && (address.to_bits() ^ own.to_bits()) & !hosts == 0 && (host == 0 || host == hosts)
}

/// Whether an IP header is sound, and its traffic class.
pub(super) fn check_header(ip: &[u8], packet: &Packet) -> (bool, u8) {
    match version(ip) {
        4 => {
            let is_sound = match packet.ip_checksum() {
                memory::Checksum::Good => true,
                memory::Checksum::Bad => false,
                memory::Checksum::Unknown => checksum::verify(ip),
            };
            (is_sound, ipv4::Header::of(ip).map_or(0, |ip| ip.traffic_class()))
        }
        _ => (true, ipv6::Header::of(ip).map_or(0, |ip| ip.traffic_class())),
    }
}

pub(super) fn version(ip: &[u8]) -> u8 {
    ip.first().map_or(0, |first| ipv4::version(*first))
}
