//! Packets of which fragments are missing (RFC 791, section 3.2; RFC 1122, section 3.3.2; RFC 8200,
//! section 4.5). Strangers send as many first fragments as they like, so that there are few
//! places and little memory: who comes when all is taken has the place of the oldest one, of the
//! same sender where that has many. Fragments are copied: their buffers are free at once.

use std::net::IpAddr;

use memory::DATA_ROOM;
use port::Reason as Loss;
use wire::ecn;
use wire::fragments::{Assembly, Fault, Overlap};
use wire::ip::{Addresses, LONGEST, Protocol};
use wire::{icmpv4, icmpv6, ipv4, ipv6, tcp, udp};

use crate::options::SECOND_NS;

/// Packets that are waited for.
const PACKETS: usize = 64;
/// Packets of one sender.
const OF_SENDER: usize = PACKETS / 4;
/// Bytes of memory that all take, and half of it those of one sender.
const MEMORY: usize = 256 << 10;
/// How long the rest of a packet is waited for from its first fragment on: over IPv4 (RFC 1122
/// has 60 to 120 seconds, RFC 791 15 and Linux 30) and over IPv6.
const LIFE_NS: [i64; 2] = [30 * SECOND_NS, 60 * SECOND_NS];

/// Buffers that whole packets of one turn may take: of what was held, and of the fragments that
/// came.
pub const BUFFERS: usize = MEMORY / DATA_ROOM + 2 * PACKETS;

/// What fragments are dropped for, in the order in which they are shown.
const LOSSES: [Loss; 8] = [
    Loss::RxIpFragment,
    Loss::RxIpFragmentShort,
    Loss::RxIpFragmentLong,
    Loss::RxIpFragmentOverlap,
    Loss::RxIpFragmentLate,
    Loss::RxIpFragmentRoom,
    Loss::RxIpFragmentBuffers,
    Loss::RxIpFragmentCore,
];

/// What fragments of one packet have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    addresses: Addresses,
    /// The protocol, which counts over IPv4 only.
    protocol: Option<Protocol>,
    identification: u32,
}

/// A fragment that came.
#[derive(Debug, Clone, Copy)]
pub struct Fragment<'a> {
    key: Key,
    /// The IP header with options or extension headers, that of the fragment included.
    header: &'a [u8],
    traffic_class: u8,
    /// What the whole begins with, which of IPv6 the first fragment tells.
    protocol: Protocol,
    at: usize,
    bytes: &'a [u8],
    is_last: bool,
    /// Bytes of the whole at most.
    most: usize,
}

