//! Memory that a device may reach. Making a [`DmaRange`] is unsafe, using one is
//! not: who makes it vouches for what every backend then relies on.

use std::os::fd::BorrowedFd;

use crate::seal::{self, Trust};
use crate::sigbus::{self, Registration};
use crate::{Error, Result};

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

    /// Seals the file behind the memory before `peer` gets it, who could make it shorter
    /// under us.
    pub(crate) fn seal(&self, peer: &str, trust: Trust) -> Result<()> {
        let sealed = self.fd().map_or(Ok(()), |file| seal::seal(file, trust));
        sealed.map_err(|unsealed| Error::Setup {
            device: peer.to_owned(),
            what: format!("the other process could take away the packet memory that it is given: {unsealed}"),
            fix: "use --hugepages memfd or none, not a hugetlbfs; or add ,allow-unsealed to the port's name"
                .to_owned(),
        })
    }

    /// Has faults in the memory noted from now on, if there is a file that a peer has or
    /// might have: it may keep the file when it refuses the range or is gone. Dropped
    /// before the memory is.
    pub fn watch(&self) -> Option<Registration> {
        let page = sigbus::page_size(self.fd()?).ok()?;
        // SAFETY: what `new` was promised: the pages are mapped until the range is
        // unmapped, and devices write there what they like, zeros for example.
        Some(unsafe { Registration::new(self.addr, self.len, page) })
    }

    /// Where in that file the range begins, in bytes.
    pub fn fd_offset(&self) -> u64 {
        self.file.map_or(0, |(_, offset)| offset)
    }
}
