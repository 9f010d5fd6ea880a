//! Counters of the port and of its VSI: 48 bits, of which a register shows the lower 32 and the next one
//! the rest. Reading does not clear them, and no reset of the function does
//! (datasheet 332464, chapter 7).

use regs::i40e::*;

use wire::ethernet::ADDRESSES_LEN;

/// Bytes of a frame's CRC, which bytes and sizes here include.
const CRC: usize = 4;

/// Bits of a counter.
const MASK: u64 = (1 << 48) - 1;

/// The two registers of each wide counter of the port.
const WIDE: [(Id, Id); 22] = [
    (GLPRT_GORCL::ID, GLPRT_GORCH::ID),
    (GLPRT_UPRCL::ID, GLPRT_UPRCH::ID),
    (GLPRT_MPRCL::ID, GLPRT_MPRCH::ID),
    (GLPRT_BPRCL::ID, GLPRT_BPRCH::ID),
    (GLPRT_PRC64L::ID, GLPRT_PRC64H::ID),
    (GLPRT_PRC127L::ID, GLPRT_PRC127H::ID),
    (GLPRT_PRC255L::ID, GLPRT_PRC255H::ID),
    (GLPRT_PRC511L::ID, GLPRT_PRC511H::ID),
    (GLPRT_PRC1023L::ID, GLPRT_PRC1023H::ID),
    (GLPRT_PRC1522L::ID, GLPRT_PRC1522H::ID),
    (GLPRT_PRC9522L::ID, GLPRT_PRC9522H::ID),
    (GLPRT_GOTCL::ID, GLPRT_GOTCH::ID),
    (GLPRT_UPTCL::ID, GLPRT_UPTCH::ID),
    (GLPRT_MPTCL::ID, GLPRT_MPTCH::ID),
    (GLPRT_BPTCL::ID, GLPRT_BPTCH::ID),
    (GLPRT_PTC64L::ID, GLPRT_PTC64H::ID),
    (GLPRT_PTC127L::ID, GLPRT_PTC127H::ID),
    (GLPRT_PTC255L::ID, GLPRT_PTC255H::ID),
    (GLPRT_PTC511L::ID, GLPRT_PTC511H::ID),
    (GLPRT_PTC1023L::ID, GLPRT_PTC1023H::ID),
    (GLPRT_PTC1522L::ID, GLPRT_PTC1522H::ID),
    (GLPRT_PTC9522L::ID, GLPRT_PTC9522H::ID),
];

/// The two registers of each counter of the VSI, by direction.
const OF_VSI: [(Id, Id); 2 * VSI_KINDS] = [
    (GLV_GORCL::ID, GLV_GORCH::ID),
    (GLV_UPRCL::ID, GLV_UPRCH::ID),
    (GLV_MPRCL::ID, GLV_MPRCH::ID),
    (GLV_BPRCL::ID, GLV_BPRCH::ID),
    (GLV_GOTCL::ID, GLV_GOTCH::ID),
    (GLV_UPTCL::ID, GLV_UPTCH::ID),
    (GLV_MPTCL::ID, GLV_MPTCH::ID),
    (GLV_BPTCL::ID, GLV_BPTCH::ID),
];

/// Counters of a VSI in one direction: bytes, and packets to one host, several, all.
const VSI_KINDS: usize = 4;

/// Counters of one direction: good bytes, packets by destination, packets by size.
const KINDS: usize = 11;
const BYTES: usize = 0;
const BY_DESTINATION: usize = 1;
const BY_SIZE: usize = 4;

/// Which of the VSIs' counters are those of the function's own. The first four are of what a port
/// sends and receives inside the card: DPDK's driver subtracts them from the port's.
pub(super) const OF_MAIN: usize = 4;

/// Which of the functions' counters are the physical function's own: virtual ones have those before.
pub(super) const OF_FUNCTION: usize = 128;

/// The longest frame of each size, CRC included; the last has all others.
const SIZES: [usize; 6] = [64, 127, 255, 511, 1023, 1522];

/// What a port counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Statistics {
    wide: [[u64; KINDS]; 2],
    of_vsi: [[u64; VSI_KINDS]; 2],
    /// Packets that the VSI may not send.
    pub refused: u64,
    /// Frames with a wrong CRC, with an illegal symbol, too short, too long.
    pub crc: u64,
    pub illegal: u64,
    pub short: u64,
    pub long: u64,
    /// Frames of the function that were longer than their queue takes.
    pub oversize: u64,
    /// Frames of the VSI for which there was no descriptor.
    pub no_descriptor: u64,
    /// Packets and bytes of either direction, without CRC.
    pub packets: [u64; 2],
    pub bytes: [u64; 2],
}

/// To the host.
pub(super) const RX: usize = 0;
/// To the wire.
pub(super) const TX: usize = 1;

impl Statistics {
    /// A good frame passed the MAC.
    pub fn frame(&mut self, direction: usize, frame: &[u8]) {
        let counts = &mut self.wide[direction];
        let len = frame.len() + CRC;
        counts[BYTES] += len as u64;
        counts[BY_DESTINATION + destination(frame)] += 1;
        counts[BY_SIZE + SIZES.iter().filter(|size| len > **size).count()] += 1;
    }

    /// A frame came for the VSI, or was sent by it.
    pub fn of_vsi(&mut self, direction: usize, frame: &[u8]) {
        let counts = &mut self.of_vsi[direction];
        // Received ones count with their CRC, sent ones without.
        counts[BYTES] += (frame.len() + if direction == RX { CRC } else { 0 }) as u64;
        counts[BY_DESTINATION + destination(frame)] += 1;
    }

    /// What a statistics register reads; `None` for a register that is none.
    pub fn read(&self, id: Id, n: usize) -> Option<u32> {
        let wide = WIDE.iter().zip(self.wide.as_flattened()).map(|counter| (counter, 0));
        let of_vsi = OF_VSI.iter().zip(self.of_vsi.as_flattened()).map(|counter| (counter, OF_MAIN));
        for (((low, high), value), ours) in wide.chain(of_vsi) {
            let value = if n == ours { value & MASK } else { 0 };
            if id == *low {
                return Some(value as u32);
            }
            if id == *high {
                return Some((value >> 32) as u32);
            }
        }
        let (narrow, ours) = match id {
            GL_RXERR1L::ID => (self.oversize, OF_FUNCTION),
            GL_RXERR1H::ID => (self.oversize >> 32, OF_FUNCTION),
            GLPRT_CRCERRS::ID => (self.crc, 0),
            GLPRT_ILLERRC::ID => (self.illegal, 0),
            GLPRT_RUC::ID => (self.short, 0),
            GLPRT_ROC::ID => (self.long, 0),
            GLV_RDPC::ID => (self.no_descriptor, OF_MAIN),
            GLV_TEPC::ID => (self.refused, OF_MAIN),
            _ => return None,
        };
        Some(if n == ours { narrow as u32 } else { 0 })
    }
}

/// Whether a frame is for one host, several, or all.
fn destination(frame: &[u8]) -> usize {
    match frame.first_chunk::<{ ADDRESSES_LEN / 2 }>() {
        Some([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]) => 2,
        Some([first, ..]) if first & 1 != 0 => 1,
        _ => 0,
    }
}