impl<'a> Fragment<'a> {
    /// Reads a fragment at the start of an IP packet; `None` when it is none.
    pub fn of(packet: &'a [u8]) -> Option<Fragment<'a>> {
        if let Ok(ip) = ipv4::Packet::new_checked(packet) {
            let (identification, protocol) = (ip.identification().into(), Some(ip.protocol()));
            let (header, bytes) = packet.get(..ip.total_len())?.split_at_checked(ip.header_len())?;
            return ip.is_fragment().then_some(Fragment {
                key: Key { addresses: ip.addresses(), protocol, identification },
                header,
                traffic_class: ip.traffic_class(),
                protocol: ip.protocol(),
                at: ip.fragment_offset().into(),
                bytes,
                is_last: !ip.more_fragments(),
                most: LONGEST - header.len(),
            });
        }
        let ip = ipv6::Packet::new_checked(packet).ok()?;
        let ipv6::Part { fragment, protocol, offset } = ipv6::part(ip.next_header(), ip.payload())?;
        let end = ipv6::HEADER_LEN + ip.payload_len();
        let (header, bytes) = packet.get(..end)?.split_at_checked(ipv6::HEADER_LEN + offset)?;
        Some(Fragment {
            key: Key { addresses: ip.addresses(), protocol: None, identification: fragment.identification },
            header,
            traffic_class: ip.traffic_class(),
            protocol,
            at: fragment.offset.into(),
            bytes,
            is_last: !fragment.more,
            // Extension headers in front of the fragment's count as well.
            most: LONGEST - (offset - ipv6::FRAGMENT_LEN),
        })
    }

    /// Why it can be part of no packet, whatever others say.
    fn fault(&self) -> Option<Loss> {
        let is_odd = self.bytes.is_empty() || !self.is_last && !self.bytes.len().is_multiple_of(8);
        if is_odd || self.at == 0 && !self.has_whole_header() {
            return Some(Loss::RxIpFragmentShort);
        }
        (self.at + self.bytes.len() > self.most).then_some(Loss::RxIpFragmentLong)
    }

    /// Whether a first fragment has the header above IP, and those of IPv6 in front of it (RFC
    /// 1858, section 3; RFC 7112).
    fn has_whole_header(&self) -> bool {
        let (protocol, offset) = match self.key.addresses {
            Addresses::V4 { .. } => (self.protocol, 0),
            Addresses::V6 { .. } => match ipv6::upper_layer(self.protocol, self.bytes) {
                Ok(upper) => (upper.protocol, upper.offset),
                Err(_) => return false,
            },
        };
        let least = match protocol {
            Protocol::TCP => tcp::HEADER_LEN,
            Protocol::UDP => udp::HEADER_LEN,
            Protocol::ICMP | Protocol::ICMPV6 => icmpv4::HEADER_LEN,
            _ => 0,
        };
        self.bytes.len() >= offset + least
    }
}

/// A packet all of whose fragments came.
#[derive(Debug, PartialEq, Eq)]
pub struct Whole {
    /// From whom and to whom.
    pub addresses: Addresses,
    /// The protocol above IP.
    pub protocol: Protocol,
    /// The traffic class: congestion that one fragment met, all met (RFC 3168, section 5.3).
    pub traffic_class: u8,
    /// What stands behind the IP header and its extension headers.
    pub payload: Vec<u8>,
}

/// A packet that was not complete in time, whose first fragment came.
#[derive(Debug, PartialEq, Eq)]
pub struct Late {
    /// From whom and to whom.
    pub addresses: Addresses,
    /// The first fragment, or its beginning.
    pub first: Vec<u8>,
}

/// A packet of which fragments are missing.
struct Waiting {
    key: Key,
    /// The first fragment's IP header, once that came, and what the whole begins with.
    first: Option<(Vec<u8>, Protocol)>,
    assembly: Assembly,
    /// Why it is no packet: what comes of it later is dropped too (RFC 5722).
    fault: Option<Loss>,
    traffic_class: u8,
    /// Fragments that it has.
    count: u64,
    since_ns: i64,
}

impl Waiting {
    fn new(fragment: &Fragment, now_ns: i64) -> Waiting {
        Waiting {
            key: fragment.key,
            first: None,
            assembly: Assembly::default(),
            fault: None,
            traffic_class: fragment.traffic_class,
            count: 0,
            since_ns: now_ns,
        }
    }

    fn source(&self) -> IpAddr {
        self.key.addresses.src()
    }

    fn memory(&self) -> usize {
        self.assembly.pieces().memory() + self.first.as_ref().map_or(0, |(header, _)| header.len())
    }

    fn end_ns(&self) -> i64 {
        let is_v6 = matches!(self.key.addresses, Addresses::V6 { .. });
        self.since_ns + LIFE_NS[usize::from(is_v6)]
    }

    fn take(&mut self, fragment: &Fragment) -> Result<(), Loss> {
        let Fragment { at, bytes, is_last, most, .. } = *fragment;
        let taken = self.assembly.take(at, bytes, is_last, most, Overlap::Refuse);
        taken.map_err(|fault| match fault {
            Fault::Contradiction => Loss::RxIpFragment,
            Fault::TooLong => Loss::RxIpFragmentLong,
            Fault::Overlap => Loss::RxIpFragmentOverlap,
        })?;
        if at == 0 && self.first.is_none() {
            self.first = Some((fragment.header.to_vec(), fragment.protocol));
        }
        if fragment.traffic_class & ecn::MASK == ecn::CE {
            self.traffic_class |= ecn::CE;
        }
        Ok(())
    }

    /// The packet, if it is one.
    fn whole(self) -> Option<Whole> {
        let (addresses, traffic_class) = (self.key.addresses, self.traffic_class);
        let (_, mut protocol) = self.first?;
        let mut payload = self.assembly.pieces().to_bytes();
        if let Addresses::V6 { .. } = addresses {
            let upper = ipv6::upper_layer(protocol, &payload).ok()?;
            // No packet is a fragment of a fragment.
            if upper.fragment.is_some() {
                return None;
            }
            protocol = upper.protocol;
            payload.drain(..upper.offset);
        }
        Some(Whole { addresses, protocol, traffic_class, payload })
    }

