//! The Toeplitz hash by which NICs spread flows over queues (Microsoft, Receive Side
//! Scaling, "RSS hashing functions"; 82599 datasheet, section 7.1.2.8.1).

/// Bytes of a key.
pub const KEY_LEN: usize = 40;
/// Bytes of the longest input a key of 40 bytes has bits for: two IPv6 addresses and
/// two ports.
pub const MAX_INPUT: usize = KEY_LEN - 4;

/// The key in Microsoft's examples, which most drivers use.
pub const MICROSOFT_KEY: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key, made ready for hashing.
///
/// Every half byte of the input has a table of what it adds to the hash: 4.5 KiB in
/// all, an eighth of what whole bytes would take, so that packets keep their share
/// of the first cache.
#[derive(Clone)]
pub struct Toeplitz {
    tables: [[[u32; 16]; 2]; MAX_INPUT],
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

impl Toeplitz {
    /// Makes a key ready.
    pub fn new(key: &[u8; KEY_LEN]) -> Toeplitz {
        let mut tables = [[[0; 16]; 2]; MAX_INPUT];
        for (at, halves) in tables.iter_mut().enumerate() {
            for (half, table) in halves.iter_mut().enumerate() {
                for (nibble, entry) in table.iter_mut().enumerate() {
                    *entry = (0..4)
                        .filter(|bit| nibble & (8 >> bit) != 0)
                        .fold(0, |hash, bit| hash ^ key_window(key, at * 8 + half * 4 + bit));
                }
            }
        }
        Toeplitz { tables }
    }

    /// The hash of `input`: addresses, then ports, in network order. Bytes behind the
    /// first [`MAX_INPUT`] do not count.
    pub fn hash(&self, input: &[u8]) -> u32 {
        input.iter().zip(&self.tables).fold(0, |hash, (&byte, [high, low])| {
            hash ^ high[usize::from(byte >> 4)] ^ low[usize::from(byte & 0xF)]
        })
    }
}

/// The 32 bits of the key that begin at bit `at`, which is at most 287.
fn key_window(key: &[u8; KEY_LEN], at: usize) -> u32 {
    let window = key[at / 8..].iter().take(5).fold(0, |bits, &byte| bits << 8 | u64::from(byte));
    (window >> (8 - at % 8)) as u32
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;

    /// Source, destination, hash over addresses, hash over addresses and ports:
    /// Microsoft, "Verifying the RSS hash calculation".
    const VECTORS: [(&str, u16, &str, u16, u32, u32); 8] = [
        ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e8fc2, 0x51ccc178),
        ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718262a, 0xc626b0ea),
        ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0a5de, 0x5c2b394a),
        ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x82989176, 0xafc7327f),
        ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d1809c5, 0x10e828a2),
        ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc18cd5, 0x40207d3d),
        ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c461c, 0xdde51bbf),
        (
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            44251,
            "fe80::200:f8ff:fe21:67cf",
            38024,
            0x4b61e985,
            0x02d1feef,
        ),
    ];

    fn octets(address: &str) -> Vec<u8> {
        match address.parse().expect("an address") {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        }
    }

    #[test]
    fn microsofts_vectors() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        for (src, src_port, dst, dst_port, addresses, all) in VECTORS {
            let mut input = [octets(src), octets(dst)].concat();
            assert_eq!(toeplitz.hash(&input), addresses, "{src} {dst}");
            input.extend([src_port.to_be_bytes(), dst_port.to_be_bytes()].concat());
            assert_eq!(toeplitz.hash(&input), all, "{src} {dst}");
        }
    }

    /// The definition: the key slides left by one bit for each bit of the input.
    fn slow(key: &[u8; KEY_LEN], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1 != 0;
        let mut hash = 0;
        for at in (0..input.len() * 8).filter(|&at| bit(input, at)) {
            hash ^= (0..32).fold(0, |window, n| window << 1 | u32::from(bit(key, at + n)));
        }
        hash
    }

    proptest! {
        #[test]
        fn fast_is_slow(key: [u8; KEY_LEN], input in prop::collection::vec(any::<u8>(), 0..=MAX_INPUT)) {
            prop_assert_eq!(Toeplitz::new(&key).hash(&input), slow(&key, &input));
        }

        #[test]
        fn longer_inputs_are_cut(input in prop::collection::vec(any::<u8>(), MAX_INPUT..100)) {
            let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
            prop_assert_eq!(toeplitz.hash(&input), toeplitz.hash(&input[..MAX_INPUT]));
        }
    }
}
