//! The memory of another process: its hugepages, and where a device that sees
//! physical addresses sees them (kernel: admin-guide/mm/pagemap).

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Bytes of a page, and of a hugepage.
const PAGE: u64 = 4096;
const HUGEPAGE: u64 = 2 << 20;

/// A hugepage of another process.
#[derive(Debug)]
pub struct Hugepage {
    pub physical: u64,
    pub len: u64,
    pub file: OwnedFd,
    pub offset: u64,
}

/// The hugepages that process `id` has mapped from hugetlbfs. Needs root, or
/// physical addresses read as zero.
pub fn hugepages(id: u32) -> io::Result<Vec<Hugepage>> {
    let pagemap = File::open(format!("/proc/{id}/pagemap"))?;
    let mut pages = Vec::new();
    for line in fs::read_to_string(format!("/proc/{id}/maps"))?.lines() {
        let Some((start, end, offset)) = mapping(line).filter(|_| line.contains("/dev/hugepages/")) else {
            continue;
        };
        for at in (start..end).step_by(HUGEPAGE as usize) {
            let mut entry = [0; 8];
            pagemap.read_exact_at(&mut entry, at / PAGE * 8)?;
            let entry = u64::from_le_bytes(entry);
            let (present, frame) = (entry >> 63 == 1, entry & ((1 << 55) - 1));
            if !present || frame == 0 {
                continue;
            }
            let file = File::options()
                .read(true)
                .write(true)
                .open(format!("/proc/{id}/map_files/{start:x}-{end:x}"))?;
            pages.push(Hugepage {
                physical: frame * PAGE,
                len: HUGEPAGE,
                file: file.into(),
                offset: offset + at - start,
            });
        }
    }
    Ok(pages)
}

/// Start and end of a mapping, and where in its file it begins.
fn mapping(line: &str) -> Option<(u64, u64, u64)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?, number(words.nth(1)?)?))
}

/// How many hugepages a node has free, and how many in all.
const TOTAL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Hugepages reserved for a while; as many as before when dropped.
#[derive(Debug)]
pub struct Reserve {
    before: u64,
}

impl Reserve {
    /// Sees to it that `wanted` are free.
    pub fn new(wanted: u64) -> io::Result<Reserve> {
        let reserve = Reserve { before: read(TOTAL)? };
        reserve_more(wanted)?;
        Ok(reserve)
    }
}

/// Reserves as many more as `wanted` free ones lack, for other programs take those that they find.
pub fn reserve_more(wanted: u64) -> io::Result<()> {
    let missing = wanted.saturating_sub(read(FREE)?);
    if missing > 0 {
        fs::write(TOTAL, (read(TOTAL)? + missing).to_string())?;
    }
    let free = read(FREE)?;
    match free < wanted {
        true => Err(io::Error::other(format!("{free} hugepages are free, {wanted} are needed"))),
        false => Ok(()),
    }
}

fn read(path: &str) -> io::Result<u64> {
    fs::read_to_string(path)?.trim().parse().map_err(|_| io::Error::other("no number"))
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let _ = fs::write(TOTAL, self.before.to_string());
    }
}