    /// What its sender may be told of when it was not complete in time: never of an error (RFC 1122,
    /// section 3.2.2; RFC 4443, section 2.4).
    fn late(self) -> Option<Late> {
        let (mut first, protocol) = self.first.filter(|_| self.fault.is_none())?;
        if is_error(self.key.addresses, protocol, self.assembly.pieces().start()) {
            return None;
        }
        let len = match self.key.addresses {
            Addresses::V4 { .. } => ipv4::Header::of(&first)?.total_len(),
            Addresses::V6 { .. } => ipv6::HEADER_LEN + ipv6::Header::of(&first)?.payload_len(),
        };
        first.extend_from_slice(self.assembly.pieces().start());
        first.truncate(len);
        Some(Late { addresses: self.key.addresses, first })
    }
}

/// Whether a packet that begins like this behind its IP header carries an error of ICMP, or may.
fn is_error(addresses: Addresses, mut protocol: Protocol, mut start: &[u8]) -> bool {
    if let Addresses::V6 { .. } = addresses {
        let Ok(upper) = ipv6::upper_layer(protocol, start) else { return true };
        (protocol, start) = (upper.protocol, start.get(upper.offset..).unwrap_or_default());
    }
    match protocol {
        Protocol::ICMP => start.first().is_none_or(|kind| icmpv4::is_error(*kind)),
        Protocol::ICMPV6 => start.first().is_none_or(|kind| icmpv6::is_error(*kind)),
        _ => false,
    }
}

/// The packets of a host that are not complete.
#[derive(Default)]
pub struct Fragments {
    waiting: Vec<Waiting>,
    /// When the first of them has waited for long enough.
    due_ns: Option<i64>,
    losses: [u64; LOSSES.len()],
    joined: u64,
}

impl Fragments {
    /// Takes a fragment; the whole packet, when it was the last one missing.
    pub fn take(&mut self, fragment: &Fragment, now_ns: i64) -> Option<Whole> {
        if let Some(loss) = fragment.fault() {
            self.lose(loss, 1);
            return None;
        }
        let place = match self.waiting.iter().position(|waiting| waiting.key == fragment.key) {
            Some(place) => place,
            None => self.begin(fragment, now_ns),
        };
        let waiting = &mut self.waiting[place];
        if waiting.fault.is_none() {
            waiting.fault = waiting.take(fragment).err();
            if waiting.fault.is_some() {
                (waiting.assembly, waiting.first) = (Assembly::default(), None);
            }
        }
        waiting.count += 1;
        if let Some(loss) = waiting.fault {
            let count = std::mem::take(&mut waiting.count);
            self.lose(loss, count);
            return None;
        }
        if !waiting.assembly.is_whole() {
            self.keep_within_memory(fragment.key);
            return None;
        }
        let waiting = self.remove(place);
        let count = waiting.count;
        let whole = waiting.whole();
        match whole {
            Some(_) => self.joined += 1,
            None => self.lose(Loss::RxIpFragment, count),
        }
        whole
    }

    /// Begins to wait for a packet; where it is.
    fn begin(&mut self, fragment: &Fragment, now_ns: i64) -> usize {
        let waiting = Waiting::new(fragment, now_ns);
        let source = waiting.source();
        let of_source = self.waiting.iter().filter(|other| other.source() == source).count();
        if of_source >= OF_SENDER {
            self.give_up(Some(source));
        } else if self.waiting.len() >= PACKETS {
            self.give_up(None);
        }
        self.due_ns = Some(self.due_ns.map_or(waiting.end_ns(), |due_ns| due_ns.min(waiting.end_ns())));
        self.waiting.push(waiting);
        self.waiting.len() - 1
    }

    /// Gives packets up until those that are left take no more memory than they may; `last` is that
    /// of which a fragment came.
    fn keep_within_memory(&mut self, last: Key) {
        let source = last.addresses.src();
        let (mut all, mut of_source) = (0, 0);
        for waiting in &self.waiting {
            all += waiting.memory();
            of_source += if waiting.source() == source { waiting.memory() } else { 0 };
        }
        while all > MEMORY || of_source > MEMORY / 2 {
            let whose = (of_source > MEMORY / 2).then_some(source);
            let Some(gone) = self.give_up(whose) else { return };
            all -= gone.memory();
            of_source -= if gone.source() == source { gone.memory() } else { 0 };
        }
    }

