//! The memory that the back end is told of: a file, where in it, where we see
//! it and the guest physical address, which is our IOVA.
//!
//! Regions are not merged: each chunk of crate `memory` is a file of its own,
//! and a region lies in one file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::message::Message;
use crate::sigbus::Registration;
use crate::{DmaRange, Error, Result, Trust};

/// Most regions where the back end does not take them one by one
/// (`SET_MEM_TABLE`).
pub const MAX_REGIONS: usize = super::message::MAX_FDS;

/// One region of the front end's memory.
#[derive(Debug)]
pub(super) struct Region {
    file: OwnedFd,
    offset: u64,
    addr: u64,
    len: u64,
    iova: u64,
    registration: Option<Registration>,
    /// The back end has it, where it takes regions one by one.
    pub(super) told: bool,
}

impl Region {
    pub(super) fn new(range: &DmaRange<'_>, peer: &str, trust: Trust) -> Result<Region> {
        range.seal(peer, trust)?;
        let device = || peer.to_owned();
        let file = range.fd().ok_or_else(|| Error::Unsupported {
            device: device(),
            what: "reach memory that has no file",
            fix: "allocate it through memory::Dma",
        })?;
        let file = file
            .try_clone_to_owned()
            .map_err(|error| Error::os(format!("{peer}: keeping the file of a region"), error))?;
        let (addr, len) = (range.addr().addr() as u64, range.len() as u64);
        let (offset, iova) = (range.fd_offset(), range.iova());
        Ok(Region { file, offset, addr, len, iova, registration: range.watch(), told: false })
    }

    /// Whether the back end took pages of it away.
    pub(super) fn is_lost(&self) -> bool {
        self.registration.as_ref().is_some_and(Registration::is_lost)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The four fields of the region's description.
    pub(super) fn describe(&self, message: Message) -> Message {
        message.u64(self.iova).u64(self.len).u64(self.addr).u64(self.offset)
    }
}

/// All regions, in the order they came.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Region>);

impl Table {
    pub(super) fn push(&mut self, region: Region) {
        self.0.push(region);
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Region> {
        self.0.last_mut()
    }

    /// Those that the back end has not been told of one by one.
    pub(super) fn untold_mut(&mut self) -> impl Iterator<Item = &mut Region> {
        self.0.iter_mut().filter(|region| !region.told)
    }

    pub(super) fn regions(&self) -> &[Region] {
        &self.0
    }

    /// Takes out what lies within `iova..iova + len`.
    pub(super) fn remove(&mut self, iova: u64, len: u64) -> Vec<Region> {
        self.0.extract_if(.., |region| region.iova.checked_sub(iova).is_some_and(|at| at < len)).collect()
    }

    /// Takes back the region pushed last.
    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// Where this process sees `iova`.
    pub(super) fn address(&self, iova: u64) -> Option<u64> {
        let inside = |region: &&Region| iova.checked_sub(region.iova).is_some_and(|at| at < region.len);
        self.0.iter().find(inside).map(|region| region.addr + (iova - region.iova))
    }
}
