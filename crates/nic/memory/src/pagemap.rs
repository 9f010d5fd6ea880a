//! Where devices without an IOMMU see a hugepage: its physical address, from
//! `/proc/self/pagemap` (Linux, Documentation/admin-guide/mm/pagemap.rst).
//!
//! Only memory that never moves may be asked about: hugepages, touched before.

use std::io;

use rustix::fs::{self, Mode, OFlags};

use crate::backing::{HUGE_PAGE, Mapping, Options, Pages};
use crate::{Error, Result};

/// Bytes of the pages that the page map counts.
const PAGE: u64 = 4096;
/// Bytes of an entry.
const ENTRY: u64 = 8;
/// The page is in memory.
const PRESENT: u64 = 1 << 63;
/// The number of its page frame; zero for whoever has no CAP_SYS_ADMIN.
const FRAME: u64 = (1 << 55) - 1;

/// Memory whose physical addresses are known, and those of its hugepages.
pub(crate) fn physical(options: Options, len: usize) -> Result<(Mapping, Vec<u64>)> {
    let mapping = Mapping::new(options, len, true, Pages::Now)?;
    let file = fs::open(c"/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Error::NoPhysicalAddress(e.into()))?;
    let entry = |offset| {
        let mut entry = [0; ENTRY as usize];
        match rustix::io::pread(&file, &mut entry[..], offset)? {
            len if len == entry.len() => Ok(u64::from_le_bytes(entry)),
            _ => Err(io::Error::other("the page map ends before")),
        }
    };
    let pages = addresses(mapping.ptr.as_ptr() as u64, mapping.len, entry)?;
    Ok((mapping, pages))
}

/// The physical address of each hugepage of `len` bytes at `start`; `entry` reads the
/// page map at an offset.
fn addresses(start: u64, len: usize, entry: impl Fn(u64) -> io::Result<u64>) -> Result<Vec<u64>> {
    let address = |page: u64| {
        let virtual_address = start + page * HUGE_PAGE as u64;
        let entry = entry(virtual_address / PAGE * ENTRY).map_err(Error::NoPhysicalAddress)?;
        let frame = entry & FRAME;
        if entry & PRESENT == 0 {
            return Err(Error::NoPhysicalAddress(io::Error::other("a page is not in memory")));
        }
        if frame == 0 {
            return Err(Error::NoPhysicalAddress(io::Error::other("the kernel shows no frame numbers")));
        }
        Ok(frame * PAGE)
    };
    (0..(len / HUGE_PAGE) as u64).map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x7F00_0000_0000;
    const LEN: usize = 3 * HUGE_PAGE;

    /// An entry of a page map: a page in memory, at a frame; soft-dirty and exclusive.
    fn present(frame: u64) -> u64 {
        1 << 63 | 1 << 56 | 1 << 55 | frame
    }

    /// The addresses by a page map that holds these entries for the hugepages, and
    /// nothing for the pages between.
    fn by(entries: [u64; 3]) -> Result<Vec<u64>> {
        addresses(START, LEN, |offset| {
            let page = offset / 8 - START / 4096;
            Ok(if page.is_multiple_of(512) { entries[page as usize / 512] } else { 0 })
        })
    }

    #[test]
    fn each_hugepage_has_the_address_of_its_frame() {
        let frames = [0x10_0000, 0x8_0200, 0x10_0200];
        let addresses = by(frames.map(present)).expect("all are present");
        assert_eq!(addresses, [0x1_0000_0000, 0x8020_0000, 0x1_0020_0000]);
        // 52 bits of address are all that x86-64 has.
        assert_eq!(by([present((1 << 40) - 512); 3]).expect("present")[0], (1 << 52) - (2 << 20));
    }

    #[test]
    fn a_page_that_is_absent_or_has_no_number_is_an_error() {
        let good = present(0x10_0000);
        let swapped = 1 << 62 | 0x10_0000;
        for (bad, why) in [(0, "not in memory"), (swapped, "not in memory"), (present(0), "no frame numbers")]
        {
            for entries in [[bad, good, good], [good, bad, good], [good, good, bad]] {
                let error = by(entries).expect_err(why).to_string();
                assert!(error.contains(why) && error.contains("/proc/self/pagemap"), "{error}");
            }
        }
    }

    #[test]
    fn a_page_map_that_cannot_be_read_is_an_error() {
        let error = addresses(START, LEN, |_| Err(io::Error::from_raw_os_error(libc::EPERM)));
        let error = error.expect_err("nobody may").to_string();
        assert!(error.contains("not permitted") && error.contains("run as root"), "{error}");
    }

    #[test]
    fn plain_memory_has_no_physical_address_to_keep() {
        let options = Options { backing: crate::Backing::Memfd, numa_node: None };
        assert!(matches!(physical(options, 4096), Err(Error::NoHugepages(_))));
    }
}
