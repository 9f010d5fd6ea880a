//! Exact match: which rule has the very bits that stand in a packet at an offset, as an
//! overlay finds a tunnel by an inner address or a service path (Nakamura et al., *Protocol
//! Independent FIB Architecture for Network Overlays*, 2016: identifiers by offset and
//! length).
//!
//! An [`Extractor`] reads a [`Key`] from a packet; [`Rib`](crate::Rib) with the scheme
//! [`Exact`] finds its next hop, changed and published as routes are.
//!
//! ```
//! use fib::Rib;
//! use fib::exact::{Exact, Extractor, Key};
//!
//! // VXLAN: the inner frame's destination, behind the headers of UDP and VXLAN.
//! let extractor = Extractor::new(16, 48).unwrap();
//! let mut rib = Rib::<Exact, _>::new();
//! rib.insert(Key::new(100, 0x0200_0000_0001), "tunnel to 192.0.2.1")?;
//! rib.publish();
//!
//! let mut packet = [0; 64];
//! packet[16..22].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
//! let mut reader = rib.reader();
//! let key = extractor.key(100, &packet).unwrap();
//! assert_eq!(reader.fib().lookup(key), Some(&"tunnel to 192.0.2.1"));
//! assert_eq!(reader.fib().lookup(Key::new(101, 0x0200_0000_0001)), None); // another network
//! # Ok::<(), fib::Error>(())
//! ```
//!
//! # What a lookup costs, whatever the keys are
//!
//! A key has two buckets of four entries, by a hash that nobody outside can know (Pagh and
//! Rodler, *Cuckoo Hashing*, 2004; buckets: Dietzfelbinger and Weidling, 2007). A lookup
//! reads the tags of one, of the other where the key is not there, and the keys whose tags
//! fit. A change moves at
//! most 128 entries to their other buckets; when that is not enough the table is made anew
//! with another hash, and larger if it is more than half full. Keys that find no place even
//! then (for which more keys than two buckets hold must have the same hash, four times in
//! turn, which nobody can bring about) go to a sorted map, so that a lookup is never more
//! than two buckets and a search in it.

mod buckets;

use crate::error::Result;
use crate::rules::Rule;
use crate::scheme::Scheme;
use buckets::Buckets;

/// The scheme of exact match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exact;

impl Scheme for Exact {
    type Key = Key;
    type Rule = Key;
    type Lookup = Buckets;
}

/// What is looked up: up to 128 bits, and the virtual network that they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Key {
    // In parts, as a `u128` would take more room for its alignment.
    network: u32,
    bits: [u64; 2],
}

impl Key {
    /// The key of these bits, right-aligned, in a virtual network.
    #[inline(always)]
    pub const fn new(network: u32, bits: u128) -> Key {
        Key { network, bits: [(bits >> 64) as u64, bits as u64] }
    }

    /// The virtual network.
    pub const fn network(self) -> u32 {
        self.network
    }

    /// The bits, right-aligned.
    pub const fn bits(self) -> u128 {
        (self.bits[0] as u128) << 64 | self.bits[1] as u128
    }
}

impl Rule for Key {
    /// All keys are rules.
    fn check(self) -> Result<()> {
        Ok(())
    }
}

/// Where a key's bits stand in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extractor {
    offset: u16,
    bits: u8,
}

impl Extractor {
    /// `bits` bits (0 to 128) from `offset` bytes on; `None` for more bits. With no bits
    /// there is one key for each virtual network, as a tunnel with one end needs.
    pub const fn new(offset: u16, bits: u8) -> Option<Extractor> {
        if bits > 128 { None } else { Some(Extractor { offset, bits }) }
    }

    /// Where they begin, in bytes from the packet's start.
    pub const fn offset(self) -> u16 {
        self.offset
    }

    /// How many bits a key has.
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// The key of a packet in a virtual network; `None` when the packet ends before all
    /// of its bits.
    #[inline]
    pub fn key(self, network: u32, packet: &[u8]) -> Option<Key> {
        let (offset, bits) = (usize::from(self.offset), u32::from(self.bits));
        let bytes = packet.get(offset..)?;
        let window = match bytes.first_chunk() {
            Some(window) => *window,
            None => {
                let mut window = [0; size_of::<u128>()];
                let there = bytes.len();
                if there * 8 < bits as usize {
                    return None;
                }
                window[..there].copy_from_slice(bytes);
                window
            }
        };
        let unwanted = u128::BITS - bits;
        Some(Key::new(network, u128::from_be_bytes(window).checked_shr(unwanted).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests;
