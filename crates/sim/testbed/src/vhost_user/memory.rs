//! The front end's memory: told of by guest physical address, and rings by the
//! addresses that the front end itself sees.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use crate::serve::named;
use crate::view::{Access, View};

/// Most regions; QEMU's machines have up to 8, or 32 with slots.
pub(super) const MAX_REGIONS: usize = 32;

/// One region, as a message describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub guest: u64,
    pub len: u64,
    pub user: u64,
    pub offset: u64,
}

/// The regions that are mapped.
#[derive(Debug, Default)]
pub(super) struct Memory(Vec<Region>);

impl Memory {
    /// Maps a region into the device's view.
    ///
    /// # Errors
    /// What [`View::map`] says; `EINVAL` for user addresses that overlap or
    /// wrap; `ENOSPC` for too many.
    pub fn add(&mut self, view: &View, region: Region, file: File) -> io::Result<()> {
        let end = region.user.checked_add(region.len).ok_or(Errno::INVAL)?;
        if self.0.iter().any(|other| region.user < other.user + other.len && other.user < end) {
            return Err(Errno::INVAL.into());
        }
        if self.0.len() >= MAX_REGIONS {
            return Err(Errno::NOSPC.into());
        }
        view.map(region.guest, region.len, file.into(), region.offset, Access::BOTH).map_err(named)?;
        self.0.push(region);
        Ok(())
    }

    /// Takes a region back.
    ///
    /// # Errors
    /// `ENOENT` if there is none such.
    pub fn remove(&mut self, view: &View, region: Region) -> io::Result<()> {
        let same =
            |other: &Region| (other.guest, other.user, other.len) == (region.guest, region.user, region.len);
        let at = self.0.iter().position(same).ok_or(Errno::NOENT)?;
        self.0.remove(at);
        view.unmap(region.guest, region.len)
    }

    /// Takes everything back.
    pub fn clear(&mut self, view: &View) {
        self.0.clear();
        view.clear();
    }

    /// The guest physical address of what the front end sees at `user`.
    pub fn guest(&self, user: u64) -> Option<u64> {
        let inside = |region: &&Region| user.checked_sub(region.user).is_some_and(|at| at < region.len);
        self.0.iter().find(inside).map(|region| region.guest + (user - region.user))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::view::Trust;

    fn file() -> File {
        let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 0x4000).unwrap();
        fd.into()
    }

    #[test]
    fn addresses_are_translated_and_overlaps_refused() {
        let (view, mut memory) = (View::new(Trust::Hostile), Memory::default());
        let region = Region { guest: 0x10_0000, len: 0x2000, user: 0x7000_0000, offset: 0x1000 };
        memory.add(&view, region, file()).unwrap();
        assert_eq!(memory.guest(0x7000_1FFF), Some(0x10_1FFF));
        assert_eq!((memory.guest(0x7000_2000), memory.guest(0x6FFF_FFFF)), (None, None));
        let overlaps = Region { guest: 0x20_0000, user: 0x7000_1000, ..region };
        assert!(memory.add(&view, overlaps, file()).is_err(), "user addresses");
        assert!(
            memory.add(&view, Region { user: 0x8000_0000, ..region }, file()).is_err(),
            "guest addresses"
        );
        let wraps = Region { guest: 0, user: u64::MAX - 0xFFF, ..region };
        assert!(memory.add(&view, wraps, file()).is_err());
        let short = Region { guest: 0, user: 0, offset: 0x3000, len: 0x2000 };
        assert!(memory.add(&view, short, file()).is_err(), "beyond the file's end");
        assert!(memory.remove(&view, Region { len: 0x1000, ..region }).is_err());
        memory.remove(&view, region).unwrap();
        assert_eq!((view.mapped(), memory.guest(0x7000_0000)), ((0, 0), None));
    }
}
