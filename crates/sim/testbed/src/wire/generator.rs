//! A source of UDP frames, cheap enough to feed a driver at line rate.
//!
//! All frames are built beforehand, with right checksums; per frame only the
//! tag (see `check`) is written, in place, and the frame given away without a
//! copy. Flows take turns; they differ in source address and port.

use std::net::Ipv4Addr;
use std::sync::Arc;

use wire::ethernet::{self, EtherType};
use wire::ip::port::DISCARD;
use wire::ip::{Addresses, Protocol};
use wire::{MacAddress, ipv4, udp};

use super::SpecError;
use super::check::{HEADERS, Ledger, MARK, MAX_FLOWS, TAG, tag};
use super::rate::Pacer;
use super::spec::GeneratorSpec;

/// Memory for the frames that are built beforehand.
const MAX_BYTES: usize = 64 << 20;
/// The CRC that sizes include and frames here do not have.
pub(super) const CRC: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: u32,
    len: u16,
    flow: u16,
}

/// A source of frames that were all built beforehand, at a rate.
#[derive(Debug)]
pub(super) struct Generator {
    id: u8,
    ledger: Arc<Ledger>,
    pacer: Pacer,
    arena: Vec<u8>,
    slots: Vec<Slot>,
    /// The slot that is next, and the sequence number of its flow.
    at: usize,
    sequence: u64,
    flows: u32,
    flow: u32,
    sent: u64,
    left: u64,
    held: bool,
}

impl Generator {
    /// Builds the frames. `to` is their destination where the spec names none.
    pub(super) fn new(
        spec: &GeneratorSpec,
        to: [u8; 6],
        ledger: Arc<Ledger>,
    ) -> Result<Generator, SpecError> {
        let flows = spec.flows.clamp(1, MAX_FLOWS as u32);
        let sizes = spec.size.cycle();
        let count = lcm(flows as usize, sizes.len());
        let bytes: usize = (0..count).map(|n| stride(sizes[n % sizes.len()])).sum();
        if bytes > MAX_BYTES {
            return Err(SpecError::TooMuch { needs: bytes >> 20, limit: MAX_BYTES >> 20 });
        }
        let id = ledger.register().ok_or(SpecError::TooManyGenerators)?;
        let mut generator = Generator {
            id,
            ledger,
            pacer: Pacer::new(spec.rate),
            arena: vec![0; bytes],
            slots: Vec::with_capacity(count),
            at: 0,
            sequence: 0,
            flows,
            flow: 0,
            sent: 0,
            left: spec.count.unwrap_or(u64::MAX),
            held: spec.hold,
        };
        let mut start = 0;
        for n in 0..count {
            let (size, flow) = (sizes[n % sizes.len()], (n % flows as usize) as u16);
            let frame = &mut generator.arena[start..start + size - CRC];
            build(frame, id, flow, spec.to.unwrap_or(to));
            generator.slots.push(Slot { start: start as u32, len: frame.len() as u16, flow });
            start += stride(size);
        }
        Ok(generator)
    }

    pub(super) fn has_backpressure(&self) -> bool {
        self.pacer.has_backpressure()
    }

    pub(super) fn skipped(&self) -> u64 {
        self.pacer.skipped()
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        if self.left > 0 && !self.held {
            self.pacer.advance(now_ns);
        }
        self.ledger.publish(self.id, self.sent);
    }

    /// Frames from now on, if it was asked to hold them.
    pub(super) fn start(&mut self) {
        self.held = false;
    }

    /// No frame from now on.
    pub(super) fn stop(&mut self) {
        self.left = 0;
    }

    /// Whether it will ever give another frame.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Gives up to `max` frames to `take`; how many, and their bytes.
    #[inline]
    pub(super) fn burst(&mut self, max: usize, mut take: impl FnMut(&[u8])) -> (usize, u64) {
        let due = if self.held { 0 } else { self.pacer.due() };
        let count = (max as u64).min(due).min(self.left);
        let mut bytes = 0;
        for _ in 0..count {
            let slot = self.slots[self.at];
            let frame = &mut self.arena[slot.start as usize..][..usize::from(slot.len)];
            let tag = tag(self.id, slot.flow, self.sequence);
            frame[TAG..TAG + 8].copy_from_slice(&tag.to_be_bytes());
            frame[TAG + 8..TAG + 16].copy_from_slice(&(!tag).to_be_bytes());
            take(frame);
            bytes += u64::from(slot.len);
            self.at = if self.at + 1 == self.slots.len() { 0 } else { self.at + 1 };
            self.flow += 1;
            if self.flow == self.flows {
                self.flow = 0;
                self.sequence += 1;
            }
        }
        self.pacer.take(count);
        self.left -= count;
        self.sent += count;
        (count as usize, bytes)
    }
}

/// Frames begin at cache lines.
fn stride(size: usize) -> usize {
    (size - CRC).next_multiple_of(64)
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// Ethernet II, IPv4 and UDP from the benchmark networks of RFC 2544; tag zero, whose
/// complement makes the checksum that of every tag.
fn build(frame: &mut [u8], id: u8, flow: u16, to: [u8; 6]) {
    let [high, low] = flow.to_be_bytes();
    let (src, dst) = (Ipv4Addr::new(10, id, high, low), Ipv4Addr::new(198, 18, 0, 1));
    frame[HEADERS..TAG].copy_from_slice(&MARK);
    frame[TAG + 8..TAG + 16].fill(0xFF);
    for (n, byte) in frame[TAG + 16..].iter_mut().enumerate() {
        *byte = n as u8;
    }
    let source = MacAddress([0x02, 0x49, 0x58, 0x6E, 0x00, id]);
    let mut ethernet = ethernet::Frame::new_unchecked(frame);
    ethernet::Repr { dst: MacAddress(to), src: source, ethertype: EtherType::IPV4 }.emit(&mut ethernet);
    let mut packet = ipv4::Packet::new_unchecked(ethernet.payload_mut());
    let len = packet.as_ref().len() - ipv4::HEADER_LEN;
    ipv4::Repr { dont_fragment: true, ..ipv4::Repr::between(src, dst, Protocol::UDP, len) }.emit(&mut packet);
    let mut datagram = udp::Datagram::new_unchecked(packet.payload_mut());
    let src_port = 1024 + flow % 60_000;
    udp::Repr { src_port, dst_port: DISCARD, payload_len: len - udp::HEADER_LEN }.emit(&mut datagram);
    datagram.fill_checksum(Addresses::V4 { src, dst });
}
