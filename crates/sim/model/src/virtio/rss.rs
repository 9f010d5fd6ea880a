//! Receive-side scaling and hash reports: which queue pair a frame goes to by
//! the Toeplitz hash of its addresses and ports, and what its header says of it.
//!
//! virtio 1.3, sections 5.1.6.4.3 (what is hashed), 5.1.6.5.6 (HASH_CONFIG) and
//! 5.1.6.5.7 (RSS_CONFIG). IPv6 extension headers are skipped, their own hash
//! types not offered.

use regs::virtio::net::hash;
use wire::flow::Flow;
use wire::ip::{Addresses, Protocol};
use wire::toeplitz::{KEY_LEN, Toeplitz};

/// Hash types the device knows.
pub(super) const TYPES: u32 = hash::IPV4 | hash::TCPV4 | hash::UDPV4 | hash::IPV6 | hash::TCPV6 | hash::UDPV6;
/// Longest key in bytes.
pub(super) const LONGEST_KEY: u8 = KEY_LEN as u8;
/// Longest indirection table.
pub(super) const LONGEST_TABLE: u16 = 128;

/// A frame's hash, and its type as headers have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hash {
    pub value: u32,
    pub report: u16,
}

/// What a command set.
#[derive(Debug)]
pub(super) struct Rss {
    types: u32,
    toeplitz: Box<Toeplitz>,
    /// The pairs, a power of two of them; empty where hashes are only reported.
    table: Vec<u16>,
    /// The pair of frames without a hash.
    unclassified: u16,
}

/// Reads fields from the front of a command's data.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn word(&mut self) -> Option<u16> {
        let (word, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        Some(u16::from_le_bytes(*word))
    }

    fn types(&mut self) -> Option<u32> {
        let (low, high) = (self.word()?, self.word()?);
        let types = u32::from(low) | u32::from(high) << 16;
        (types & !TYPES == 0).then_some(types)
    }

    /// The key is the last field; what it lacks is zero.
    fn key(mut self) -> Option<Box<Toeplitz>> {
        let (&len, rest) = self.0.split_first()?;
        self.0 = rest;
        let mut key = [0; KEY_LEN];
        key.get_mut(..len.into())?.copy_from_slice(self.0.get(..len.into())?);
        (self.0.len() == usize::from(len)).then(|| Box::new(Toeplitz::new(&key)))
    }
}

impl Rss {
    /// RSS_CONFIG: spreads over pairs below `pairs`; also how many transmit
    /// queues the driver uses. `None` for data that make no sense.
    pub fn spread(data: &[u8], pairs: u16) -> Option<(Rss, u16)> {
        let mut fields = Fields(data);
        let types = fields.types()?;
        let mask = fields.word()?;
        if mask >= LONGEST_TABLE || !(mask + 1).is_power_of_two() {
            return None;
        }
        let unclassified = fields.word()?;
        let table = (0..=mask).map(|_| fields.word()).collect::<Option<Vec<u16>>>()?;
        let sent_on = fields.word()?;
        let known = table.iter().chain([&unclassified]).all(|&pair| pair < pairs);
        if !known || !(1..=pairs).contains(&sent_on) {
            return None;
        }
        Some((Rss { types, toeplitz: fields.key()?, table, unclassified }, sent_on))
    }

    /// HASH_CONFIG: hashes are reported, and spread nothing.
    pub fn report(data: &[u8]) -> Option<Rss> {
        let mut fields = Fields(data);
        let types = fields.types()?;
        for _ in 0..4 {
            fields.word().filter(|&reserved| reserved == 0)?;
        }
        Some(Rss { types, toeplitz: fields.key()?, table: Vec::new(), unclassified: 0 })
    }

    /// The highest pair that frames go to.
    pub fn highest(&self) -> u16 {
        self.table.iter().copied().max().unwrap_or(0).max(self.unclassified)
    }

    /// Whether it spreads, or reports only.
    pub fn spreads(&self) -> bool {
        !self.table.is_empty()
    }

    /// The pair for a frame with this hash.
    pub fn pair(&self, hash: Hash) -> u16 {
        if hash.report == hash::REPORT_NONE {
            return self.unclassified;
        }
        self.table.get(hash.value as usize & self.table.len().wrapping_sub(1)).copied().unwrap_or(0)
    }

    /// The hash over most of what the driver wants: ports, if it wants them and
    /// the frame has any, else addresses.
    pub fn hash(&self, frame: &[u8]) -> Hash {
        let Ok(flow) = Flow::of(frame) else { return Hash::default() };
        let v4 = matches!(flow.addresses, Addresses::V4 { .. });
        let with_ports = match flow.protocol {
            Protocol::TCP if v4 => (hash::TCPV4, hash::REPORT_TCPV4),
            Protocol::UDP if v4 => (hash::UDPV4, hash::REPORT_UDPV4),
            Protocol::TCP => (hash::TCPV6, hash::REPORT_TCPV6),
            Protocol::UDP => (hash::UDPV6, hash::REPORT_UDPV6),
            _ => (0, 0),
        };
        let alone = if v4 { (hash::IPV4, hash::REPORT_IPV4) } else { (hash::IPV6, hash::REPORT_IPV6) };
        let input = flow.rss_input();
        let input = input.as_ref();
        let addresses = if v4 { 8 } else { 32 };
        let (report, input) = if flow.ports.is_some() && self.types & with_ports.0 != 0 {
            (with_ports.1, input)
        } else if self.types & alone.0 != 0 {
            (alone.1, &input[..addresses.min(input.len())])
        } else {
            return Hash::default();
        };
        Hash { value: self.toeplitz.hash(input), report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_command_is_refused_or_leads_to_pairs_that_are_there(
            mut data in prop::collection::vec(any::<u8>(), 0..400),
            frame in prop::collection::vec(any::<u8>(), 0..100),
            bits in 0..9_u32,
            pairs in 1..17_u16,
        ) {
            // Mostly of the right shape, or all would be refused at once.
            let entries = 1_usize << bits;
            data.resize(data.len().max(12 + 2 * entries), 0);
            let types = TYPES & u32::from(data[0]);
            data[..4].copy_from_slice(&types.to_le_bytes());
            data[4..6].copy_from_slice(&(entries as u16 - 1).to_le_bytes());
            for pair in data[6..10 + 2 * entries].chunks_mut(2) {
                pair.copy_from_slice(&[pair[0] % (pairs as u8 + 1), 0]);
            }
            let at = 10 + 2 * entries;
            data[at] %= 50;
            data.resize(at + 1 + usize::from(data[at]), 7);
            if let Some((rss, sent_on)) = Rss::spread(&data, pairs) {
                prop_assert!(entries <= 128 && data[at] <= 40);
                prop_assert!((1..=pairs).contains(&sent_on) && rss.highest() < pairs && rss.spreads());
                prop_assert!(rss.pair(rss.hash(&frame)) < pairs);
            }
            if let Some(rss) = Rss::report(&data) {
                prop_assert!(!rss.spreads());
                prop_assert_eq!(rss.pair(rss.hash(&frame)), 0);
            }
        }
    }
}
