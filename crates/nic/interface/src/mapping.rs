//! Memory shared with the kernel: the rings of a socket, mapped. Every access is
//! checked against the mapping's end, so that who uses this needs no unsafe
//! code, and a ring with wrong indices leads nowhere else.
#![allow(unsafe_code)]

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping of a socket's memory. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the range is valid in the whole process until it is dropped, and the
// pointer has no affinity to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of what `socket` offers at `offset`.
    pub(crate) fn map(socket: impl AsFd, len: usize, offset: u64) -> Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address that the kernel chooses, aliases
        // nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, flags, socket, offset) }?;
        let start = NonNull::new(start.cast()).expect("mmap never returns null on success");
        Ok(Mapping { start, len })
    }

    /// Where `len` bytes at `offset` begin.
    #[inline(always)]
    fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "{len} bytes at {offset} of {}", self.len);
        // SAFETY: within the mapping, as just checked.
        unsafe { self.start.add(offset) }
    }

    /// The word at `offset`, a multiple of four.
    #[inline(always)]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        let at = self.at(offset, 4).cast();
        assert!(at.is_aligned());
        // SAFETY: inside the mapping, which lives as long as `self`, aligned, and
        // any bits make a number; the kernel's accesses are atomic too.
        unsafe { at.as_ref() }
    }

    /// The double word at `offset`, a multiple of eight.
    #[inline(always)]
    pub(crate) fn long(&self, offset: usize) -> &AtomicU64 {
        let at = self.at(offset, 8).cast();
        assert!(at.is_aligned());
        // SAFETY: as in `word`.
        unsafe { at.as_ref() }
    }

    /// Copies from the mapping. The kernel has handed the bytes over.
    #[inline(always)]
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let len = bytes.len();
        let from = self.at(offset, len);
        // SAFETY: both ranges are as long, and `bytes` is a Rust object, which
        // never lies in the mapping.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(bytes).cast(), len) };
    }

    /// Copies into the mapping. The bytes are ours until the kernel is told.
    #[inline(always)]
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: as in `read`.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` mapped the range, and references into it ended with the
        // borrows of `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// Numbers that look random and are the same in every run (xorshift).
    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        pub(crate) fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// A number below `limit`.
        pub(crate) fn below(&mut self, limit: usize) -> usize {
            (self.next() >> 16) as usize % limit.max(1)
        }
    }

    fn page() -> Mapping {
        let file = rustix::fs::memfd_create(c"page", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        Mapping::map(file, 4096, 0).unwrap()
    }

    #[test]
    fn words_and_bytes_are_the_same_memory() {
        let page = page();
        page.write(4088, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(page.long(4088).load(Relaxed).to_ne_bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
        page.word(4092).store(0, Relaxed);
        let mut bytes = [0xFF; 8];
        page.read(4088, &mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 0, 0, 0, 0]);
    }

    #[test]
    fn nothing_leads_outside() {
        let outside = |access: fn(&Mapping)| {
            let page = page();
            let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| access(&page)));
            assert!(tried.is_err());
        };
        outside(|page| _ = page.word(4093));
        outside(|page| _ = page.word(2));
        outside(|page| _ = page.long(4092));
        outside(|page| page.read(4090, &mut [0; 7]));
        outside(|page| page.write(usize::MAX, &[0; 2]));
    }
}
