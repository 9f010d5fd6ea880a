//! The header in front of each packet (virtio 1.3, section 5.1.6).

use regs::virtio::net::header;

use super::rss::Hash;

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

/// What the driver is told of a received packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    /// Its checksum was looked at and is right.
    pub is_good: bool,
    /// Its checksum is still to be filled in: where the covered part begins, and
    /// where in it the checksum goes.
    pub partial: Option<(u16, u16)>,
    pub hash: Hash,
}

impl Told {
    /// The header of a packet in `buffers` buffers.
    #[inline(always)]
    pub fn header(&self, buffers: u16) -> [u8; header::BYTES_HASH] {
        let mut bytes = [0; header::BYTES_HASH];
        bytes[header::FLAGS] = if self.is_good { header::DATA_VALID } else { 0 };
        let mut put = |at: usize, field: u16| bytes[at..at + 2].copy_from_slice(&field.to_le_bytes());
        put(header::NUM_BUFFERS, buffers);
        put(header::HASH_VALUE, self.hash.value as u16);
        put(header::HASH_VALUE + 2, (self.hash.value >> 16) as u16);
        put(header::HASH_REPORT, self.hash.report);
        if let Some((start, offset)) = self.partial {
            put(header::CSUM_START, start);
            put(header::CSUM_OFFSET, offset);
            bytes[header::FLAGS] |= header::NEEDS_CSUM;
        }
        bytes
    }
}