    /// Gives the oldest packet up, of a sender or of all.
    fn give_up(&mut self, source: Option<IpAddr>) -> Option<Waiting> {
        let all = self.waiting.iter().enumerate();
        let of_source = all.filter(|(_, waiting)| source.is_none_or(|source| waiting.source() == source));
        let (place, _) = of_source.min_by_key(|(_, waiting)| waiting.since_ns)?;
        let gone = self.remove(place);
        self.lose(Loss::RxIpFragmentRoom, gone.count);
        Some(gone)
    }

    fn remove(&mut self, place: usize) -> Waiting {
        // In order, so that of two of the same time the first is the older one.
        let waiting = self.waiting.remove(place);
        self.due_ns = self.waiting.iter().map(Waiting::end_ns).min();
        waiting
    }

    /// Gives up what has waited for long enough; a packet of which the sender may be told.
    pub fn expire(&mut self, now_ns: i64) -> Option<Late> {
        while self.due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            let place = self.waiting.iter().position(|waiting| waiting.end_ns() <= now_ns)?;
            let gone = self.remove(place);
            self.lose(Loss::RxIpFragmentLate, gone.count);
            if let Some(late) = gone.late() {
                return Some(late);
            }
        }
        None
    }

    /// When [`expire`](Fragments::expire) has something to do.
    #[inline]
    pub fn due_ns(&self) -> Option<i64> {
        self.due_ns
    }

    /// Counts fragments that are dropped.
    fn lose(&mut self, reason: Loss, count: u64) {
        let place = LOSSES.iter().position(|loss| *loss == reason);
        place.into_iter().for_each(|place| self.losses[place] += count);
    }

    /// Counts a packet that was whole and is dropped.
    pub fn lose_whole(&mut self, reason: Loss) {
        self.lose(reason, 1);
    }

    /// What was dropped, by its reason.
    pub fn losses(&self) -> impl Iterator<Item = (Loss, u64)> {
        LOSSES.into_iter().zip(self.losses)
    }

    /// Packets that were put together.
    pub fn joined(&self) -> u64 {
        self.joined
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Each fragment that comes is lost by one name, waits, or is of a packet that was put together.
    #[test]
    fn each_fragment_is_accounted_for_once() {
        let mut all = Fragments::default();
        let (mut random, mut now_ns, mut joined) = (27_u64, 0, 0);
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % limit
        };
        let mut names = [0; LOSSES.len()];
        for taken in 1..=30_000 {
            let src = Ipv4Addr::new(10, 0, 0, 2 + below(6) as u8);
            let addresses = Addresses::V4 { src, dst: Ipv4Addr::new(10, 0, 0, 1) };
            let key = Key { addresses, protocol: Some(Protocol(253)), identification: below(40) as u32 };
            let len = [0, 7, 8, 8, 16, 16, 1480][below(7)];
            let fragment = Fragment {
                key,
                header: &[0x45; 20],
                traffic_class: 0,
                protocol: Protocol(253),
                at: [0, 0, 8, 16, 16, 65_528][below(6)],
                bytes: &[7; 1480][..len],
                is_last: below(2) == 0,
                most: LONGEST - 20,
            };
            let of_packet = all.waiting.iter().find(|waiting| waiting.key == key);
            let before = of_packet.map_or(0, |waiting| waiting.count);
            joined += all.take(&fragment, now_ns).map_or(0, |_| before + 1);
            now_ns += below(200) as i64 * 1_000_000;
            // Now and then all that waits is late.
            now_ns += if taken % 500 == 0 { LIFE_NS[0] } else { 0 };
            while all.expire(now_ns).is_some() {}
            let lost: u64 = all.losses().map(|(_, count)| count).sum();
            let waiting: u64 = all.waiting.iter().map(|waiting| waiting.count).sum();
            assert_eq!(lost + waiting + joined, taken);
            all.losses().zip(&mut names).for_each(|((_, count), most)| *most = count);
        }
        assert!(joined > 100 && names[..6].iter().all(|count| *count > 0), "{joined}, {names:?}");
    }
}
