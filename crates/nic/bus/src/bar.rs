//! Register windows (PCI 3.0, section 6.2.5): little-endian registers reached
//! by volatile access where the page is mapped, else through the backend.
//!
//! An access that cannot be made reads all ones and writes nothing, as on a
//! bus whose device is gone; it is counted, and never a panic.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::traced::Tracer;
use crate::{Backend, BarLayout, BarMapping};

/// One base address register's window. Clones share it.
#[derive(Clone, Debug)]
pub struct Bar(pub(crate) Arc<Window>);

#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) layout: BarLayout, // first: unmapped before the device goes back
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) index: usize,
    pub(crate) faults: AtomicU64,
    /// Where accesses are told.
    pub(crate) tracer: Option<Tracer>,
}

/// `$read(offset)` and `$write(offset, value)` of one width.
macro_rules! accessors {
    ($($read:ident $write:ident $type:ident)*) => {$(
        #[doc = concat!("Reads a `", stringify!($type), "` at `offset`.")]
        #[inline]
        pub fn $read(&self, offset: u32) -> $type {
            if let Some(pointer) = self.pointer::<$type>(offset) {
                // SAFETY: `pointer` yields mapped, aligned addresses only, and
                // the window keeps them mapped.
                return $type::from_le(unsafe { pointer.read_volatile() });
            }
            let mut data = [0; size_of::<$type>()];
            match self.0.read(offset, &mut data) {
                Ok(()) => $type::from_le_bytes(data),
                Err(_) => { self.fault(); $type::MAX }
            }
        }

        #[doc = concat!("Writes a `", stringify!($type), "` at `offset`.")]
        #[inline]
        pub fn $write(&self, offset: u32, value: $type) {
            if let Some(pointer) = self.pointer::<$type>(offset) {
                // SAFETY: as for reading.
                return unsafe { pointer.write_volatile(value.to_le()) };
            }
            if self.0.write(offset, &value.to_le_bytes()).is_err() {
                self.fault();
            }
        }
    )*};
}

impl Bar {
    pub(crate) fn new(backend: Arc<dyn Backend>, index: usize, layout: BarLayout) -> Bar {
        Bar(Arc::new(Window { backend, index, layout, faults: AtomicU64::new(0), tracer: None }))
    }

    accessors! { read8 write8 u8  read16 write16 u16  read32 write32 u32  read64 write64 u64 }

    /// Size in bytes; a BAR of 4 GiB or more shows its first 4 GiB - 1.
    pub fn len(&self) -> u32 {
        self.0.layout.size.min(u32::MAX.into()) as u32
    }

    /// Sets `bits` of the register at `offset`.
    pub fn set32(&self, offset: u32, bits: u32) {
        self.write32(offset, self.read32(offset) | bits);
    }

    /// Clears `bits` of the register at `offset`.
    pub fn clear32(&self, offset: u32, bits: u32) {
        self.write32(offset, self.read32(offset) & !bits);
    }

    /// The register at `offset`, its pointer worked out once for the hot path.
    pub fn register(&self, offset: u32) -> Register {
        let pointer = self.pointer::<u32>(offset).unwrap_or(ptr::null_mut());
        Register { pointer: NonNull::new(pointer), offset, bar: self.clone() }
    }

    #[inline]
    fn pointer<T>(&self, offset: u32) -> Option<*mut T> {
        let width = size_of::<T>() as u32;
        // Registers are aligned to their size; anything else goes the slow
        // way, where the device may refuse it.
        if !offset.is_multiple_of(width) {
            return None;
        }
        let pointer = |part: &BarMapping| part.pointer(offset, width);
        self.0.layout.mapped.iter().find_map(pointer).map(<*mut u8>::cast)
    }

    #[cold]
    fn fault(&self) {
        self.0.faults.fetch_add(1, Ordering::Relaxed);
    }
}

/// One 32-bit register: a load or a store through a pointer where the page is
/// mapped, else [`Bar::read32`] and [`Bar::write32`].
#[derive(Clone, Debug)]
pub struct Register {
    pointer: Option<NonNull<u32>>,
    offset: u32,
    bar: Bar,
}

// SAFETY: the page stays mapped while `bar` lives, whichever thread looks.
unsafe impl Send for Register {}

impl Register {
    /// One volatile load.
    #[inline(always)]
    pub fn read(&self) -> u32 {
        match self.pointer {
            // SAFETY: mapped and aligned by `Bar::register`, kept so by `bar`.
            Some(pointer) => u32::from_le(unsafe { pointer.read_volatile() }),
            None => self.bar.read32(self.offset),
        }
    }

    /// One volatile store.
    #[inline(always)]
    pub fn write(&self, value: u32) {
        match self.pointer {
            // SAFETY: as for reading.
            Some(pointer) => unsafe { pointer.write_volatile(value.to_le()) },
            None => self.bar.write32(self.offset, value),
        }
    }
}
