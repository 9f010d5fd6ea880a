//! Bytes anywhere in a packet, which may be a chain of buffers.

use std::borrow::Cow;

use memory::Packet;
use wire::checksum::{self, Partial};

/// Bytes of a packet from a place in its first buffer to its end, in however many buffers: what is
/// read of a packet's payload. Headers are whole in the first buffer, for whoever takes bytes
/// off a packet's front sees to that ([`Cx::strip`](crate::Cx::strip)).
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'p> {
    first: &'p [u8],
    behind: Option<&'p Packet>,
}

impl<'p> Bytes<'p> {
    /// Those of one buffer, and all of the buffers behind it.
    #[inline(always)]
    pub fn new(first: &'p [u8], behind: Option<&'p Packet>) -> Bytes<'p> {
        Bytes { first, behind }
    }

    /// All bytes of a packet.
    #[inline(always)]
    pub fn of(packet: &'p Packet) -> Bytes<'p> {
        Bytes { first: packet, behind: packet.next() }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.first.len() + self.behind.map_or(0, Packet::total_len)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those of the first buffer.
    #[inline(always)]
    pub fn first(&self) -> &'p [u8] {
        self.first
    }

    /// The bytes, buffer by buffer.
    pub fn parts(self) -> impl Iterator<Item = &'p [u8]> {
        let behind = self.behind.into_iter().flat_map(|packet| packet.segments());
        std::iter::once(self.first).chain(behind.map(|segment| &segment[..]))
    }

    /// What is left behind the first `count`.
    #[inline]
    pub fn skip(self, count: usize) -> Bytes<'p> {
        let (Bytes { mut first, mut behind }, mut left) = (self, count);
        while left > first.len()
            && let Some(next) = behind
        {
            left -= first.len();
            (first, behind) = (next, next.next());
        }
        Bytes { first: first.get(left..).unwrap_or(&[]), behind }
    }

    /// The first `count`, or as many as there are, in one piece: a copy where they lie in
    /// several buffers.
    #[inline]
    pub fn front(self, count: usize) -> Cow<'p, [u8]> {
        match (self.first.get(..count), self.behind) {
            (Some(all), _) => Cow::Borrowed(all),
            (None, None) => Cow::Borrowed(self.first),
            (None, Some(_)) => Cow::Owned(self.copied(count)),
        }
    }

    #[cold]
    fn copied(self, count: usize) -> Vec<u8> {
        let mut copy = Vec::with_capacity(count.min(self.len()));
        for part in self.parts() {
            copy.extend_from_slice(&part[..part.len().min(count - copy.len())]);
        }
        copy
    }

    /// The one's complement sum of the first `count`, not inverted; `None` where there are fewer.
    #[inline]
    pub fn sum(self, count: usize) -> Option<u16> {
        match self.first.get(..count) {
            Some(all) => Some(checksum::sum(all)),
            None => self.sum_far(count),
        }
    }

    #[cold]
    fn sum_far(self, count: usize) -> Option<u16> {
        let (mut sum, mut left) = (Partial::default(), count);
        for part in self.parts() {
            let here = &part[..part.len().min(left)];
            sum.add(here);
            left -= here.len();
        }
        (left == 0).then(|| sum.sum())
    }
}

/// Looks at the bytes from `at` on, as many as `wanted`, part by part: `look` is given how
/// many came before, and the part. Whether the packet has them all.
fn visit(packet: &mut Packet, at: usize, wanted: usize, mut look: impl FnMut(usize, &mut [u8])) -> bool {
    let (mut skipped, mut seen) = (at, 0);
    let mut segment = Some(packet);
    while let Some(here) = segment {
        let length = here.len();
        if skipped < length {
            let end = length.min(skipped + (wanted - seen));
            look(seen, &mut here[skipped..end]);
            seen += end - skipped;
        }
        skipped = skipped.saturating_sub(length);
        if seen == wanted {
            return true;
        }
        segment = here.next_mut();
    }
    seen == wanted
}

/// Writes bytes into a packet, from `at` on: as far as it goes.
pub fn write_at(packet: &mut Packet, at: usize, bytes: &[u8]) {
    visit(packet, at, bytes.len(), |before, part| part.copy_from_slice(&bytes[before..before + part.len()]));
}

/// The bytes of a packet from `at` on; `None` where it ends before.
pub fn read_at<const N: usize>(packet: &mut Packet, at: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    visit(packet, at, N, |before, part| bytes[before..before + part.len()].copy_from_slice(part))
        .then_some(bytes)
}

/// Changes the bytes of a packet from `at` on, as far as it goes, each by one of `by`.
#[inline]
pub fn change_at<T>(packet: &mut Packet, at: usize, by: &[T], mut change: impl FnMut(&mut u8, &T)) {
    visit(packet, at, by.len(), |before, part| {
        part.iter_mut().zip(&by[before..]).for_each(|(byte, by)| change(byte, by));
    });
}

/// Changes all bytes of a packet.
pub fn change_all(packet: &mut Packet, mut change: impl FnMut(&mut u8)) {
    visit(packet, 0, usize::MAX, |_, part| part.iter_mut().for_each(&mut change));
}
