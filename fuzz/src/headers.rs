//! The headers of a packet, nearly right: what a parser takes apart.

use arbitrary::Arbitrary;

/// Ethernet, some tags, IPv4 or IPv6, and what the protocol number promises.
#[derive(Arbitrary, Debug)]
pub struct Headers {
    destination: [u8; 6],
    tags: u8,
    v6: bool,
    /// IPv4: words of options. IPv6: extension headers.
    more: u8,
    /// TCP, UDP, or any other.
    protocol: u8,
    fragment: u16,
    l4: [u8; 20],
    /// Added to the length that is right.
    excess: i8,
}

impl Headers {
    /// The headers of a frame of `len` bytes, which may be too few for them.
    pub fn bytes(&self, len: u16) -> Vec<u8> {
        let protocol = [6, 17, 132, self.protocol][usize::from(self.protocol) % 4];
        let mut bytes = [self.destination, [2, 0, 0, 0, 0, 2]].concat();
        for _ in 0..self.tags % 3 {
            bytes.extend([0x81, 0, 0x20, 5]);
        }
        let left = len.wrapping_sub(bytes.len() as u16 + 2).wrapping_add_signed(self.excess.into());
        if self.v6 {
            bytes.extend([0x86, 0xDD, 0x60, 0, 0, 0]);
            bytes.extend(left.wrapping_sub(40).to_be_bytes());
            let count = self.more % 4;
            bytes.extend([if count > 0 { 60 } else { protocol }, 64]);
            bytes.extend([0xFE; 32]);
            for n in 1..=count {
                bytes.extend([if n < count { 60 } else { protocol }, self.more >> 6, 0, 0, 0, 0, 0, 0]);
            }
        } else {
            let words = 5 + self.more % 11;
            bytes.extend([8, 0, 0x40 | words, 0]);
            bytes.extend(left.to_be_bytes());
            bytes.extend([0, 1]);
            bytes.extend(self.fragment.to_be_bytes());
            bytes.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            bytes.resize(bytes.len() + 4 * usize::from(words - 5), 1);
        }
        bytes.extend(self.l4);
        bytes
    }
}
