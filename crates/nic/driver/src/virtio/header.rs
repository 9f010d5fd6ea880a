//! The header in front of each packet (virtio 1.3, 5.1.6).
//!
//! It stands in the buffer right before the frame, in what is the packet's
//! headroom once the application has it, as in the paper; the application never
//! sees it. A received header takes the first bytes of the data room: so it
//! shares its cache line with the frame's own headers.

use regs::virtio::net::header::*;

/// A header, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Header {
    pub flags: u8,
    pub gso_type: u8,
    pub hdr_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
    pub num_buffers: u16,
    pub hash: u32,
    pub hash_report: u16,
}

impl Header {
    /// Reads the header at the front of `bytes`; fields it is too short for are
    /// zero.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Header {
        let word = |at: usize| {
            let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
            field.map_or(0, |field| u16::from_le_bytes(*field))
        };
        Header {
            flags: word(FLAGS) as u8,
            gso_type: (word(FLAGS) >> 8) as u8,
            hdr_len: word(HDR_LEN),
            gso_size: word(GSO_SIZE),
            csum_start: word(CSUM_START),
            csum_offset: word(CSUM_OFFSET),
            num_buffers: word(NUM_BUFFERS),
            hash: u32::from(word(HASH_VALUE)) | u32::from(word(HASH_VALUE + 2)) << 16,
            hash_report: word(HASH_REPORT),
        }
    }

    /// The header's bytes, of which a device is given as many as it knows.
    pub(super) fn bytes(&self) -> [u8; BYTES_HASH] {
        let mut bytes = [0; BYTES_HASH];
        (bytes[FLAGS], bytes[GSO_TYPE]) = (self.flags, self.gso_type);
        let fields = [
            (HDR_LEN, self.hdr_len),
            (GSO_SIZE, self.gso_size),
            (CSUM_START, self.csum_start),
            (CSUM_OFFSET, self.csum_offset),
            (NUM_BUFFERS, self.num_buffers),
            (HASH_VALUE, self.hash as u16),
            (HASH_VALUE + 2, (self.hash >> 16) as u16),
            (HASH_REPORT, self.hash_report),
        ];
        for (at, field) in fields {
            bytes[at..at + 2].copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_its_bytes_say() {
        let header = Header {
            flags: NEEDS_CSUM,
            gso_type: GSO_TCPV4,
            hdr_len: 54,
            gso_size: 1460,
            csum_start: 34,
            csum_offset: 16,
            num_buffers: 3,
            hash: 0x1234_5678,
            hash_report: 2,
        };
        let bytes = header.bytes();
        assert_eq!(bytes[..12], [1, 1, 54, 0, 0xB4, 5, 34, 0, 16, 0, 3, 0]);
        assert_eq!(Header::read(&bytes), header);
        assert_eq!(Header::read(&bytes[..10]), Header { num_buffers: 0, hash: 0, hash_report: 0, ..header });
    }
}
