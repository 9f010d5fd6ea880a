//! The mark on generated frames, and the sink that checks it.
//!
//! A generated frame's UDP payload begins with 18 bytes, which is all that a
//! frame of 64 bytes has room for: two that say whose it is, eight of *tag*
//! (generator, flow, sequence number within the flow) and the tag's complement.
//! Tag and complement cancel out in the UDP checksum, so that only they change
//! from frame to frame, and each proves the other.
//!
//! The sink reads headers and adds up checksums by itself: it is a second witness for
//! what forwarders and generators do with crate `wire`, and a test compares them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The letters `IX` in front of the tag.
pub(super) const MARK: [u8; 2] = [0x49, 0x58];
/// Ethernet, IPv4 without options, UDP.
pub(super) const HEADERS: usize = 42;
/// Where the tag stands in an untagged frame.
pub(super) const TAG: usize = HEADERS + 2;
/// Flows a generator may have.
pub(super) const MAX_FLOWS: usize = 1 << 16;

const SEQUENCE_BITS: u32 = 40;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];
/// How far behind the newest of its flow a frame may come and still be told
/// from a duplicate.
const WINDOW: u64 = 64;

pub(super) fn tag(generator: u8, flow: u16, sequence: u64) -> u64 {
    u64::from(generator) << 56 | u64::from(flow) << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

/// What all generators of a testbed have sent, for the sinks to compare with.
/// Generators publish once a step; nothing here is touched per frame.
#[derive(Debug)]
pub struct Ledger {
    sent: [AtomicU64; 256],
    generators: AtomicU64,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { sent: [const { AtomicU64::new(0) }; 256], generators: AtomicU64::new(0) }
    }
}

impl Ledger {
    /// A generator's number, `None` when there are 256 already.
    pub(super) fn register(&self) -> Option<u8> {
        u8::try_from(self.generators.fetch_add(1, Ordering::Relaxed)).ok()
    }

    pub(super) fn publish(&self, generator: u8, sent: u64) {
        self.sent[usize::from(generator)].store(sent, Ordering::Relaxed);
    }

    /// Frames generator `generator` has sent.
    pub fn sent(&self, generator: u8) -> u64 {
        self.sent[usize::from(generator)].load(Ordering::Relaxed)
    }
}

/// What a checking sink found. Frames, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckStats {
    /// Generated frames that came, each counted once.
    pub received: u64,
    /// Of a sequence number that had come before.
    pub duplicated: u64,
    /// Behind a later frame of the same flow; received, too.
    pub reordered: u64,
    /// More than 64 behind the newest of the flow: reordered or a duplicate,
    /// not told apart; counted as received.
    pub late: u64,
    /// With the mark, but with a wrong tag or checksum.
    pub corrupt: u64,
    /// Without the mark: not ours.
    pub foreign: u64,
    /// Sequence numbers below the newest of their flow that never came.
    pub missing: u64,
    /// By generator: frames received, and sent as its ledger says.
    pub generators: Vec<GeneratorCheck>,
}

/// What a checking sink got of one generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorCheck {
    /// The generator's number, which its frames have in their mark.
    pub generator: u8,
    /// Frames that it sent so far; zero if it lives in another process.
    pub sent: u64,
    /// Frames that came, each counted once.
    pub received: u64,
    /// Sequence numbers below the newest of their flow that never came.
    pub missing: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// One more than the highest sequence number that came.
    next: u64,
    /// Bit n: `next - 1 - n` came.
    seen: u64,
    received: u64,
}

/// Checks generated frames.
#[derive(Debug)]
pub(super) struct Checker {
    ledger: Arc<Ledger>,
    /// Whether to verify checksums, not only tags.
    full: bool,
    flows: Vec<Vec<Flow>>,
    stats: CheckStats,
}

impl Checker {
    pub(super) fn new(ledger: Arc<Ledger>, full: bool) -> Checker {
        Checker { ledger, full, flows: Vec::new(), stats: CheckStats::default() }
    }

