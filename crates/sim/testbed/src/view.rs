//! The device's view of its host: DMA memory and the shared pages of BAR0.
//!
//! A [`View`] finds the bytes behind an IOVA, checks the whole access against
//! the mapped ranges and then touches memory through a pointer. Its clones share
//! one table of ranges: the thread that talks to the client adds and removes
//! ranges in one clone, the thread that steps the model reads through another.
//! What lies outside of every range is refused, never touched.
//!
//! All unsafe code of the model's side lives in this module and its children.
//! It rests on three rules: a [`Mapping`] stays mapped as long as anyone holds
//! it, or says that it was revoked; a view and a window hold the mappings whose
//! pointers they keep and ask; bytes of
//! the host may change at any time, so that nothing here ever forms a
//! reference to them, and no value read is trusted.

mod across;
mod copy;
mod mapping;
mod pages;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use bus::Trust;
pub use mapping::Mapping;
pub use pages::BarPages;

/// Most ranges a client may map at a time; QEMU needs some 20.
const MAX_RANGES: usize = 512;
/// Most bytes a client may map: all clients of a process share its 128 TiB of addresses.
const MAX_BYTES: u64 = 4 << 40;

/// What a client lets the device do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The device may read.
    pub read: bool,
    /// The device may write.
    pub write: bool,
}

impl Access {
    /// The device may read and write.
    pub const BOTH: Access = Access { read: true, write: true };
}

/// A range of IOVA space and where this process sees it.
#[derive(Clone, Debug)]
struct Range {
    iova: u64,
    access: Access,
    /// `None`: the client shared no file; known, but out of reach.
    mapping: Option<Arc<Mapping>>,
    len: u64,
}

impl Range {
    fn overlaps(&self, iova: u64, len: u64) -> bool {
        // Both ends were checked not to overflow.
        iova < self.iova + self.len && self.iova < iova + len
    }

