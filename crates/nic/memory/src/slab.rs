//! Where the metadata of a pool's buffers lies: memory of this process alone, that no file
//! backs and no device is given. What a device, or a peer that shares the buffers, writes
//! outside of its descriptors changes the bytes of packets and nothing else: not where
//! they are, how long they are, or whose.
//!
//! ```text
//! | core 128 | group | group | …      group: | 65 × metadata 64 | 65 × annotations 64 |
//! ```
//!
//! Annotations stand at one distance behind their metadata, the same for all buffers, so
//! that they are found without a load; drivers, which never look at them, have dense
//! metadata. 65 lines are one more than a first-level cache has sets: a group's metadata
//! spread over all of them, and a buffer's two lines are not a multiple of 4096 bytes
//! apart, at which processors take a load for one of what was just stored.

use std::ptr::NonNull;

use rustix::mm::Advice;

use crate::annotation::Annotations;
use crate::backing::{HUGE_PAGE, Options, bind_to_node, private};
use crate::core::Core;
use crate::packet::Meta;
use crate::{Error, Result};

/// Buffers in a group.
const GROUP: usize = 65;
/// Bytes from a buffer's metadata to its annotations.
const TO_ANNOTATIONS: usize = GROUP * size_of::<Meta>();
/// Bytes from one group to the next.
const GROUP_BYTES: usize = TO_ANNOTATIONS + GROUP * size_of::<Annotations>();

const _: () = assert!(size_of::<Meta>() == 64 && size_of::<Annotations>() == 64);
const _: () = assert!(size_of::<Core>().is_multiple_of(64) && size_of::<Core>() < 4096);
const _: () = assert!(place(crate::Pool::MAX) < u32::MAX as usize, "a buffer knows how far its core is");

/// Bytes from the start of a slab, where the core is, to the metadata of buffer `n`.
pub(crate) const fn place(n: usize) -> usize {
    size_of::<Core>() + n / GROUP * GROUP_BYTES + n % GROUP * size_of::<Meta>()
}

/// Where the annotations of a buffer are.
#[inline(always)]
pub(crate) fn annotations(meta: NonNull<Meta>) -> NonNull<Annotations> {
    // SAFETY: every metadata lies in a slab, which has the annotations so far behind it.
    unsafe { meta.byte_add(TO_ANNOTATIONS).cast() }
}

/// Private memory for a core and the metadata of its buffers; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) start: NonNull<u8>,
    len: usize,
}

// SAFETY: a slab is an address range valid in the whole process until drop; the pointer
// carries no thread affinity.
unsafe impl Send for Slab {}

impl Slab {
    /// Zeroed memory for `count` buffers: on the node of `options`, and of hugepages where
    /// the buffers lie in such and the kernel has some.
    pub(crate) fn new(options: Options, count: usize, huge: bool) -> Result<Slab> {
        let page = if huge { HUGE_PAGE } else { 4096 };
        let len = place(count.next_multiple_of(GROUP)).next_multiple_of(page);
        let failed =
            |e: rustix::io::Errno| Error::System { doing: "map packet metadata for", len, source: e.into() };
        let start = private(len).map_err(failed)?;
        let slab = Slab { start, len };
        if huge {
            // Fewer misses of the TLB; a kernel that refuses has ordinary pages.
            // SAFETY: the range is the mapping just made, and only its pages' size changes.
            let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
        }
        if let Some(node) = options.numa_node {
            bind_to_node(start, len, node)?;
        }
        Ok(slab)
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and whoever had a buffer of it gave it back.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cache sets of a first-level cache with 64 of them.
    const SETS: usize = 64;

    #[test]
    fn metadata_and_annotations_of_all_buffers_lie_apart() {
        let mut lines: Vec<usize> =
            (0..1000).flat_map(|n| [place(n), place(n) + TO_ANNOTATIONS]).map(|at| at / 64).collect();
        assert!((0..1000).all(|n| place(n).is_multiple_of(64)));
        assert_eq!(place(0), size_of::<Core>(), "behind the core");
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 2000);
        assert!(lines[1999] < place(1000_usize.next_multiple_of(GROUP)) / 64, "in the slab");
    }

    #[test]
    fn metadata_spread_over_all_cache_sets() {
        for count in [64, 512, 4096] {
            let mut used = [0; SETS];
            (0..count).for_each(|n| used[place(n) / 64 % SETS] += 1);
            let (least, most) = (used.iter().min().expect("sets"), used.iter().max().expect("sets"));
            assert!(most - least <= 1 + count / 64 / 8, "{count}: {used:?}");
        }
        assert_ne!(TO_ANNOTATIONS % 4096, 0);
    }

    #[test]
    fn a_slab_is_in_no_file_and_goes_with_its_core() {
        let slab = Slab::new(Options::default(), 12_345, false).expect("memory");
        let start = slab.start.addr().get();
        let maps = || std::fs::read_to_string("/proc/self/maps").expect("a map");
        let of = |maps: &str| {
            let range = |line: &str| {
                let (from, to) = line.split(' ').next()?.split_once('-')?;
                let hex = |text| usize::from_str_radix(text, 16).ok();
                Some(hex(from)?..hex(to)?)
            };
            maps.lines()
                .find(|line| range(line).is_some_and(|range| range.contains(&start)))
                .map(str::to_owned)
        };
        let line = of(&maps()).expect("mapped");
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!((words[1], &words[3..]), ("rw-p", &["00:00", "0"][..]), "private, and of no file");
        drop(slab);
        // Another test may have memory there by now, but not this.
        assert_ne!(of(&maps()), Some(line));
    }
}
