//! The Ethernet at the edge of a network whose packets have no Ethernet header: it is taken
//! away in front of tunnels, and put back behind them, as a router does.

use memory::{Packet, TxOffload};
use neighbor::Responder;
use overlay::Layer;
use port::Reason;
use wire::ethernet::{self, EtherType};
use wire::{MacAddress, checksum, ipv4, ipv6};

use crate::config::Inner;

/// One network's edge.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    /// The port, and the addresses for which it answers.
    pub(crate) host: Responder,
    pub(crate) layer: Layer,
    /// Where packets go that come out of tunnels.
    pub(crate) peer: Option<MacAddress>,
}

/// What becomes of a frame that a host sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// It is a packet of the network now.
    Packet,
    /// It is the answer to what it asked.
    Answer,
    /// It goes no further.
    Lost(Reason),
}

impl Gateway {
    /// The edge of a network whose port has this Ethernet address.
    pub(crate) fn new(inner: &Inner, mac: MacAddress) -> Gateway {
        let host = Responder { mac, addresses: inner.gateway.clone() };
        Gateway { host, layer: inner.layer, peer: inner.peer }
    }

    /// Takes a frame in.
    pub(crate) fn enter(&self, packet: &mut Packet) -> Entered {
        if !self.host.addresses.is_empty() && self.host.answer(packet) {
            return Entered::Answer;
        }
        if self.layer == Layer::Ethernet {
            return Entered::Packet;
        }
        match ethernet::Header::of(&packet[..]).is_some_and(|header| header.dst() == self.host.mac) {
            true => unwrap(packet, self.layer),
            false => Entered::Lost(Reason::OverlayNotRouted),
        }
    }

    /// Gives a packet of the network the header that its host expects; false when there is
    /// no host or no room.
    pub(crate) fn leave(&self, packet: &mut Packet) -> bool {
        let ethertype = match self.layer {
            Layer::Ethernet => return true,
            Layer::Service => EtherType::NSH,
            Layer::Ip => match packet.first().map(|first| ipv4::version(*first)) {
                Some(6) => EtherType::IPV6,
                _ => EtherType::IPV4,
            },
        };
        let Some(peer) = self.peer else { return false };
        let header = ethernet::Header::between(peer, self.host.mac, ethertype).into_inner();
        match packet.push_front(header.len()) {
            Ok(room) => room.copy_from_slice(&header),
            Err(_) => return false,
        }
        true
    }
}

/// Takes the Ethernet header off a frame that is for the gateway.
fn unwrap(packet: &mut Packet, layer: Layer) -> Entered {
    let ethertype = ethernet::Header::of(&packet[..]).map(|header| header.ethertype());
    let Some(ethertype) = ethertype else { return Entered::Lost(Reason::OverlayNotRouted) };
    let is_right = match layer {
        Layer::Service => ethertype == EtherType::NSH,
        _ => matches!(ethertype, EtherType::IPV4 | EtherType::IPV6),
    };
    if !is_right || packet.pull_front(ethernet::HEADER_LEN).is_err() {
        return Entered::Lost(Reason::OverlayNotRouted);
    }
    let asked = packet.tx_offload();
    if !asked.is_empty() {
        let l2_len = asked.l2_len.saturating_sub(ethernet::HEADER_LEN as u8);
        packet.set_tx_offload(TxOffload { l2_len, ..asked });
    }
    if layer == Layer::Service {
        return Entered::Packet;
    }
    let len = match ethertype {
        EtherType::IPV4 => ipv4_len(packet),
        _ => ipv6_len(packet),
    };
    match len.filter(|len| *len <= packet.total_len()) {
        // Ethernet fills short frames up, and what is behind a packet is no part of it.
        Some(len) => packet.truncate(len),
        None => return Entered::Lost(Reason::OverlayInnerMalformed),
    }
    match hop(packet, ethertype) {
        true => Entered::Packet,
        false => Entered::Lost(Reason::OverlayTtlExpired),
    }
}

/// Bytes of an IPv4 packet; none when its header cannot be or has a wrong checksum.
fn ipv4_len(packet: &[u8]) -> Option<usize> {
    let header = ipv4::Header::of(packet)?;
    let (header_len, len) = (header.header_len(), header.total_len());
    let is_header = header.version() == 4 && header_len >= ipv4::HEADER_LEN && len >= header_len;
    (is_header && checksum::verify(packet.get(..header_len)?)).then_some(len)
}

/// Bytes of an IPv6 packet; none when its header cannot be.
fn ipv6_len(packet: &[u8]) -> Option<usize> {
    let header = ipv6::Header::of(packet)?;
    (header.version() == 6).then(|| ipv6::HEADER_LEN + header.payload_len())
}

/// Takes one hop of a packet (RFC 2003, section 3.1); false when none is left, or there is no
/// header.
fn hop(packet: &mut Packet, ethertype: EtherType) -> bool {
    if ethertype == EtherType::IPV4 {
        return ipv4::Header::of_mut(packet).is_some_and(|mut header| header.decrement_ttl());
    }
    let Some(mut header) = ipv6::Header::of_mut(packet) else { return false };
    let limit = header.hop_limit();
    if limit > 1 {
        header.set_hop_limit(limit - 1);
    }
    limit > 1
}

#[cfg(test)]
mod tests;
