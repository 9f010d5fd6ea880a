//! Finished headers, and what is patched in them for each packet. Checksums are the model's own
//! arithmetic.

use regs::encap::{MOST_BYTES, MOST_PATCHES, patch};
use wire::{Inner, flow};

use crate::MAX_FRAME;
use crate::checksum::{add, fold, sum};

/// Bytes from the start of a UDP header to its checksum.
const UDP_CHECKSUM: usize = wire::udp::offset::CHECKSUM;

/// What is done to headers in front of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Patch {
    kind: u8,
    at: usize,
    value: u16,
}

impl Patch {
    /// The patch of a register's bits, if all that it touches lies in so many bytes.
    fn new(bits: u32, len: usize) -> Option<Patch> {
        let (kind, at) = (bits as u8, usize::from((bits >> patch::AT_SHIFT) as u8));
        let value = (bits >> patch::VALUE_SHIFT) as u16;
        let width = match kind {
            patch::CLASS => 1,
            patch::LABEL => 4,
            patch::LENGTH | patch::NUMBER | patch::CLASS_V6 | patch::PORT => 2,
            patch::CHECKSUM | patch::UDP_CHECKSUM => 2,
            _ => return None,
        };
        let [from, count] = value.to_le_bytes().map(usize::from);
        let reaches = match kind {
            patch::CHECKSUM => from + count <= len,
            patch::UDP_CHECKSUM => at >= UDP_CHECKSUM,
            _ => true,
        };
        (at + width <= len && reaches).then_some(Patch { kind, at, value })
    }
}

/// The headers of an entry.
#[derive(Debug, Clone)]
pub(super) struct Headers {
    bytes: [u8; MOST_BYTES],
    len: usize,
    patches: [Option<Patch>; MOST_PATCHES],
    max_len: usize,
}

impl Headers {
    /// Headers of these bytes, in front of packets of so many bytes at most; or the patch that touches
    /// what they do not have, and its place.
    pub(super) fn new(
        bytes: &[u8],
        wanted: &[u32; MOST_PATCHES],
        max_len: u32,
    ) -> Result<Headers, (usize, u32)> {
        let mut patches = [None; MOST_PATCHES];
        let until = wanted.iter().position(|bits| *bits as u8 == patch::NONE).unwrap_or(MOST_PATCHES);
        for (n, bits) in wanted[..until].iter().enumerate() {
            patches[n] = Some(Patch::new(*bits, bytes.len()).ok_or((n, *bits))?);
        }
        let mut all = [0; MOST_BYTES];
        all[..bytes.len()].copy_from_slice(bytes);
        Ok(Headers { bytes: all, len: bytes.len(), patches, max_len: max_len as usize })
    }

    /// Writes the headers and a packet to `out`, in place of what was there. False, and nothing
    /// that counts written, when the packet is too long.
    pub(super) fn write(&self, out: &mut Vec<u8>, packet: &[u8], inner: &Inner, number: u16) -> bool {
        if packet.len() > self.max_len || self.len + packet.len() > MAX_FRAME {
            return false;
        }
        out.clear();
        out.extend_from_slice(&self.bytes[..self.len]);
        out.extend_from_slice(packet);
        for patch in self.patches.iter().map_while(|patch| *patch) {
            apply(patch, out, packet.len(), inner, number);
        }
        true
    }
}

/// Does a patch, all of which lies in the frame's headers.
fn apply(patch: Patch, frame: &mut [u8], packet_len: usize, inner: &Inner, number: u16) {
    let Patch { kind, at, value } = patch;
    let class = inner.traffic_class & value as u8;
    match kind {
        patch::LENGTH => put(frame, at, (packet_len as u16).wrapping_add(value)),
        patch::NUMBER => put(frame, at, number),
        patch::CLASS => frame[at] |= class,
        patch::CLASS_V6 => {
            let word = u16::from_be_bytes([frame[at], frame[at + 1]]);
            put(frame, at, word | u16::from(class) << 4);
        }
        patch::PORT => put(frame, at, flow::source_port(inner.hash)),
        patch::LABEL => {
            if let Some(word) = frame[at..].first_chunk_mut() {
                let upper = u32::from_be_bytes(*word) & !0xF_FFFF;
                *word = (upper | flow::label(inner.hash)).to_be_bytes();
            }
        }
        patch::CHECKSUM => {
            put(frame, at, 0);
            let [from, count] = value.to_le_bytes().map(usize::from);
            let sum = !fold(sum(&frame[from..from + count]));
            frame[at..at + 2].copy_from_slice(&sum.to_le_bytes());
        }
        patch::UDP_CHECKSUM => {
            put(frame, at, 0);
            let datagram = &frame[at - UDP_CHECKSUM..];
            let little = |word: u16| u64::from(u16::from_le_bytes(word.to_be_bytes()));
            let pseudo = little(value) + little(datagram.len() as u16);
            let sum = !fold(add(sum(datagram), pseudo));
            let sum = if sum == 0 { u16::MAX } else { sum }; // 0 says that there is none (RFC 768)
            frame[at..at + 2].copy_from_slice(&sum.to_le_bytes());
        }
        _ => {}
    }
}

fn put(frame: &mut [u8], at: usize, word: u16) {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
}
