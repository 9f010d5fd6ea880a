//! Whether frames of IP are for a host, and whether what their headers say can be.

use std::net::IpAddr;

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
            // RFC 1122, section 4.2.3.10: nobody has these addresses.
            () if !is_sound || is_nobody(flow.addresses.src()) => Err(&mut self.lost.malformed),
            () => Ok(class),
        }
    }
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

/// Whether an address can be no sender's.
fn is_nobody(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    address.is_multicast() || address.is_unspecified() || is_broadcast
}
