//! Packets for a NIC that has the table, too ([`port::EncapOffload`], decision 30): they are marked
//! with their network ([`Mark`]) and get their headers in the device, whose entries a
//! [`NicTable`](crate::NicTable) keeps. What the device does not hold it gives back
//! ([`given_back`]), and an [`Encapsulator`](crate::Encapsulator) sends it.
//!
//! Not in the device: networks in which the longest prefix decides, groups, tunnels with a checksum
//! or numbers of GRE's, ways by other ports, flood lists, and how often an entry was used.

use memory::Packet;
use port::Reason;
use wire::tunnel::nsh;
use wire::{MacAddress, encap_tag};

use crate::network::Layer;

/// What a packet of a network gets in front of it for a NIC that puts it into its tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    header: [u8; encap_tag::HEADER_LEN],
    layer: Layer,
}

impl Mark {
    /// The mark of a network in a place of the NIC's, by a port with this Ethernet address.
    pub fn new(port: MacAddress, place: u16, layer: Layer) -> Mark {
        Mark { header: encap_tag::header(port, place), layer }
    }

    /// Marks a packet, which is then to leave by the port.
    ///
    /// # Errors
    /// Why it cannot be; the packet is as it was.
    #[inline]
    pub fn put(&self, packet: &mut Packet) -> std::result::Result<(), Reason> {
        let len = u16::try_from(packet.total_len()).map_err(|_| Reason::OverlayTooLong)?;
        let ttl = match self.layer {
            Layer::Service => Some(next_ttl(packet)?),
            Layer::Ethernet | Layer::Ip => None,
        };
        let room = packet.push_front(encap_tag::HEADER_LEN).ok().and_then(|room| room.first_chunk_mut());
        let room = room.ok_or(Reason::OverlayNoHeadroom)?;
        *room = self.header;
        encap_tag::set_packet_len(room, len);
        if let Some(ttl) = ttl {
            set_ttl(&mut packet[encap_tag::HEADER_LEN..], ttl);
        }
        Ok(())
    }
}

/// The hops of a service path that a packet has left behind this one (RFC 8300, section 2.2).
fn next_ttl(packet: &[u8]) -> std::result::Result<u8, Reason> {
    let before = nsh::Header::of(packet).ok_or(Reason::OverlayNoKey)?.ttl();
    match before.checked_sub(1).unwrap_or(nsh::DEFAULT_TTL) {
        0 => Err(Reason::OverlayServiceTtl),
        ttl => Ok(ttl),
    }
}

fn set_ttl(packet: &mut [u8], ttl: u8) {
    if let Some(mut header) = nsh::Header::of_mut(packet) {
        header.set_ttl(ttl);
    }
}

/// The place of the network of a packet that a NIC gives back, which is then as it was before it
/// was [marked](Mark::put); `None` of any other. `layer` tells what packets of a place are.
pub fn given_back(packet: &mut Packet, layer: impl FnOnce(u16) -> Option<Layer>) -> Option<u16> {
    if !encap_tag::is_tagged(packet) {
        return None;
    }
    let (tag, _) = encap_tag::split(packet).ok()?;
    let layer = layer(tag.network())?;
    packet.pull_front(encap_tag::HEADER_LEN).ok()?;
    packet.truncate(tag.packet_len().into());
    if layer == Layer::Service {
        let ttl = nsh::Header::of(packet).map_or(0, |header| header.ttl());
        // What was 0 became the largest.
        set_ttl(packet, if ttl == nsh::DEFAULT_TTL { 0 } else { ttl + 1 });
    }
    Some(tag.network())
}
