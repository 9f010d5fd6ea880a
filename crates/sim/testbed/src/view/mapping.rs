//! One mapped range of host memory: a file that the client shared, or memory
//! of this process.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bus::Trust;
use bus::seal::{Unsealed, seal};
use bus::sigbus::{self, Registration};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap_fixed, munmap};

use super::Access;
use super::across::Piece;

/// Bytes of a small page: pieces of memory side by side meet at its ends. Where pages are
/// larger, the kernel refuses what is not aligned to them.
const PAGE: usize = 4 << 10;

/// Memory that stays mapped as long as this lives; memory of this process, until
/// it is revoked.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    /// What to unmap: where it begins and how long it is.
    ours: Option<(*mut std::ffi::c_void, usize)>,
    revoked: AtomicBool,
    /// Of a client's file.
    registration: Option<Registration>,
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
        trust: Trust,
    ) -> io::Result<Mapping> {
        // Before the size is looked at, or it could change in between.
        seal(file, trust).map_err(|unsealed| match unsealed {
            Unsealed::NotMemory => io::Error::from(Errno::INVAL),
            Unsealed::Shrinks => io::Error::new(io::ErrorKind::PermissionDenied, unsealed),
        })?;
        let end = offset.checked_add(len).ok_or(Errno::INVAL)?;
        if u64::try_from(fstat(file)?.st_size).unwrap_or(0) < end {
            return Err(Errno::INVAL.into());
        }
        // The file's own pages may have 2 MiB or 1 GiB, and be mapped and unmapped whole.
        let page = sigbus::page_size(file)?;
        let slack = offset % page as u64;
        let whole = usize::try_from(len + slack).ok().and_then(|len| len.checked_next_multiple_of(page));
        let whole = whole.ok_or(Errno::INVAL)?;
        let mut protection = ProtFlags::empty();
        protection.set(ProtFlags::READ, access.read);
        protection.set(ProtFlags::WRITE, access.write);
        // SAFETY: no address is asked for: no mapping is replaced.
        let base =
            unsafe { mmap(std::ptr::null_mut(), whole, protection, MapFlags::SHARED, file, offset - slack) }?;
        // SAFETY: `slack` is less than the bytes mapped.
        let first = unsafe { base.cast::<u8>().add(slack as usize) };
        let mut mapping = Mapping::at(first, Some((base, whole)));
        // SAFETY: the mapping just made, until it is dropped, and first of it the
        // registration; its bytes may change at any time.
        mapping.registration = Some(unsafe { Registration::new(base.cast(), whole, page) });
        Ok(mapping)
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
        let revoked = AtomicBool::new(false);
        Mapping { base, ours, revoked, registration: None, joined: Mutex::default() }
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
        let mut joined = Mapping::at(unsafe { place.cast::<u8>().add(lead) }, Some((place, whole)));
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
        // SAFETY: as in `of_file`; no page here is larger than `PAGE`, or its piece would
        // have been refused.
        joined.registration = Some(unsafe { Registration::new(place.cast(), whole, PAGE) });
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

    /// Whether the client took away pages of it, or of it beside others.
    pub(super) fn is_lost(&self) -> bool {
        let own = self.registration.as_ref().is_some_and(Registration::is_lost);
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        own || joined.iter().filter_map(Weak::upgrade).any(|other| other.is_lost())
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
        self.registration = None;
        if let Some((base, len)) = self.ours {
            // SAFETY: mapped by us alone; whoever kept a pointer into it keeps
            // the mapping, so that nobody is left.
            let unmapped = unsafe { munmap(base, len) };
            debug_assert!(unmapped.is_ok());
        }
    }
}
