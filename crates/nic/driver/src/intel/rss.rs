//! Receive-side scaling (82599 datasheet 7.1.2.8, 82576 datasheet 7.1.1.7): a
//! Toeplitz hash over addresses and ports picks an entry of a table of 128, and
//! the entry a queue.

use bus::Bar;
use regs::ixgbe::RXDCTL;

use super::chip::Facts;

/// How flows spread over queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rss {
    /// The hash key.
    pub key: [u8; 40],
    /// A queue for each of the 128 table entries; `None` deals them out in turn.
    pub table: Option<Box<[u8; 128]>>,
    /// Hash TCP and UDP ports too, not only addresses.
    pub ports: bool,
}

impl Rss {
    /// The key that vendors publish test vectors for.
    pub const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
}

impl Default for Rss {
    fn default() -> Rss {
        Rss { key: Rss::KEY, table: None, ports: true }
    }
}

/// The most queues the table can name: its entries have four bits.
const RSS_QUEUES: usize = 16;

/// Programs key, table and hash fields; receive must be off (8.2.3.7.12).
pub(crate) fn program(bar: &Bar, facts: &Facts, rss: &Rss, queues: usize) {
    for (n, bytes) in rss.key.chunks_exact(4).enumerate() {
        bar.write32(facts.rssrk.at(n), u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    }
    let queues = queues.min(RSS_QUEUES);
    let entry = |i: usize| match &rss.table {
        Some(table) => u32::from(table[i]) % queues as u32,
        None => (i % queues) as u32,
    };
    for n in 0..facts.reta.len() {
        let word = (0..4).fold(0, |word, byte| word | entry(4 * n + byte) << (8 * byte));
        bar.write32(facts.reta.at(n), word);
    }
    let fields = facts.rss_addresses | if rss.ports { facts.rss_ports } else { 0 };
    bar.write32(facts.mrqc.at(0), if queues > 1 { fields } else { 0 });
}

/// Gives a disabled queue's share of the table to the others; `false` when none
/// is left to receive. Receive must be off.
pub(crate) fn withdraw(bar: &Bar, facts: &Facts, queue: usize) -> bool {
    // The enable bit is the same in every chip here.
    let enabled = |&n: &usize| n != queue && bar.read32(facts.rxdctl.at(n)) & RXDCTL::ENABLE != 0;
    let others: Vec<usize> = (0..RSS_QUEUES).filter(enabled).collect();
    if others.is_empty() {
        return false;
    }
    for n in 0..facts.reta.len() {
        let mut entries = bar.read32(facts.reta.at(n)).to_le_bytes();
        for (byte, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| usize::from(**entry) == queue)
        {
            *entry = others[(4 * n + byte) % others.len()] as u8;
        }
        bar.write32(facts.reta.at(n), u32::from_le_bytes(entries));
    }
    true
}