    fn revoke(&self) {
        if let Some(mapping) = &self.mapping {
            mapping.revoke();
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    ranges: Mutex<Vec<Range>>,
    generation: AtomicU64,
    /// No access at all for now; changed with `ranges` locked.
    disabled: AtomicBool,
}

/// How many ranges are remembered, and how much of the address space shares
/// one: clients that map hugepages one by one use many at a time.
const REMEMBERED: usize = 64;
const REACH: u32 = 21;

/// A range that was used lately, flattened to what the check needs. `len` zero
/// matches nothing.
#[derive(Clone, Copy, Debug)]
struct Last {
    iova: u64,
    len: u64,
    base: *mut u8,
    access: Access,
}

const NONE: Last =
    Last { iova: 0, len: 0, base: std::ptr::null_mut(), access: Access { read: false, write: false } };

/// The device's view of host memory; clones share the table of ranges.
#[derive(Debug)]
pub struct View {
    table: Arc<Table>,
    trust: Trust,
    /// What this clone knows of the table, as of `seen`. Holds the mappings that
    /// `last` points into.
    known: RefCell<Vec<Range>>,
    seen: Cell<u64>,
    last: Box<[Cell<Last>; REMEMBERED]>,
}

// SAFETY: the pointers in `last` point into mappings that `known` holds, which
// move with the view; mappings may be used and dropped by any thread.
unsafe impl Send for View {}

impl Clone for View {
    fn clone(&self) -> View {
        View::over(self.table.clone(), self.trust)
    }
}

impl Default for View {
    fn default() -> View {
        View::new(Trust::Peer)
    }
}

impl View {
    /// A view of nothing.
    pub fn new(trust: Trust) -> View {
        View::over(Arc::default(), trust)
    }

    fn over(table: Arc<Table>, trust: Trust) -> View {
        // Generations begin at zero: `seen` differs, so the first access looks.
        let last = Box::new([const { Cell::new(NONE) }; REMEMBERED]);
        View { table, trust, known: RefCell::default(), seen: Cell::new(u64::MAX), last }
    }

    /// Lets the device reach `len` bytes of `file` from `offset` at `iova`.
    ///
    /// # Errors
    /// `EINVAL` for an empty or wrapping range, one beyond the file's end or what is not
    /// memory; of kind [`PermissionDenied`](io::ErrorKind) a file that could shrink
    /// ([`Trust::Hostile`]); `EEXIST` where it overlaps another; `ENOSPC` for too many or
    /// too large ones; and what mmap says.
    pub fn map(&self, iova: u64, len: u64, file: OwnedFd, offset: u64, access: Access) -> io::Result<()> {
        self.check(iova, len)?;
        let mapping = Mapping::of_file(file.as_fd(), offset, len, access, self.trust)?;
        self.add(Range { iova, len, access, mapping: Some(Arc::new(mapping)) })
    }

    /// Records memory that the client did not share: accesses fail.
    pub fn map_unreachable(&self, iova: u64, len: u64) -> io::Result<()> {
        self.check(iova, len)?;
        let access = Access { read: false, write: false };
        self.add(Range { iova, len, access, mapping: None })
    }

    /// Lets the device reach memory of this process.
    ///
    /// # Safety
    /// `base..base + len` must stay mapped readable and writable until
    /// [`unmap`](View::unmap) or [`clear`](View::clear) took it back, and no
    /// other thread may use a clone or a window while that happens. Clones and
    /// windows that outlive it touch it no more.
    pub unsafe fn map_here(&self, iova: u64, base: *mut u8, len: usize) -> io::Result<()> {
        self.check(iova, len as u64)?;
        // SAFETY: the caller's promise, word for word.
        let mapping = unsafe { Mapping::of_memory(base, len) };
        self.add(Range { iova, len: len as u64, access: Access::BOTH, mapping: Some(Arc::new(mapping)) })
    }

    /// Takes back every range that lies in `iova..iova + len`. Other clones
    /// notice at their next access; whoever must be sure that no access is
    /// under way holds the lock under which they work.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `EINVAL` if a range lies in it in part.
    pub fn unmap(&self, iova: u64, len: u64) -> io::Result<()> {
        let end = iova.checked_add(len).ok_or(rustix::io::Errno::INVAL)?;
        let mut ranges = self.ranges();
        let inside = |range: &Range| range.iova >= iova && range.iova + range.len <= end;
        if ranges.iter().any(|range| range.overlaps(iova, len) && !inside(range)) {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let before = ranges.len();
        ranges.retain(|range| {
            let gone = inside(range);
            if gone {
                range.revoke();
            }
            !gone
        });
        if ranges.len() == before {
            return Err(rustix::io::Errno::NOENT.into());
        }
        self.changed();
        Ok(())
    }

    /// Takes back everything.
    pub fn clear(&self) {
        let mut ranges = self.ranges();
        ranges.drain(..).for_each(|range| range.revoke());
        self.changed();
    }

    /// Shuts or opens the device's way to memory as a whole: bus mastering.
    pub fn set_enabled(&self, on: bool) {
        let _ranges = self.ranges();
        if self.table.disabled.swap(!on, Ordering::Relaxed) == on {
            self.changed();
        }
    }

    /// How many ranges are mapped, and their bytes.
    pub fn mapped(&self) -> (usize, u64) {
        let ranges = self.ranges();
        (ranges.len(), ranges.iter().map(|range| range.len).sum())
    }

    /// Whether the client took pages of them away.
    pub fn is_lost(&self) -> bool {
        self.ranges().iter().filter_map(|range| range.mapping.as_ref()).any(|mapping| mapping.is_lost())
    }

    fn ranges(&self) -> std::sync::MutexGuard<'_, Vec<Range>> {
        // The list is consistent between any two statements that change it.
        self.table.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, iova: u64, len: u64) -> io::Result<()> {
        if len == 0 || iova.checked_add(len).is_none() || usize::try_from(len).is_err() {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let ranges = self.ranges();
        if ranges.iter().any(|range| range.overlaps(iova, len)) {
            return Err(rustix::io::Errno::EXIST.into());
        }
        let bytes: u64 = ranges.iter().map(|range| range.len).sum();
        if ranges.len() >= MAX_RANGES || bytes.saturating_add(len) > MAX_BYTES {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        Ok(())
    }

    fn add(&self, range: Range) -> io::Result<()> {
        let mut ranges = self.ranges();
        if ranges.iter().any(|other| other.overlaps(range.iova, range.len)) {
            return Err(rustix::io::Errno::EXIST.into());
        }
        ranges.push(range);
        self.changed();
        Ok(())
    }

    /// Called with the table locked: who sees the new generation and takes the
    /// lock sees the new table.
    fn changed(&self) {
        self.table.generation.fetch_add(1, Ordering::Release);
    }

    /// The pointer for `len` bytes at `iova`, if all of them lie in one range
    /// that allows the access.
    #[inline(always)]
    fn find(&self, iova: u64, len: u64, write: bool) -> Option<*mut u8> {
        // Relaxed: the table itself is read under its lock. The generation
        // only tells that there is something to read.
        if self.table.generation.load(Ordering::Relaxed) != self.seen.get() {
            self.refresh();
        }
        let last = self.slot(iova).get();
        let inside = iova.wrapping_sub(last.iova);
        let allowed = if write { last.access.write } else { last.access.read };
        if inside <= last.len && len <= last.len - inside && allowed {
            // SAFETY: `inside` is at most the mapping's length, and `known`
            // holds the mapping (an empty access at `NONE` adds zero).
            return Some(unsafe { last.base.add(inside as usize) });
        }
        self.search(iova, len, write)
    }

    #[inline(always)]
    fn slot(&self, iova: u64) -> &Cell<Last> {
        &self.last[(iova >> REACH) as usize % REMEMBERED]
    }

    #[cold]
    fn search(&self, iova: u64, len: u64, write: bool) -> Option<*mut u8> {
        let known = self.known.borrow();
        let range = known.iter().find(|range| iova.wrapping_sub(range.iova) < range.len)?;
        let inside = iova - range.iova;
        let allowed = if write { range.access.write } else { range.access.read };
        if !allowed || len > range.len - inside {
            return None;
        }
        let base = range.mapping.as_ref()?.base();
        self.slot(iova).set(Last { iova: range.iova, len: range.len, base, access: range.access });
        // SAFETY: `inside` is less than the mapping's length.
        Some(unsafe { base.add(inside as usize) })
    }

    #[cold]
    fn refresh(&self) {
        let ranges = self.ranges();
        self.last.iter().for_each(|last| last.set(NONE));
        self.seen.set(self.table.generation.load(Ordering::Relaxed));
        let mut known = self.known.borrow_mut();
        known.clear();
        if !self.table.disabled.load(Ordering::Relaxed) {
            known.extend_from_slice(&ranges);
        }
    }
}

impl model::Dma for View {
    type Window = Window;

    fn window(&self, iova: u64, len: u64) -> Option<Window> {
        // Descriptors are read and written back: a ring needs both.
        let Some(base) = self.find(iova, len, false).and_then(|_| self.find(iova, len, true)) else {
            return self.window_across(iova, len);
        };
        let known = self.known.borrow();
        let range = known.iter().find(|range| iova.wrapping_sub(range.iova) < range.len)?;
        let mapping = range.mapping.clone()?;
        drop(known);
        Window::over(base, len, mapping)
    }

    #[inline(always)]
    fn read(&self, iova: u64, data: &mut [u8]) -> bool {
        let Some(from) = self.find(iova, data.len() as u64, false) else {
            return self.read_across(iova, data);
        };
        // SAFETY: `find` checked all of the bytes; `data` is this process's own
        // and the host's memory is never borrowed, so the two do not overlap.
        unsafe { copy::bytes(from, data.as_mut_ptr(), data.len()) };
        true
    }

    #[inline(always)]
    fn write(&self, iova: u64, data: &[u8]) -> bool {
        let Some(to) = self.find(iova, data.len() as u64, true) else {
            return self.write_across(iova, data);
        };
        // SAFETY: as in `read`, the other way round.
        unsafe { copy::bytes(data.as_ptr(), to, data.len()) };
        true
    }

    #[inline(always)]
    fn generation(&self) -> u64 {
        self.table.generation.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        self.refresh();
    }
}

/// A checked range of host memory: a descriptor ring. Offsets are in bytes
/// and rounded down to 8; words beyond the end read zero and take nothing.
#[derive(Clone, Debug)]
pub struct Window {
    base: *const AtomicU64,
    words: usize,
    /// Keeps `base` mapped, or says that it no longer is.
    mapping: Arc<Mapping>,
}

// SAFETY: the words are only accessed atomically, and the mapping that holds
// them may be used by any thread.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// The words of `len` bytes at `base`, which lie in `mapping`.
    fn over(base: *mut u8, len: u64, mapping: Arc<Mapping>) -> Option<Window> {
        let aligned = (base as usize).is_multiple_of(8);
        aligned.then(|| Window { base: base.cast(), words: (len / 8) as usize, mapping })
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let index = offset / 8;
        // SAFETY: below `words`, all of which were checked to be mapped and
        // aligned, and still are unless revoked; an atomic may be changed by
        // others while it is borrowed.
        (index < self.words && !self.mapping.is_revoked()).then(|| unsafe { &*self.base.add(index) })
    }

    /// The 16 bits at `offset`, rounded down to a multiple of 2.
    #[inline(always)]
    fn half(&self, offset: usize) -> Option<&AtomicU16> {
        let word: *const AtomicU64 = self.word(offset)?;
        // SAFETY: within the word just checked, and aligned in it. All accesses
        // to host memory are atomic, those of the other side not ours to choose.
        Some(unsafe { &*word.cast::<AtomicU16>().add(offset % 8 / 2) })
    }

    /// The 32 bits at `offset`, rounded down to a multiple of 4.
    #[inline(always)]
    fn double(&self, offset: usize) -> Option<&AtomicU32> {
        let word: *const AtomicU64 = self.word(offset)?;
        // SAFETY: as above.
        Some(unsafe { &*word.cast::<AtomicU32>().add(offset % 8 / 4) })
    }
}

impl model::Window for Window {
    #[inline(always)]
    fn load(&self, offset: usize) -> u64 {
        self.word(offset).map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)))
    }

    #[inline(always)]
    fn load_acquire(&self, offset: usize) -> u64 {
        self.word(offset).map_or(0, |word| u64::from_le(word.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn store(&self, offset: usize, v: u64) {
        if let Some(word) = self.word(offset) {
            word.store(v.to_le(), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn store_release(&self, offset: usize, v: u64) {
        if let Some(word) = self.word(offset) {
            word.store(v.to_le(), Ordering::Release);
        }
    }

    #[inline(always)]
    fn load16(&self, offset: usize) -> u16 {
        self.half(offset).map_or(0, |half| u16::from_le(half.load(Ordering::Relaxed)))
    }

    #[inline(always)]
    fn load16_acquire(&self, offset: usize) -> u16 {
        self.half(offset).map_or(0, |half| u16::from_le(half.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn load32_acquire(&self, offset: usize) -> u32 {
        self.double(offset).map_or(0, |double| u32::from_le(double.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn store16_release(&self, offset: usize, v: u16) {
        if let Some(half) = self.half(offset) {
            half.store(v.to_le(), Ordering::Release);
        }
    }

    #[inline(always)]
    fn store32(&self, offset: usize, v: u32) {
        if let Some(double) = self.double(offset) {
            double.store(v.to_le(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
