//! The Toeplitz hash of receive side scaling, as chips compute it: one table of 256 entries
//! a byte of input makes the hash a few lookups.

/// Bytes of a key that count.
pub(crate) const KEY: usize = 40;
/// Longest input: two IPv6 addresses and two ports.
pub(crate) const INPUT: usize = 36;

/// A key, made ready.
#[derive(Debug)]
pub(crate) struct Toeplitz {
    key: [u8; KEY],
    /// For input byte `n` of value `b`: what it adds to the hash.
    table: Box<[[u32; 256]; INPUT]>,
}

impl Toeplitz {
    /// With a key of zeroes.
    pub fn new() -> Toeplitz {
        Toeplitz { key: [0; KEY], table: Box::new([[0; 256]; INPUT]) }
    }

    /// Takes another key, if it is another.
    pub fn set_key(&mut self, key: [u8; KEY]) {
        if key == self.key {
            return;
        }
        self.key = key;
        for (n, row) in self.table.iter_mut().enumerate() {
            // The 32 bits of the key that start at each bit of this byte.
            let span = key[n..].iter().chain(&[0; 8]).take(8);
            let span = span.fold(0u64, |span, byte| span << 8 | u64::from(*byte));
            let window = |bit: usize| (span >> (32 - bit)) as u32;
            for (value, entry) in row.iter_mut().enumerate() {
                let set = (0..8).filter(|bit| value >> (7 - bit) & 1 != 0);
                *entry = set.fold(0, |hash, bit| hash ^ window(bit));
            }
        }
    }

    /// Whether the key was left at zero.
    pub fn lacks_key(&self) -> bool {
        self.key == [0; KEY]
    }

    /// The hash of `input`, of up to 36 bytes.
    #[inline(always)]
    pub fn hash(&self, input: &[u8]) -> u32 {
        let bytes = self.table.iter().zip(input);
        bytes.fold(0, |hash, (row, byte)| hash ^ row[usize::from(*byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microsoft's verification suite for RSS: key, input and results.
    const MICROSOFT: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn microsofts_vectors() {
        let mut toeplitz = Toeplitz::new();
        toeplitz.set_key(MICROSOFT);
        let v4 = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz.hash(&v4[..8]), 0x323e_8fc2);
        assert_eq!(toeplitz.hash(&v4), 0x51cc_c178);
        let mut v6 = [0; 36];
        v6[..16].copy_from_slice(
            &"3ffe:2501:200:1fff::7".parse::<std::net::Ipv6Addr>().expect("address").octets(),
        );
        v6[16..32]
            .copy_from_slice(&"3ffe:2501:200:3::1".parse::<std::net::Ipv6Addr>().expect("address").octets());
        v6[32..].copy_from_slice(&[0x0a, 0xea, 0x06, 0xe6]);
        assert_eq!(toeplitz.hash(&v6[..32]), 0x2cc1_8cd5);
        assert_eq!(toeplitz.hash(&v6), 0x4020_7d3d);
    }
}