    #[inline]
    pub(super) fn check(&mut self, frame: &[u8]) {
        // One tag may have been put in front by the driver or the device.
        let shift = if frame.get(12..14) == Some(&ETHERTYPE_VLAN) { 4 } else { 0 };
        let Some(marked) = frame.get(12 + shift..TAG + shift + 16) else { return self.stats.foreign += 1 };
        let at = |offset: usize| offset - 12;
        if marked[at(12)..at(14)] != ETHERTYPE_IPV4 || marked[at(HEADERS)..at(TAG)] != MARK {
            return self.stats.foreign += 1;
        }
        let word = |offset: usize| {
            u64::from_be_bytes(marked[at(offset)..at(offset) + 8].try_into().expect("8 bytes"))
        };
        let tag = word(TAG);
        if tag ^ word(TAG + 8) != u64::MAX || self.full && !checksums_hold(&frame[14 + shift..]) {
            return self.stats.corrupt += 1;
        }
        let (generator, flow) = ((tag >> 56) as usize, (tag >> SEQUENCE_BITS) as u16 as usize);
        let sequence = tag & ((1 << SEQUENCE_BITS) - 1);
        if self.flows.get(generator).is_none_or(|flows| flow >= flows.len()) {
            self.grow(generator, flow);
        }
        count_sequence(&mut self.flows[generator][flow], &mut self.stats, sequence);
    }

    /// Makes room for a flow: at most 65,536 of each of 256 generators.
    #[cold]
    fn grow(&mut self, generator: usize, flow: usize) {
        if self.flows.len() <= generator {
            self.flows.resize_with(generator + 1, Vec::new);
        }
        let flows = &mut self.flows[generator];
        if flows.len() <= flow {
            flows.resize(flow + 1, Flow::default());
        }
    }

    pub(super) fn stats(&self) -> CheckStats {
        let mut stats = self.stats.clone();
        for (number, flows) in self.flows.iter().enumerate().filter(|(_, flows)| !flows.is_empty()) {
            let missing = flows.iter().map(|flow| flow.next.saturating_sub(flow.received)).sum();
            let received = flows.iter().map(|flow| flow.received).sum();
            let sent = self.ledger.sent(number as u8);
            stats.generators.push(GeneratorCheck { generator: number as u8, sent, received, missing });
            stats.received += received;
            stats.missing += missing;
        }
        stats
    }
}

#[inline(always)]
fn count_sequence(flow: &mut Flow, stats: &mut CheckStats, sequence: u64) {
    if sequence == flow.next {
        flow.next += 1;
        flow.seen = flow.seen << 1 | 1;
        flow.received += 1;
        return;
    }
    if sequence > flow.next {
        let ahead = sequence - flow.next + 1;
        flow.seen = if ahead < WINDOW { flow.seen << ahead | 1 } else { 1 };
        flow.next = sequence + 1;
        flow.received += 1;
        return;
    }
    let behind = flow.next - 1 - sequence;
    if behind >= WINDOW {
        stats.late += 1;
    } else if flow.seen & 1 << behind != 0 {
        stats.duplicated += 1;
        return;
    } else {
        flow.seen |= 1 << behind;
        stats.reordered += 1;
    }
    flow.received += 1;
}

/// One's complement sum of big-endian words (RFC 1071), odd byte padded.
///
/// Of words of four bytes in the machine's own order, which comes to the same
/// after folding (section 2, B) and is several times as fast.
#[inline]
fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let last = u64::from(u32::from_ne_bytes(last));
    let sum = words.iter().fold(last, |sum, &word| sum + u64::from(u32::from_ne_bytes(word)));
    let sum = (sum & 0xFFFF_FFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + ((sum >> 16) & 0xFFFF) + (sum >> 32);
    u32::from(u16::from_be(fold(sum as u32)))
}

/// Folds a sum of a few sums to 16 bits.
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// Whether IPv4 and UDP checksums of a generated packet are right. `packet`
/// begins with the IPv4 header and may be padded.
pub(super) fn checksums_hold(packet: &[u8]) -> bool {
    let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let Some(datagram) = packet.get(20..len) else { return false };
    if packet[0] != 0x45 || packet[9] != 17 || fold(sum(&packet[..20])) != 0xFFFF {
        return false;
    }
    // Pseudo-header: addresses, protocol, length (RFC 768).
    let pseudo = sum(&packet[12..20]) + 17 + datagram.len() as u32;
    fold(sum(datagram) + pseudo) == 0xFFFF
}
