//! Where DMA memory comes from: hugetlbfs, a hugepage memfd, or a plain memfd.
//!
//! Devices behind no IOMMU see physical addresses; only hugepages keep theirs,
//! so those devices get nothing else. A device model in another process needs a
//! file descriptor to share and is content with ordinary pages. Files are
//! unlinked as soon as they are open: nothing is left behind, even by a crash.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{self, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::{Error, Result};

/// Bytes in the hugepages we use.
pub const HUGE_PAGE: usize = 2 << 20;

/// A source of DMA memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backing {
    /// Hugepages when there are some, else plain memory where the devices allow.
    #[default]
    Auto,
    /// A file in a mounted hugetlbfs.
    Hugetlbfs,
    /// An anonymous file of hugepages: needs no mount.
    MemfdHuge,
    /// An anonymous file of ordinary pages: needs nothing at all.
    Memfd,
}

/// How a [`Dma`](crate::Dma) gets its memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Where from.
    pub backing: Backing,
    /// The NUMA node to take it from; `None` leaves it to the kernel.
    pub numa_node: Option<u32>,
}

/// A shared mapping of `len` bytes, and the file behind it.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) ptr: NonNull<u8>,
    pub(crate) len: usize,
    pub(crate) huge: bool,
    file: OwnedFd,
}

// SAFETY: a mapping is an address range valid in the whole process until drop;
// the pointer carries no thread affinity.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives out only the address; access through it is the
// business of the owners of disjoint parts.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `len` zeroed bytes. `huge` asks for memory whose physical
    /// address never changes, and then nothing less will do.
    pub(crate) fn new(options: Options, len: usize, must_be_huge: bool) -> Result<Mapping> {
        let huge_len = len.next_multiple_of(HUGE_PAGE);
        let node = options.numa_node;
        match options.backing {
            Backing::Hugetlbfs => Self::map(hugetlbfs_file()?, huge_len, true, node),
            Backing::MemfdHuge => Self::map(memfd(true)?, huge_len, true, node),
            Backing::Memfd if must_be_huge => {
                Err(Error::NoHugepages(io::Error::other("plain memory was asked for")))
            }
            Backing::Memfd => Self::map(memfd(false)?, len.next_multiple_of(4096), false, node),
            Backing::Auto => {
                let huge = memfd(true).and_then(|f| Self::map(f, huge_len, true, node));
                let huge = huge.or_else(|_| Self::map(hugetlbfs_file()?, huge_len, true, node));
                match huge {
                    Err(Error::System { source, .. }) if must_be_huge => Err(Error::NoHugepages(source)),
                    Err(_) if !must_be_huge => {
                        Self::map(memfd(false)?, len.next_multiple_of(4096), false, node)
                    }
                    other => other,
                }
            }
        }
    }

    fn map(file: OwnedFd, len: usize, huge: bool, numa_node: Option<u32>) -> Result<Mapping> {
        let failed = |doing| move |e: rustix::io::Errno| Error::System { doing, len, source: e.into() };
        fs::ftruncate(&file, len as u64).map_err(failed("reserve"))?;
        // Sealed, so that a peer that maps the file cannot be faulted by us
        // shrinking it. Files of a mounted hugetlbfs know no seals.
        let _ = fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW);
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing.
        let ptr = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .map_err(failed("map"))?;
        let ptr = NonNull::new(ptr.cast()).expect("mmap never returns null on success");
        let mapping = Mapping { ptr, len, huge, file };
        if let Some(node) = numa_node {
            bind_to_node(&mapping, node)?;
        }
        // Touch every page now: no fault later on the packet path, and a
        // hugepage shortage shows here instead of as SIGBUS there.
        // SAFETY: the range is the mapping just made.
        unsafe { rustix::mm::madvise(ptr.as_ptr().cast(), len, rustix::mm::Advice::LinuxPopulateWrite) }
            .map_err(failed("populate"))?;
        Ok(mapping)
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` and every user of it held a
        // reference to this mapping, so none is left.
        let unmapped = unsafe { rustix::mm::munmap(self.ptr.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

fn memfd(huge: bool) -> Result<OwnedFd> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    }
    fs::memfd_create(c"ixora-dma", flags).map_err(|e| Error::System {
        doing: "create a file for",
        len: 0,
        source: e.into(),
    })
}

fn hugetlbfs_file() -> Result<OwnedFd> {
    static SEQUENCE: AtomicU32 = AtomicU32::new(0);
    let mounts = std::fs::read_to_string("/proc/mounts").map_err(|_| Error::NoHugetlbfs)?;
    let directory = hugetlbfs_mount(&mounts).ok_or(Error::NoHugetlbfs)?;
    let n = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let path = format!("{directory}/ixora-{}-{n}", std::process::id());
    let failed = |e: rustix::io::Errno| Error::NoHugepages(e.into());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    fs::unlink(&path).map_err(failed)?;
    Ok(file)
}

/// The mount point of the first hugetlbfs with 2 MiB pages in a mount table.
pub fn hugetlbfs_mount(mounts: &str) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_, directory, kind, options) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let two_mib = !options.contains("pagesize=") || options.contains("pagesize=2M");
        (kind == "hugetlbfs" && two_mib).then_some(directory)
    })
}

/// Binds a mapping's future pages to one NUMA node (`mbind(2)`, MPOL_BIND).
fn bind_to_node(mapping: &Mapping, node: u32) -> Result<()> {
    const MPOL_BIND: libc::c_ulong = 2;
    let mask: [libc::c_ulong; 16] =
        std::array::from_fn(|word| if node as usize / 64 == word { 1 << (node % 64) } else { 0 });
    // SAFETY: the range is ours, the mask is 1,024 bits long as stated (the
    // kernel wants one more than the highest bit), and the call moves nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            mapping.ptr.as_ptr(),
            mapping.len,
            MPOL_BIND,
            mask.as_ptr(),
            1025usize,
            0usize,
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(Error::System {
        doing: "bind to the NUMA node",
        len: mapping.len,
        source: io::Error::last_os_error(),
    })
}
