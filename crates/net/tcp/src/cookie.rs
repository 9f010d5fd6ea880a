//! SYN cookies (RFC 4987, section 3.6): under a flood of SYNs nothing is kept of them. The
//! answer's number is a secret hash of both ends, with a clock of 64 seconds and the largest
//! segment in its lower bits; what else the SYN offered stands in the clock of the answer's
//! timestamps, which the other side echoes.

use wire::ecn;
use wire::tcp::Flags;

use crate::connection::Io;
use crate::emit::{self, Header, OptionBytes};
use crate::key::Key;
use crate::options::{MILLISECOND_NS, Options, SECOND_NS};
use crate::segment::Segment;
use crate::sequence::Sequence;
use crate::stack::Stack;

/// The window of an answer with a cookie.
pub const WINDOW: u16 = 0xFFFF;
/// How long a cookie counts, at most.
const LIFE_NS: i64 = 2 * PERIOD_NS;
const PERIOD_NS: i64 = 64 * SECOND_NS;

/// Largest segments that a cookie can tell apart.
const SEGMENTS: [u16; 8] = [64, 536, 1220, 1300, 1440, 1460, 1940, 8960];
/// Bits of the answer's clock that say what the SYN offered: the shift of windows, 15 for
/// none, and selective acknowledgements.
const CLOCK_BITS: u32 = 5;
const NO_SHIFT: u32 = 15;
const SACK: u32 = 1 << 4;

/// The cookie for a SYN of number `first`, of a period.
fn cookie(key: &Key, first: Sequence, period: u32, segment: u32, secret: [u64; 2]) -> Sequence {
    let more = u64::from(first.0) << 32 | u64::from(period << 3 | segment) << 3 | 4;
    let hash = key.seen_hash(secret, more);
    Sequence(hash << 8 | (period & 31) << 3 | segment)
}

fn period(now_ns: i64) -> u32 {
    (now_ns / PERIOD_NS) as u32 & 0xFF_FFFF
}

/// The answer to a SYN of which nothing is kept.
pub fn answer(key: &Key, syn: &Segment, options: &Options, now_ns: i64) -> Option<Header> {
    let addresses = key.addresses()?;
    let theirs = syn.max_segment.unwrap_or(536);
    let segment = SEGMENTS.iter().rposition(|segment| *segment <= theirs).unwrap_or(0);
    let sequence = cookie(key, syn.sequence, period(now_ns), segment as u32, options.key);
    let own = emit::max_segment(&addresses, options.mtu);
    let mut bytes = OptionBytes::of_syn(own, false, None, None);
    if let Some((clock, _)) = syn.timestamps.filter(|_| options.timestamps) {
        let shift = syn.window_scale.filter(|_| options.window_scale);
        let has_sack = syn.sack_permitted && options.sack;
        let told = shift.map_or(NO_SHIFT, u32::from) | if has_sack { SACK } else { 0 };
        let mask = (1 << CLOCK_BITS) - 1;
        let base = (now_ns / MILLISECOND_NS) as u32;
        let value = base.wrapping_sub(mask) & !mask | told;
        let value = value.wrapping_add(offset(key, options) & !mask);
        let own_shift = shift.map(|_| options.receive_shift());
        bytes = OptionBytes::of_syn(own, has_sack, Some((value, clock)), own_shift);
    }
    Some(Header {
        addresses,
        src_port: key.local_port,
        dst_port: key.remote_port,
        sequence,
        acknowledgement: syn.sequence.plus(1),
        flags: Flags::SYN | Flags::ACK,
        window: WINDOW,
        options: bytes,
        ecn: ecn::NOT_ECT,
    })
}

impl Stack {
    /// Takes cookies for some time, such as this stack, or one with its secret, sends now.
    pub(crate) fn expect_cookies(&mut self, now_ns: i64) {
        self.cookies_until_ns = now_ns + LIFE_NS;
    }

    /// Opens a connection by an acknowledgement that carries a cookie.
    pub(crate) fn accept_cookie(&mut self, key: Key, segment: &Segment, io: &mut Io) -> Option<u32> {
        if io.now_ns >= self.cookies_until_ns || segment.has(Flags::SYN) {
            return None;
        }
        let syn = accept(&key, segment, &self.shared.options, io.now_ns)?;
        let initial = Sequence(segment.acknowledgement.0.wrapping_sub(1));
        let index = self.open(key, initial, io)?;
        let connection = self.connections.get_mut(index)?;
        connection.is.is_passive = true;
        connection.learn(&syn, &self.shared.options, io.now_ns);
        connection.receive_edge = connection.receive_next.plus(WINDOW.into());
        let next = initial.plus(1);
        (connection.una, connection.nxt, connection.end) = (next, next, next);
        connection.acknowledged = connection.receive_next;
        connection.set_window(segment);
        connection.establish(index, &mut self.shared, io);
        self.shared.counters.cookies_accepted += 1;
        Some(index)
    }
}

/// What the connection adds to its clock, without which the echo cannot be read.
fn offset(key: &Key, options: &Options) -> u32 {
    key.seen_hash(options.key, 1)
}

/// The SYN that an acknowledgement with a cookie of ours answers, as far as it is known; `None`
/// for all other acknowledgements.
pub fn accept(key: &Key, segment: &Segment, options: &Options, now_ns: i64) -> Option<Segment> {
    let told = Sequence(segment.acknowledgement.0.wrapping_sub(1));
    let first = Sequence(segment.sequence.0.wrapping_sub(1));
    let size = told.0 & 7;
    let present = period(now_ns);
    let is_ours = [present, present.wrapping_sub(1) & 0xFF_FFFF]
        .into_iter()
        .any(|period| told == cookie(key, first, period, size, options.key));
    if !is_ours {
        return None;
    }
    let echo = segment.timestamps.map(|(_, echo)| echo.wrapping_sub(offset(key, options) & !31) & 31);
    let shift = echo.map(|told| told & 15).filter(|shift| *shift != NO_SHIFT);
    Some(Segment {
        sequence: first,
        flags: Flags::SYN,
        max_segment: Some(SEGMENTS[size as usize]),
        window_scale: shift.map(|shift| shift as u8),
        sack_permitted: echo.is_some_and(|told| told & SACK != 0),
        ..segment.clone()
    })
}
