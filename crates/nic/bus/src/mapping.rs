//! A shared mapping of a file: BAR pages, and what a server shares with its
//! client; unmapped when dropped. And the [`Area`] of a BAR seen through one.

use std::os::fd::AsFd;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::sigbus::{self, Registration};
use crate::{Error, Result};

/// Bytes of a file, mapped readable, writable and shared.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
    /// Of memory that another process may take away.
    registration: Option<Registration>,
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
        Ok(Mapping { base: base.cast(), len, registration: None })
    }

    /// As [`new`](Mapping::new), of memory that another process shares: pages that it
    /// takes away are replaced, which [`is_lost`](Mapping::is_lost) tells.
    pub fn of_peer(file: impl AsFd, offset: u64, len: usize) -> Result<Mapping> {
        let page = sigbus::page_size(&file).map_err(|errno| Error::os("asking for a page's size", errno))?;
        let mut mapping = Mapping::new(file, offset, len)?;
        // SAFETY: the pages are the mapping just made, until it is dropped, and first of
        // it the registration.
        mapping.registration = Some(unsafe { Registration::new(mapping.base, len, page) });
        Ok(mapping)
    }

    /// Whether the peer took pages away.
    pub fn is_lost(&self) -> bool {
        self.registration.as_ref().is_some_and(Registration::is_lost)
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
        self.registration = None;
        // SAFETY: ours alone since `new`; whoever kept the base was told that
        // it dies with the mapping.
        let unmapped = unsafe { munmap(self.base.cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A stretch of a BAR that is mapped into this process.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    base: *mut u8,
    offset: u32,
    len: u32,
}

// SAFETY: an Area is an address and two numbers; `Area::new`'s promise covers
// volatile access to it from any thread.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Says that bytes `offset..offset + len` of the BAR are seen at `base`.
    ///
    /// # Safety
    /// `base..base + len` must be mapped readable and writable, outside of any
    /// Rust object, aligned to a page, for as long as the backend lives that
    /// hands the area out.
    pub unsafe fn new(base: *mut u8, offset: u32, len: u32) -> Area {
        Area { base, offset, len }
    }

    /// First byte of the BAR that the area covers.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Bytes covered.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pointer for `width` bytes at `offset` of the BAR, if all of them
    /// lie in the area.
    #[inline(always)]
    pub(crate) fn pointer(&self, offset: u32, width: u32) -> Option<*mut u8> {
        let inside = offset.wrapping_sub(self.offset);
        (inside < self.len && self.len - inside >= width)
            // SAFETY: `inside` is below `len`, all of which is mapped.
            .then(|| unsafe { self.base.add(inside as usize) })
    }
}
