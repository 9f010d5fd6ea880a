//! Receive-side scaling (82599 datasheet 7.1.2.8, 82576 datasheet 7.1.1.7): a
//! Toeplitz hash over addresses and ports picks an entry of a table of 128, and
//! the entry a queue.

use bus::Bar;
use port::Rss;
use regs::ixgbe::RXDCTL;

use super::Registers;

/// The most queues the table can name: its entries have four bits.
pub(crate) const QUEUES: usize = 16;
/// Entries of the table.
pub(crate) const TABLE: usize = 128;

/// Programs key, table and hash fields; receive must be off (8.2.3.7.12).
pub(crate) fn program(bar: &Bar, info: &Registers, rss: &Rss, queues: usize) {
    program_tables(bar, info, rss, queues.min(QUEUES));
    let fields = info.rss_addresses | if rss.ports { info.rss_ports } else { 0 };
    bar.write32(info.mrqc.at(0), if queues > 1 { fields } else { 0 });
}

/// Programs key and table, for so many queues of the port or of each pool.
pub(crate) fn program_tables(bar: &Bar, info: &Registers, rss: &Rss, queues: usize) {
    for (n, bytes) in rss.key.chunks_exact(4).enumerate() {
        bar.write32(info.rssrk.at(n), u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    }
    let entries: Vec<u8> = rss.entries(TABLE, queues).map(|queue| queue as u8).collect();
    for (n, four) in entries.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        bar.write32(info.reta.at(n), word);
    }
}

/// Has entries of the table name other queues, while packets come: it is not known which of
/// those that come about now go by the entries of before (7.1.2.8; 82576 7.1.1.7).
pub(crate) fn change(bar: &Bar, info: &Registers, changes: &[(usize, usize)]) {
    for &(entry, queue) in changes {
        let at = info.reta.at(entry / 4);
        let mut entries = bar.read32(at).to_le_bytes();
        entries[entry % 4] = queue as u8;
        bar.write32(at, u32::from_le_bytes(entries));
    }
}

/// Gives a disabled queue's share of the table to the others; `false` when none
/// is left to receive. Receive must be off.
pub(crate) fn withdraw(bar: &Bar, info: &Registers, queue: usize) -> bool {
    // The enable bit is the same in every chip here.
    let enabled = |&n: &usize| n != queue && bar.read32(info.rxdctl.at(n)) & RXDCTL::ENABLE != 0;
    let others: Vec<usize> = (0..QUEUES).filter(enabled).collect();
    if others.is_empty() {
        return false;
    }
    for n in 0..info.reta.len() {
        let mut entries = bar.read32(info.reta.at(n)).to_le_bytes();
        for (byte, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| usize::from(**entry) == queue)
        {
            *entry = others[(4 * n + byte) % others.len()] as u8;
        }
        bar.write32(info.reta.at(n), u32::from_le_bytes(entries));
    }
    true
}
