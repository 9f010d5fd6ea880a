//! A shared mapping of a file: BAR pages, and what a server shares with its
//! client. Unmapped when dropped.

use std::os::fd::AsFd;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, Result};

/// Bytes of a file, mapped readable, writable and shared.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a Mapping hands out an address and does not touch the memory.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset`, a multiple of the page size.
    pub fn new(file: impl AsFd, offset: u64, len: usize) -> Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let base = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, file, offset) }
            .map_err(|errno| Error::os(format!("mapping {len} bytes"), errno))?;
        Ok(Mapping { base: base.cast(), len })
    }

    /// Where the mapping begins.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: the system maps no empty range.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours alone since `new`; whoever kept the base was told that
        // it dies with the mapping.
        let unmapped = unsafe { munmap(self.base.cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
