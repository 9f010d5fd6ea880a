//! Memory for a device with pages before and behind it that are nobody's: whoever writes
//! there is seen.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::null_mut;
use std::slice;

use bus::DmaRange;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

const PAGE: usize = 4096;
const GUARD: u8 = 0xC5;

/// Some pages of a file, and one at each side that no file has.
#[derive(Debug)]
pub struct Guarded {
    file: OwnedFd,
    base: *mut c_void,
    len: usize,
}

impl Guarded {
    /// `pages` pages to offer.
    ///
    /// # Errors
    /// What the system says when it has none.
    pub fn new(pages: usize) -> io::Result<Guarded> {
        let file = memfd_create("guarded", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let len = pages * PAGE;
        ftruncate(&file, len as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for: no mapping is replaced; then the pages in the
        // middle of what was just mapped are.
        let base = unsafe {
            let base = mmap_anonymous(null_mut(), len + 2 * PAGE, access, MapFlags::PRIVATE)?;
            base.cast::<u8>().write_bytes(GUARD, len + 2 * PAGE);
            mmap(base.add(PAGE), len, access, MapFlags::SHARED | MapFlags::FIXED, &file, 0)?;
            base
        };
        Ok(Guarded { file, base, len })
    }

    /// The pages in the middle, which the device sees at `iova`.
    pub fn range(&self, iova: u64) -> DmaRange<'_> {
        let addr = self.base.cast::<u8>().wrapping_add(PAGE);
        // SAFETY: mapped until this is dropped; it is borrowed by the range, and whoever
        // offers the range to a backend drops that first.
        unsafe { DmaRange::new(addr, self.len, iova, Some((self.file.as_fd(), 0))) }
    }

    /// Nobody wrote beside what was offered.
    ///
    /// # Panics
    /// When somebody did.
    pub fn check(&self) {
        for at in [0, PAGE + self.len] {
            // SAFETY: a page at either side, which nobody is told of.
            let page = unsafe { slice::from_raw_parts(self.base.cast::<u8>().add(at), PAGE) };
            assert!(page.iter().all(|&byte| byte == GUARD), "foreign memory was written");
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no backend lives that knows of it.
        let unmapped = unsafe { munmap(self.base, self.len + 2 * PAGE) };
        debug_assert!(unmapped.is_ok());
    }
}
