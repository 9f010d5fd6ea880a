//! Whether a file that another process shares, or is given, can be made shorter.
//!
//! Memory of a file that shrinks is gone for all who mapped it: touching it ends a
//! process with SIGBUS. A memfd that was made with `MFD_ALLOW_SEALING` can be sealed
//! against that (fcntl(2), `F_SEAL_SHRINK`), by whoever has it. QEMU's
//! memory-backend-memfd and our own memory are so. DPDK's memory is not (memfds without
//! seals, or files of hugetlbfs), nor is what lies in `/dev/shm`.

use std::os::fd::AsFd;

use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals};

/// How much the other process is trusted not to shrink files that both map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// It may crash or send nonsense, but does not shrink them. One that does so all the same
    /// loses its connection ([`sigbus`](crate::sigbus)).
    Peer,
    /// A file that cannot be sealed against shrinking is refused.
    #[default]
    Hostile,
}

/// Why a file is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsealed {
    /// A pipe, a socket, a directory, a device, or a file on a disk or of a FUSE server,
    /// whose pages another process gives when it likes.
    #[error("it is not memory: no memfd, and on neither tmpfs nor hugetlbfs")]
    NotMemory,
    /// A memfd without `MFD_ALLOW_SEALING`, or a file of tmpfs or hugetlbfs.
    #[error("it cannot be sealed against shrinking")]
    Shrinks,
}

/// Seals a file against shrinking, if it is not sealed yet. Its size can be looked at
/// afterwards, not before.
///
/// # Errors
/// [`Unsealed::NotMemory`] always, [`Unsealed::Shrinks`] unless the peer is trusted.
pub fn seal(file: impl AsFd, trust: Trust) -> Result<(), Unsealed> {
    // Only files in memory have seals (fcntl(2)); one that takes none has the seal that
    // says so.
    let seals = fcntl_get_seals(&file).map_err(|_| Unsealed::NotMemory)?;
    let sealed = seals.contains(SealFlags::SHRINK) || fcntl_add_seals(&file, SealFlags::SHRINK).is_ok();
    if sealed || trust == Trust::Peer { Ok(()) } else { Err(Unsealed::Shrinks) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const BOTH: [Trust; 2] = [Trust::Hostile, Trust::Peer];

    fn memfd(flags: MemfdFlags) -> OwnedFd {
        let file = memfd_create("test", flags | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 0x1000).unwrap();
        file
    }

    #[test]
    fn what_can_be_sealed_is() {
        for trust in BOTH {
            let file = memfd(MemfdFlags::ALLOW_SEALING);
            assert_eq!(seal(&file, trust), Ok(()));
            assert!(ftruncate(&file, 0).is_err());
            // Sealed by its owner, who lets nobody add a seal.
            let file = memfd(MemfdFlags::ALLOW_SEALING);
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL).unwrap();
            assert_eq!(seal(&file, trust), Ok(()));
        }
    }

    #[test]
    fn what_cannot_is_for_trusted_peers() {
        let shm = tempfile::tempfile_in("/dev/shm").unwrap();
        for file in [memfd(MemfdFlags::empty()), shm.into()] {
            assert_eq!(BOTH.map(|trust| seal(&file, trust)), [Err(Unsealed::Shrinks), Ok(())]);
        }
    }

    #[test]
    fn what_is_no_memory_is_for_nobody() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let directory = std::fs::File::open("/").unwrap();
        let device = std::fs::File::open("/dev/zero").unwrap();
        let all: [OwnedFd; 5] = [reader, writer, socket.into(), directory.into(), device.into()];
        for file in &all {
            assert_eq!(BOTH.map(|trust| seal(file, trust)), [Err(Unsealed::NotMemory); 2]);
        }
    }
}
