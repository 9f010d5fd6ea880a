//! Packets that are longer than the link takes are sent in fragments (RFC 791, section 3.2; RFC
//! 8200, section 4.5).

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use memory::{Batch, Packet, Pool};
use wire::ip::{Addresses, LONGEST, Protocol};
use wire::{ipv4, ipv6};

use crate::emit;

/// Numbers packets that go in fragments: those to one host count up from a number that others
/// cannot know (RFC 7739, section 5.3).
#[derive(Debug, Default)]
pub struct Cutter {
    hasher: RandomState,
    count: u32,
}

/// Why a packet was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncut {
    /// There are not so many buffers, or not so much room in the batch.
    Full,
    /// It is longer than IP packets are, or needs more fragments than the batch ever takes.
    TooLong,
}

impl Cutter {
    /// Appends the packets with a payload to `out`, each with `front` in front of it: one, or as
    /// many fragments as it needs where none is longer than `mtu`, which is 576 at least.
    ///
    /// # Errors
    /// Why there are none.
    pub fn send(
        &mut self,
        (addresses, protocol): (Addresses, Protocol),
        payload: &[u8],
        (front, mtu): (&[u8], usize),
        pool: &mut Pool,
        out: &mut Batch,
    ) -> Result<(), Uncut> {
        let (header, most) = match addresses {
            Addresses::V4 { .. } => (ipv4::HEADER_LEN, LONGEST - ipv4::HEADER_LEN),
            Addresses::V6 { .. } => (ipv6::HEADER_LEN, LONGEST),
        };
        let is_one = header + payload.len() <= mtu;
        let size = match addresses {
            _ if is_one => payload.len(),
            Addresses::V4 { .. } => (mtu - header) & !7,
            Addresses::V6 { .. } => (mtu - header - ipv6::FRAGMENT_LEN) & !7,
        };
        let count = payload.len().div_ceil(size.max(1)).max(1);
        if payload.len() > most || count > out.len() + out.room() {
            return Err(Uncut::TooLong);
        }
        if count > out.room() {
            return Err(Uncut::Full);
        }
        let identification = self.number(addresses, protocol);
        let mut all = Vec::with_capacity(count);
        for n in 0..count {
            let at = n * size;
            let part = &payload[at..payload.len().min(at + size)];
            let place = (!is_one).then_some(ipv6::Fragment {
                offset: at as u16,
                more: n + 1 < count,
                identification,
            });
            match build(part, place, (addresses, protocol), front, pool) {
                Ok(packet) => all.push(packet),
                Err(why) => {
                    all.into_iter().for_each(|packet| pool.free(packet));
                    return Err(why);
                }
            }
        }
        let refused = all.into_iter().filter_map(|packet| out.push(packet));
        refused.for_each(|packet| pool.free(packet));
        Ok(())
    }

    fn number(&mut self, addresses: Addresses, protocol: Protocol) -> u32 {
        self.count = self.count.wrapping_add(1);
        (self.hasher.hash_one((addresses, protocol.0)) as u32).wrapping_add(self.count)
    }
}

/// A packet, which is a fragment if it has a place in a whole one.
fn build(
    part: &[u8],
    place: Option<ipv6::Fragment>,
    (addresses, protocol): (Addresses, Protocol),
    front: &[u8],
    pool: &mut Pool,
) -> Result<Packet, Uncut> {
    let mut packet = pool.alloc().ok_or(Uncut::Full)?;
    let written = packet.copy_from(part).and_then(|()| {
        match place {
            None => emit::push_ip(&mut packet, addresses, protocol, 0)?,
            Some(place) => push_fragment_header(&mut packet, addresses, protocol, place)?,
        }
        packet.push_front(front.len())?.copy_from_slice(front);
        Ok(())
    });
    match written {
        Ok(()) => Ok(packet),
        Err(_) => {
            pool.free(packet);
            Err(Uncut::TooLong)
        }
    }
}

/// Puts the IP header of a fragment in front of a part. Routers may cut it again.
fn push_fragment_header(
    packet: &mut Packet,
    addresses: Addresses,
    protocol: Protocol,
    place: ipv6::Fragment,
) -> Result<(), memory::TooLong> {
    match addresses {
        Addresses::V4 { src, dst } => {
            let ip = ipv4::Repr {
                identification: place.identification as u16,
                more_fragments: place.more,
                fragment_offset: place.offset,
                ..ipv4::Repr::between(src, dst, protocol, packet.len())
            };
            ip.emit(&mut ipv4::Packet::new_unchecked(packet.push_front(ipv4::HEADER_LEN)?));
            Ok(())
        }
        Addresses::V6 { .. } => {
            packet.push_front(ipv6::FRAGMENT_LEN)?.copy_from_slice(&place.header(protocol));
            emit::push_ip(packet, addresses, Protocol::FRAGMENT, 0)
        }
    }
}
