//! A shared mapping of a file: BAR pages, and what a server shares with its
//! client; unmapped when dropped. And the [part of a BAR](BarMapping) that one shows.

use std::os::fd::AsFd;
use std::ptr;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::sigbus::{self, Registration};
use crate::{Error, Result};

/// Bytes of a file, mapped readable, writable and shared.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
    /// Bytes that are mapped: of hugepages whole ones.
    mapped: usize,
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
        Ok(Mapping { base: base.cast(), len, mapped: len, registration: None })
    }

    /// As [`new`](Mapping::new), of memory that another process shares: pages that it
    /// takes away are replaced, which [`is_lost`](Mapping::is_lost) tells.
    pub fn of_peer(file: impl AsFd, offset: u64, len: usize) -> Result<Mapping> {
        let page = sigbus::page_size(&file).map_err(|errno| Error::os("asking for a page's size", errno))?;
        // The kernel maps whole pages, and of hugepages unmaps no others.
        let whole = len.checked_next_multiple_of(page);
        let whole = whole.ok_or_else(|| Error::os(format!("mapping {len} bytes"), Errno::INVAL))?;
        let mut mapping = Mapping::new(file, offset, whole)?;
        mapping.len = len;
        // SAFETY: the pages are the mapping just made, until it is dropped, and first of
        // it the registration.
        mapping.registration = Some(unsafe { Registration::new(mapping.base, whole, page) });
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
        let unmapped = unsafe { munmap(self.base.cast(), self.mapped) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A part of a BAR that is mapped into this process, and stays so as long as a clone of
/// this lives, whatever becomes of the backend that it is from.
#[derive(Clone, Debug)]
pub struct BarMapping {
    memory: Arc<Mapping>,
    offset: u32,
}

impl BarMapping {
    /// Says that the BAR's bytes from `offset` on are those of `memory`.
    pub fn new(memory: Mapping, offset: u32) -> BarMapping {
        BarMapping { memory: Arc::new(memory), offset }
    }

    /// First byte of the BAR that is mapped.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Bytes mapped; none beyond those that an offset of 32 bits can name.
    pub fn len(&self) -> u32 {
        (self.memory.len() as u64).min((u32::MAX - self.offset).into()) as u32
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the server took pages away.
    pub(crate) fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }

    /// The pointer for `width` bytes at `offset` of the BAR, if all of them are mapped
    /// and aligned to their width.
    #[inline(always)]
    pub(crate) fn pointer(&self, offset: u32, width: u32) -> Option<*mut u8> {
        let inside = offset.wrapping_sub(self.offset);
        (inside < self.len() && self.len() - inside >= width && inside.is_multiple_of(width))
            // SAFETY: `inside` is below the length of the mapping.
            .then(|| unsafe { self.memory.base().add(inside as usize) })
    }
}
