//! Memory that a device may reach. Making a [`DmaRange`] is unsafe, using one is
//! not: who makes it vouches for what every backend then relies on.

use std::os::fd::BorrowedFd;

/// Memory offered to a device for DMA.
#[derive(Clone, Copy, Debug)]
pub struct DmaRange<'a> {
    addr: *mut u8,
    len: usize,
    iova: u64,
    file: Option<(BorrowedFd<'a>, u64)>,
}

impl<'a> DmaRange<'a> {
    /// `len` bytes at `addr`, a multiple of the page size, which the device sees
    /// at `iova`; and the file behind them with the offset where they begin, in
    /// bytes, which a device in another process needs.
    ///
    /// # Safety
    /// `addr..addr + len` must be mapped readable and writable, outside of any
    /// Rust object, because devices write there when they like; and stay so until
    /// every backend that was given the range has had it unmapped or is dropped.
    pub unsafe fn new(
        addr: *mut u8,
        len: usize,
        iova: u64,
        file: Option<(BorrowedFd<'a>, u64)>,
    ) -> DmaRange<'a> {
        DmaRange { addr, len, iova, file }
    }

    /// Where this process sees the range.
    pub fn addr(&self) -> *mut u8 {
        self.addr
    }

    /// Length in bytes, a multiple of the page size.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the device sees the range.
    pub fn iova(&self) -> u64 {
        self.iova
    }

    /// The file behind the memory.
    pub fn fd(&self) -> Option<BorrowedFd<'a>> {
        self.file.map(|(fd, _)| fd)
    }

    /// Where in that file the range begins, in bytes.
    pub fn fd_offset(&self) -> u64 {
        self.file.map_or(0, |(_, offset)| offset)
    }
}
