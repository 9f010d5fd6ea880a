//! One mapped range of host memory: a file that the client shared, or memory
//! of this process.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap_fixed, munmap};

use super::Access;
use super::across::Piece;

/// Bytes of a page. Where pages are larger, the kernel refuses what is not
/// aligned to them. (Asking it would need files that a confined process has not.)
const PAGE: usize = 4 << 10;

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
    /// Mappings of the same pages, which are revoked with this one.
    joined: Mutex<Vec<Weak<Mapping>>>,
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
                    return Ok(Mapping::at(first, Some((base, whole))));
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
        Mapping::at(base, None)
    }

    fn at(base: *mut u8, ours: Option<(*mut std::ffi::c_void, usize)>) -> Mapping {
        Mapping { base, ours, revoked: AtomicBool::new(false), joined: Mutex::default() }
    }

    /// The pages of some pieces of shared files once more, side by side; revoked
    /// with the first of theirs.
    ///
    /// # Errors
    /// `EINVAL` where pieces meet within a page or lie in memory that is not
    /// shared, and what mmap says.
    pub(super) fn of_pieces(pieces: &[Piece]) -> io::Result<Arc<Mapping>> {
        let lead = pieces.first().map_or(0, |piece| piece.base as usize % PAGE);
        let len: usize = pieces.iter().map(|piece| piece.len).sum();
        let whole = (lead + len).next_multiple_of(PAGE);
        // SAFETY: no address is asked for: no mapping is replaced.
        let place =
            unsafe { mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::empty(), MapFlags::PRIVATE) }?;
        // SAFETY: `lead` is less than the bytes mapped. From here on the place is
        // given back when an error ends this.
        let joined = Mapping::at(unsafe { place.cast::<u8>().add(lead) }, Some((place, whole)));
        let mut at = 0;
        for (n, piece) in pieces.iter().enumerate() {
            let before = if n == 0 { lead } else { 0 };
            let end = before + piece.len;
            let meets = n + 1 == pieces.len() || end.is_multiple_of(PAGE);
            if piece.base as usize % PAGE != before || !meets {
                return Err(Errno::INVAL.into());
            }
            // SAFETY: the piece's pages are mapped, whole, as long as it is held;
            // an old size of zero leaves them so and maps shared ones a second
            // time. The target lies in the place reserved above: `end` rounded up
            // fits, as the sum of all does.
            unsafe {
                let from = piece.base.sub(before).cast();
                let to = place.cast::<u8>().add(at).cast();
                mremap_fixed(from, 0, end.next_multiple_of(PAGE), MremapFlags::MAYMOVE, to)?;
            }
            at += end;
        }
        let joined = Arc::new(joined);
        for piece in pieces {
            let mut others = piece.mapping.joined.lock().unwrap_or_else(PoisonError::into_inner);
            others.retain(|other| other.strong_count() > 0);
            others.push(Arc::downgrade(&joined));
            drop(others);
            // Whoever revoked it in between did not know of this one.
            if piece.mapping.is_revoked() {
                joined.revoke();
            }
        }
        Ok(joined)
    }

    /// The owner takes the memory back. Relaxed: whoever revokes excludes those
    /// who use it by a lock.
    pub(super) fn revoke(&self) {
        self.revoked.store(true, Ordering::Relaxed);
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        joined.iter().filter_map(Weak::upgrade).for_each(|other| other.revoke());
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
