//! Which next hop a packet of a host has: neighbours are on the link, all others behind the
//! gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memory::{Packet, Pool};
use wire::{ipv4, ipv6};

use super::Host;
use super::headers::version;

impl Host {
    /// Sends an IP packet to its next hop. A host that has lost the address that a packet is from
    /// does not send it any more (RFC 2131, section 4.4.5).
    pub(super) fn route(&mut self, packet: Packet, now_ns: i64, pool: &mut Pool) {
        if let (4, Some(ip)) = (version(&packet), ipv4::Header::of(&packet)) {
            let (from, to) = (ip.src(), ip.dst());
            match self.hop_v4(to).filter(|_| self.may_send_from(from.into())) {
                Some(hop) => return self.v4.send(packet, hop, now_ns, pool, &mut self.frames),
                None => self.lost.no_route += 1,
            }
        } else if let Some(ip) = ipv6::Header::of(&packet) {
            let (from, to) = (ip.src(), ip.dst());
            match self.hop_v6(to).filter(|_| self.may_send_from(from.into())) {
                Some(hop) => return self.v6.send(packet, hop, now_ns, pool, &mut self.frames),
                None => self.lost.no_route += 1,
            }
        }
        pool.free(packet);
    }

    /// Addresses that were given at the start are never lost.
    #[inline]
    fn may_send_from(&self, from: IpAddr) -> bool {
        self.configured.is_none() || self.responder.addresses.contains(&from)
    }

    fn hop_v4(&self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let is_near = self.addresses.v4.is_some_and(|(own, bits)| is_in_v4(own, to, bits));
        if is_near { Some(to) } else { self.addresses.gateways.0 }
    }

    fn hop_v6(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let is_near = self.addresses.v6.is_some_and(|(own, bits)| is_in_v6(own, to, bits))
            || self.on_link.iter().any(|prefix| prefix.has(to));
        if is_near { Some(to) } else { self.addresses.gateways.1 }
    }
}

fn is_in_v4(own: Ipv4Addr, other: Ipv4Addr, bits: u8) -> bool {
    let differ = own.to_bits() ^ other.to_bits();
    bits == 0 || differ >> 32_u8.saturating_sub(bits).min(31) == 0
}

fn is_in_v6(own: Ipv6Addr, other: Ipv6Addr, bits: u8) -> bool {
    let differ = own.to_bits() ^ other.to_bits();
    bits == 0 || differ >> 128_u8.saturating_sub(bits).min(127) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_tell_who_is_near() {
        let [a, b] = [[10, 0, 0, 2], [10, 0, 1, 2]].map(Ipv4Addr::from);
        assert!(is_in_v4(a, b, 23) && !is_in_v4(a, b, 24) && is_in_v4(a, a, 32) && is_in_v4(a, b, 0));
        let [a, b] = [1, 0x1_0001_u128].map(Ipv6Addr::from_bits);
        assert!(is_in_v6(a, b, 111) && !is_in_v6(a, b, 112) && is_in_v6(a, a, 128) && is_in_v6(a, b, 0));
    }
}
