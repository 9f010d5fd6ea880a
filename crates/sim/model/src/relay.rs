//! Frames between virtual functions, each a device of its own that is stepped by itself, and the
//! switch of their port: they pass as bytes, within bounds, and take turns.

use std::collections::VecDeque;

use wire::ethernet::{ADDRESSES_LEN, EtherType};
use wire::vlan;

use crate::headers::parse;

/// Frames that wait for a virtual function at most, and those of it after which it sends no more.
const FRAMES: usize = 512;
/// And their bytes, of which the last frame may have more.
const BYTES: usize = 1 << 20;

/// Frames of each virtual function that are forwarded in a step; and bytes of them all, with those
/// that are copied for several receivers, after which no further frame is taken.
pub(crate) const BURST: usize = 64;
pub(crate) const BURST_BYTES: usize = 4 << 20;

/// Frames that wait, and their bytes.
#[derive(Debug, Default)]
struct Frames {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Frames {
    /// Whether another may be put: what waits is bounded by frames and by bytes.
    fn has_room(&self) -> bool {
        self.frames.len() < FRAMES && self.bytes < BYTES
    }

    fn put(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }

    /// Throws all away; how many there were.
    fn clear(&mut self) -> u64 {
        std::mem::take(self).frames.len() as u64
    }
}

/// Frames on their way from and to a virtual function.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    to_host: Frames,
    from_host: Frames,
    /// Frames for which there was no room here.
    pub full: u64,
    /// Frames that a reset has lost on their way.
    pub lost_by_reset: u64,
}

impl Relay {
    /// A reset: what was on its way is lost.
    pub fn clear(&mut self) {
        self.lost_by_reset += self.to_host.clear() + self.from_host.clear();
    }

    /// Gives the virtual function a frame; without room it is lost. Bytes that were copied.
    pub fn receive(&mut self, frame: &[u8]) -> usize {
        if !self.to_host.has_room() {
            self.full += 1;
            return 0;
        }
        self.to_host.put(frame.to_vec());
        frame.len()
    }

    /// Some frames that came for the virtual function.
    pub fn received(&mut self, most: usize) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.to_host.take()).take(most).collect()
    }

    /// Whether the virtual function may send more.
    pub fn has_room(&self) -> bool {
        self.from_host.has_room()
    }

    /// Frames that the virtual function sends.
    pub fn send(&mut self, frames: impl IntoIterator<Item = Vec<u8>>) {
        frames.into_iter().for_each(|frame| self.from_host.put(frame));
    }

    /// The next of them, for the switch.
    pub fn sent(&mut self) -> Option<Vec<u8>> {
        self.from_host.take()
    }
}

/// What a frame takes on the wire besides its bytes: preamble, CRC, gap.
const AROUND: u64 = 24;
/// For how long a sender that was idle may send as fast as it can, in nanoseconds.
const CREDIT_NS: u64 = 10_000;

/// A limit of what a virtual function sends, by the device's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limiter {
    /// Zero is no limit.
    mbps: u64,
    /// When the next frame may leave.
    next_ns: u64,
}

impl Limiter {
    /// A limit in Mbit/s; zero for none.
    pub fn new(mbps: u32) -> Limiter {
        Limiter { mbps: mbps.into(), next_ns: 0 }
    }

    /// The limit is another one; what has left counts still.
    pub fn set(&mut self, mbps: u64) {
        self.mbps = mbps;
    }

    /// Whether there is one.
    #[inline(always)]
    pub fn limits(&self) -> bool {
        self.mbps != 0
    }

    /// Whether a frame may leave.
    pub fn is_open(&self, now_ns: u64) -> bool {
        self.mbps == 0 || now_ns >= self.next_ns
    }

    /// A frame has left.
    pub fn count(&mut self, bytes: usize, now_ns: u64) {
        if let Some(takes_ns) = ((bytes as u64 + AROUND) * 8 * 1000).checked_div(self.mbps) {
            self.next_ns = self.next_ns.max(now_ns.saturating_sub(CREDIT_NS)) + takes_ns;
        }
    }
}

/// What the next of `count` virtual functions gives, and which it is: they take turns.
pub(crate) fn next_in_turn<T>(
    turn: &mut usize,
    count: usize,
    mut take: impl FnMut(usize) -> Option<T>,
) -> Option<(usize, T)> {
    let (n, taken) = (0..count).map(|n| (*turn + n) % count).find_map(|n| Some((n, take(n)?)))?;
    *turn = n + 1;
    Some((n, taken))
}

/// The tag of a frame.
pub(crate) fn tag_of(frame: &[u8]) -> Option<u16> {
    parse(frame, 1, |ethertype| ethertype == EtherType::VLAN).tag
}

/// A frame without its tag.
pub(crate) fn untagged(frame: &[u8]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(ADDRESSES_LEN.min(frame.len()));
    [addresses, rest.get(vlan::HEADER_LEN..).unwrap_or_default()].concat()
}

/// A frame with a tag.
pub(crate) fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(ADDRESSES_LEN.min(frame.len()));
    [addresses, &EtherType::VLAN.0.to_be_bytes(), &tag.to_be_bytes(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_virtual_function_is_bounded_by_frames_and_bytes() {
        let (mut small, mut large) = (Relay::default(), Relay::default());
        let most = |relay: &mut Relay, len: usize| {
            (0..1000).map(|_| relay.receive(&vec![0; len])).filter(|copied| *copied > 0).count()
        };
        assert_eq!((most(&mut small, 60), most(&mut large, 9000)), (512, (1 << 20) / 9000 + 1));
        assert_eq!((small.full, large.full), (488, 1000 - 117));
        let taken = large.received(64).len();
        assert_eq!((taken, most(&mut large, 9000)), (64, 64), "room comes back");
        large.clear();
        assert_eq!((large.lost_by_reset, most(&mut large, 9000)), (117, 117));
    }

    #[test]
    fn a_limit_holds_over_time_and_none_limits_nothing() {
        // 1,226 bytes and 24 around them are 10,000 bits: 100 us at 100 Mbit/s.
        let (mut limited, mut free) = (Limiter::new(100), Limiter::new(0));
        let mut sent = [0, 0];
        for now_ns in (1_000_000_000..1_010_000_000).step_by(1000) {
            for (limiter, sent) in [&mut limited, &mut free].into_iter().zip(&mut sent) {
                if limiter.is_open(now_ns) {
                    limiter.count(1226, now_ns);
                    *sent += 1;
                }
            }
        }
        assert_eq!(sent, [101, 10_000]);
        // Who was idle has not saved up for more than one frame.
        let now_ns = 2_000_000_000;
        limited.count(1226, now_ns);
        assert!(!limited.is_open(now_ns) && limited.is_open(now_ns + 90_000));
    }

    #[test]
    fn a_tag_comes_and_goes_behind_the_addresses() {
        let plain: Vec<u8> = (0..12).chain([0x88, 0xB5]).chain(20..66).collect();
        let with = tagged(&plain, 0x2007);
        assert_eq!((&with[..12], &with[12..16]), (&plain[..12], &[0x81, 0, 0x20, 7][..]));
        assert_eq!((tag_of(&with), tag_of(&plain), untagged(&with)), (Some(0x2007), None, plain));
    }
}
