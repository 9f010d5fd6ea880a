//! The header in front of each packet (virtio 1.3, section 5.1.6).

use regs::virtio::net::header;

/// What a driver asks for with a packet it sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub flags: u8,
    pub gso_type: u8,
    pub header_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
    pub num_buffers: u16,
}

impl Header {
    /// From the first bytes of a packet, 10 or 12 of which are the header.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Header {
        let word = |at: usize| match bytes.get(at..at + 2) {
            Some(&[low, high]) => u16::from_le_bytes([low, high]),
            _ => 0,
        };
        Header {
            flags: bytes.first().copied().unwrap_or(0),
            gso_type: bytes.get(header::GSO_TYPE).copied().unwrap_or(0),
            header_len: word(header::HDR_LEN),
            gso_size: word(header::GSO_SIZE),
            csum_start: word(header::CSUM_START),
            csum_offset: word(header::CSUM_OFFSET),
            num_buffers: word(header::NUM_BUFFERS),
        }
    }
}

/// The header of a received packet in `buffers` buffers.
#[inline(always)]
pub(super) fn of_received(is_good: bool, buffers: u16) -> [u8; header::BYTES] {
    let mut bytes = [0; header::BYTES];
    bytes[header::FLAGS] = if is_good { header::DATA_VALID } else { 0 };
    bytes[header::NUM_BUFFERS..].copy_from_slice(&buffers.to_le_bytes());
    bytes
}
