//! One of the three areas of a virtqueue in host memory.

use crate::{Dma, Window};

/// Words of an area, at offsets from where it begins. Windows begin at multiples
/// of 8, areas of some kinds at multiples of 2.
#[derive(Debug)]
pub(super) struct Area<W> {
    window: W,
    skew: usize,
}

impl<W: Window> Area<W> {
    /// `len` bytes at `address`, whose alignment the caller has checked.
    pub fn open<D: Dma<Window = W>>(dma: &D, address: u64, len: usize) -> Option<Area<W>> {
        let skew = (address % 8) as usize;
        let whole = (skew + len).next_multiple_of(8);
        let window = dma.window(address - skew as u64, whole as u64)?;
        Some(Area { window, skew })
    }

    /// 8 bytes, of an area that is aligned to 8.
    #[inline(always)]
    pub fn load(&self, offset: usize) -> u64 {
        self.window.load(offset)
    }

    #[inline(always)]
    pub fn load_acquire(&self, offset: usize) -> u64 {
        self.window.load_acquire(offset)
    }

    #[inline(always)]
    pub fn store(&self, offset: usize, value: u64) {
        self.window.store(offset, value);
    }

    #[inline(always)]
    pub fn store_release(&self, offset: usize, value: u64) {
        self.window.store_release(offset, value);
    }

    #[inline(always)]
    pub fn load16(&self, offset: usize) -> u16 {
        self.window.load16(self.skew + offset)
    }

    #[inline(always)]
    pub fn load16_acquire(&self, offset: usize) -> u16 {
        self.window.load16_acquire(self.skew + offset)
    }

    #[inline(always)]
    pub fn load32_acquire(&self, offset: usize) -> u32 {
        self.window.load32_acquire(self.skew + offset)
    }

    #[inline(always)]
    pub fn store16_release(&self, offset: usize, value: u16) {
        self.window.store16_release(self.skew + offset, value);
    }

    #[inline(always)]
    pub fn store32(&self, offset: usize, value: u32) {
        self.window.store32(self.skew + offset, value);
    }
}
