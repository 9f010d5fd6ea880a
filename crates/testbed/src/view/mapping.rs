//! One mapped range of host memory: a file that the client shared, or memory
//! of this process.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Access;

/// Whether a file must be sealed against shrinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seal {
    /// Seal it if it can be.
    Try,
    /// Refuse it if it cannot be.
    Demand,
}

/// Memory that stays mapped as long as this lives; memory of this process, until
/// it is revoked.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    /// What to unmap: where it begins and how long it is.
    ours: Option<(*mut std::ffi::c_void, usize)>,
    revoked: AtomicBool,
}

// SAFETY: an address and a length; what is done with the memory behind it is
// argued where it is done.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file that reaches at least to their end.
    pub(super) fn of_file(
        file: BorrowedFd<'_>,
        offset: u64,
        len: u64,
        access: Access,
        seal: Seal,
    ) -> io::Result<Mapping> {
        // Before the size is looked at, or it could change in between.
        if !sealed(file) && seal == Seal::Demand {
            return Err(Errno::INVAL.into());
        }
        let end = offset.checked_add(len).ok_or(Errno::INVAL)?;
        if u64::try_from(fstat(file)?.st_size).unwrap_or(0) < end {
            return Err(Errno::INVAL.into());
        }
        // The file's own page size may be 2 MiB or 1 GiB and mmap wants the
        // offset in these: map from a rounded offset where it must be.
        let mut protection = ProtFlags::empty();
        protection.set(ProtFlags::READ, access.read);
        protection.set(ProtFlags::WRITE, access.write);
        let mut failed = Errno::INVAL;
        for page in [4 << 10, 2 << 20, 1 << 30u64] {
            let slack = offset % page;
            let whole = usize::try_from(len + slack).map_err(|_| Errno::INVAL)?;
            if offset - slack + whole as u64 > end {
                return Err(Errno::INVAL.into());
            }
            // SAFETY: no address is asked for: no mapping is replaced.
            let mapped = unsafe {
                mmap(std::ptr::null_mut(), whole, protection, MapFlags::SHARED, file, offset - slack)
            };
            match mapped {
                Ok(base) => {
                    // SAFETY: `slack` is less than the bytes mapped.
                    let first = unsafe { base.cast::<u8>().add(slack as usize) };
                    return Ok(Mapping {
                        base: first,
                        ours: Some((base, whole)),
                        revoked: AtomicBool::new(false),
                    });
                }
                Err(errno) => failed = errno,
            }
            if failed != Errno::INVAL {
                break;
            }
        }
        Err(failed.into())
    }

    /// Memory of this process, not ours to unmap.
    ///
    /// # Safety
    /// `base..base + len` must stay mapped readable and writable until this is
    /// dropped or revoked, and not be used by another thread while it is revoked.
    pub(super) unsafe fn of_memory(base: *mut u8, _len: usize) -> Mapping {
        Mapping { base, ours: None, revoked: AtomicBool::new(false) }
    }

    /// The owner takes the memory back. Relaxed: whoever revokes excludes those
    /// who use it by a lock.
    pub(super) fn revoke(&self) {
        self.revoked.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    /// Where it begins.
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some((base, len)) = self.ours {
            // SAFETY: mapped by us alone; whoever kept a pointer into it keeps
            // the mapping, so that nobody is left.
            let unmapped = unsafe { munmap(base, len) };
            debug_assert!(unmapped.is_ok());
        }
    }
}

/// Whether the file can no longer shrink; seals it where it is allowed.
fn sealed(file: BorrowedFd<'_>) -> bool {
    let has = |seals: SealFlags| seals.contains(SealFlags::SHRINK);
    match fcntl_get_seals(file) {
        Err(_) => false,
        Ok(seals) => has(seals) || fcntl_add_seals(file, SealFlags::SHRINK).is_ok(),
    }
}
