//! The pages of BAR0 that driver and model share: a memfd of the BAR's size,
//! sealed, of which clients map what the model polls.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::{Access, Mapping, Trust};

/// Shared registers; clones see the same ones. Offsets are bytes from the
/// beginning of BAR0; beyond its end, reads give zero and writes go nowhere.
#[derive(Clone, Debug)]
pub struct BarPages {
    base: *const AtomicU32,
    words: usize,
    /// Keeps the words mapped.
    _mapping: Arc<Mapping>,
    file: Arc<OwnedFd>,
}

// SAFETY: the words are only accessed atomically, in a mapping that any thread
// may use.
unsafe impl Send for BarPages {}
// SAFETY: as above.
unsafe impl Sync for BarPages {}

impl BarPages {
    /// `len` bytes of registers, all zero; `len` is a multiple of the page size.
    pub fn new(len: u32) -> io::Result<BarPages> {
        let file = memfd_create("ixora-bar0", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, u64::from(len))?;
        // A client that could shrink it would end us with SIGBUS.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = Mapping::of_file(file.as_fd(), 0, u64::from(len), Access::BOTH, Trust::Hostile)?;
        let base = mapping.base().cast_const().cast();
        Ok(BarPages { base, words: len as usize / 4, _mapping: Arc::new(mapping), file: Arc::new(file) })
    }

    /// The file, to hand to a client.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Zeroes `len` bytes from `offset`: reset.
    pub fn clear(&self, offset: u32, len: u32) {
        for at in (offset..offset.saturating_add(len)).step_by(4) {
            model::Pages::store(self, at, 0);
        }
    }

    /// Stores a value where another one stands, unless somebody has changed that; whether it did.
    pub fn replace(&self, offset: u32, from: u32, to: u32) -> bool {
        let replaced = |word: &AtomicU32| {
            word.compare_exchange(from.to_le(), to.to_le(), Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        self.word(offset).is_some_and(replaced)
    }

    #[inline(always)]
    fn word(&self, offset: u32) -> Option<&AtomicU32> {
        let index = offset as usize / 4;
        // SAFETY: below `words`, all of it mapped and aligned; an atomic may be
        // changed by others while it is borrowed.
        (index < self.words).then(|| unsafe { &*self.base.add(index) })
    }
}

impl model::Pages for BarPages {
    /// Acquire: descriptors written before the doorbell are seen after it.
    #[inline(always)]
    fn load(&self, offset: u32) -> u32 {
        self.word(offset).map_or(0, |word| u32::from_le(word.load(Ordering::Acquire)))
    }

    /// Release: what the device did before is seen by who reads the register.
    #[inline(always)]
    fn store(&self, offset: u32, v: u32) {
        if let Some(word) = self.word(offset) {
            word.store(v.to_le(), Ordering::Release);
        }
    }
}
