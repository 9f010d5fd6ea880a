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
    /// Which kind of memory is taken.
    pub backing: Backing,
    /// The NUMA node to take it from; `None` leaves it to the kernel.
    pub numa_node: Option<u32>,
}

/// When the kernel provides the pages of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// When it is mapped: no fault later on the packet path.
    Now,
    /// By and by, as [`Mapping::populate`] asks for them.
    Later,
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
    pub(crate) fn new(options: Options, len: usize, must_be_huge: bool, pages: Pages) -> Result<Mapping> {
        let huge_len = len.next_multiple_of(HUGE_PAGE);
        let node = options.numa_node;
        match options.backing {
            Backing::Hugetlbfs => Self::map(hugetlbfs_file()?, huge_len, true, node, pages),
            Backing::MemfdHuge => Self::map(memfd(true)?, huge_len, true, node, pages),
            Backing::Memfd if must_be_huge => {
                Err(Error::NoHugepages(io::Error::other("plain memory was asked for")))
            }
            Backing::Memfd => Self::map(memfd(false)?, len.next_multiple_of(4096), false, node, pages),
            Backing::Auto => {
                let huge = memfd(true).and_then(|f| Self::map(f, huge_len, true, node, pages));
                let huge = huge.or_else(|_| Self::map(hugetlbfs_file()?, huge_len, true, node, pages));
                match huge {
                    Err(Error::System { source, .. }) if must_be_huge => Err(Error::NoHugepages(source)),
                    Err(_) if !must_be_huge => {
                        Self::map(memfd(false)?, len.next_multiple_of(4096), false, node, pages)
                    }
                    other => other,
                }
            }
        }
    }

    #[cfg(not(miri))]
    fn map(file: OwnedFd, len: usize, huge: bool, node: Option<u32>, pages: Pages) -> Result<Mapping> {
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
        if let Some(node) = node {
            bind_to_node(ptr, len, node)?;
        }
        // The kernel sets hugepages aside when they are mapped, but not on a node: whether that
        // has enough of them is known once they are there.
        if pages == Pages::Now || huge && node.is_some() {
            mapping.populate(0, len)?;
        }
        Ok(mapping)
    }

    /// Has the kernel provide the pages of `len` bytes from `start` on, all in the mapping: no fault
    /// later on the packet path, and a shortage shows here instead of as SIGBUS there.
    #[cfg(not(miri))]
    pub(crate) fn populate(&self, start: usize, len: usize) -> Result<()> {
        let page = if self.huge { HUGE_PAGE } else { 4096 };
        let end = (start + len).next_multiple_of(page);
        assert!(end <= self.len, "{len} bytes from {start} on in {} bytes", self.len);
        let start = start / page * page;
        let (first, len) = (self.ptr.as_ptr().wrapping_add(start), end - start);
        // SAFETY: the range is in the mapping, as was just seen, and its bytes stay what they are.
        unsafe { rustix::mm::madvise(first.cast(), len, rustix::mm::Advice::LinuxPopulateWrite) }
            .map_err(|e| Error::System { doing: "populate", len, source: e.into() })
    }

    /// Private memory has its pages when they are touched.
    #[cfg(miri)]
    pub(crate) fn populate(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }

    /// Private memory: the interpreter has none that a file shares.
    #[cfg(miri)]
    fn map(file: OwnedFd, len: usize, huge: bool, _: Option<u32>, _: Pages) -> Result<Mapping> {
        let ptr = private(len).map_err(|e| Error::System { doing: "map", len, source: e.into() })?;
        Ok(Mapping { ptr, len, huge, file })
    }

    /// Memory of a file that anybody who has it may shorten, as hugetlbfs gives it.
    #[cfg(test)]
    pub(crate) fn unsealed(len: usize) -> Mapping {
        let file = fs::memfd_create(c"unsealed", MemfdFlags::CLOEXEC).expect("a file");
        Mapping::map(file, len, true, None, Pages::Now).expect("memory")
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

/// Maps `len` zeroed bytes that this process alone has.
pub(crate) fn private(len: usize) -> rustix::io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address the kernel chooses aliases nothing.
    let ptr = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE) }?;
    Ok(NonNull::new(ptr.cast()).expect("mmap never returns null on success"))
}

/// Any file: the interpreter has none in memory.
#[cfg(miri)]
fn memfd(_: bool) -> Result<OwnedFd> {
    let file = std::fs::File::open("/dev/null").map_err(Error::NoHugepages)?;
    Ok(file.into())
}

#[cfg(not(miri))]
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
    let mounts = std::fs::read_to_string("/proc/mounts").map_err(|_| Error::NoHugetlbfs)?;
    unlinked_file(hugetlbfs_mount(&mounts).ok_or(Error::NoHugetlbfs)?)
}

/// A file in a directory that nobody else has, and that has no name any more.
fn unlinked_file(directory: &str) -> Result<OwnedFd> {
    static SEQUENCE: AtomicU32 = AtomicU32::new(0);
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

/// A set of 1,024 nodes with one in it; with none, where there is no such node.
fn node_mask(node: u32) -> [libc::c_ulong; 16] {
    std::array::from_fn(|word| if node as usize / 64 == word { 1 << (node % 64) } else { 0 })
}

/// Binds a mapping's future pages to one NUMA node (`mbind(2)`, MPOL_BIND).
pub(crate) fn bind_to_node(ptr: NonNull<u8>, len: usize, node: u32) -> Result<()> {
    const MPOL_BIND: libc::c_ulong = 2;
    let mask = node_mask(node);
    // SAFETY: the range is ours, the mask is 1,024 bits long as stated (the
    // kernel wants one more than the highest bit), and the call moves nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, ptr.as_ptr(), len, MPOL_BIND, mask.as_ptr(), 1025usize, 0usize)
    };
    if result == 0 {
        return Ok(());
    }
    Err(Error::System { doing: "bind to the NUMA node", len, source: io::Error::last_os_error() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, fstat, fstatfs};
    use rustix::io::{FdFlags, fcntl_getfd};

    const PLAIN: Options = Options { backing: Backing::Memfd, numa_node: None };

    #[test]
    fn memory_of_hugepages_is_made_of_them_and_plain_memory_is_not() {
        // A file of hugepages can be made where none are free.
        for (huge, page) in [(true, HUGE_PAGE as u64), (false, 4096)] {
            let file = memfd(huge).expect("a file");
            assert_eq!(fstatfs(&file).expect("a file system").f_bsize as u64, page);
            assert!(fcntl_getfd(&file).expect("flags").contains(FdFlags::CLOEXEC));
            fs::fcntl_add_seals(&file, SealFlags::SHRINK).expect("it takes seals");
        }
        assert_eq!(HUGE_PAGE, 2 * 1024 * 1024);
    }

    #[test]
    fn what_is_mapped_is_zero_shared_and_cannot_shrink_or_grow() {
        let mapping = Mapping::new(PLAIN, 5000, false, Pages::Now).expect("memory");
        assert_eq!((mapping.len, mapping.huge), (8192, false));
        assert_eq!(fstat(mapping.file()).expect("a file").st_size, 8192);
        // SAFETY: a byte of the mapping, which nobody else knows.
        let last = unsafe { &mut *mapping.ptr.as_ptr().add(8191) };
        assert_eq!(*last, 0);
        *last = 7;
        let mut read = [0];
        rustix::io::pread(mapping.file(), &mut read[..], 8191).expect("readable");
        assert_eq!(read, [7], "what is written is in the file that a peer maps");
        for len in [4096, 12_288] {
            assert_eq!(fs::ftruncate(mapping.file(), len), Err(rustix::io::Errno::PERM));
        }
    }

    #[test]
    fn pages_that_come_later_are_there_when_asked_for_and_no_others() {
        let mapping = Mapping::new(PLAIN, 64 << 12, false, Pages::Later).expect("memory");
        let pages = || fstat(mapping.file()).expect("a file").st_blocks / 8;
        assert_eq!(pages(), 0);
        mapping.populate(5000, 1).expect("memory");
        assert_eq!(pages(), 1);
        mapping.populate(4095, 8194).expect("memory");
        assert_eq!(pages(), 4, "from the first byte's page to the last one's");
        mapping.populate(0, 64 << 12).expect("memory");
        assert_eq!(pages(), 64);
        let now = Mapping::new(PLAIN, 64 << 12, false, Pages::Now).expect("memory");
        assert_eq!(fstat(now.file()).expect("a file").st_blocks / 8, 64);
    }

    #[test]
    fn a_mapping_is_unmapped_when_it_goes() {
        let is_mapped = |start: usize| {
            let maps = std::fs::read_to_string("/proc/self/maps").expect("a map");
            maps.lines().any(|line| line.starts_with(&format!("{start:x}-")) && line.contains("ixora-dma"))
        };
        // Of a size that no other test maps, so that nothing takes the place meanwhile.
        let mapping = Mapping::new(PLAIN, 37 * 4096, false, Pages::Now).expect("memory");
        let start = mapping.ptr.addr().get();
        let own = fstat(mapping.file()).expect("a file").st_ino.to_string();
        assert!(is_mapped(start));
        drop(mapping);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a map");
        assert!(!maps.lines().any(|line| line.split_whitespace().nth(4) == Some(&own)), "{maps}");
    }

    #[test]
    fn a_file_of_a_directory_has_no_name_and_one_owner() {
        let folder = std::env::temp_dir();
        let folder = folder.to_str().expect("a name");
        for _ in 0..2 {
            let file = unlinked_file(folder).expect("each has a name of its own");
            let stat = fstat(&file).expect("a file");
            assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile);
            assert_eq!((stat.st_nlink, stat.st_mode & 0o777), (0, 0o600));
            assert!(fcntl_getfd(&file).expect("flags").contains(FdFlags::CLOEXEC));
            assert_eq!(rustix::io::pwrite(&file, &[1, 2], 0), Ok(2));
            assert_eq!(rustix::io::pread(&file, &mut [0; 4][..], 0), Ok(2));
        }
        assert!(matches!(unlinked_file("/proc/none"), Err(Error::NoHugepages(_))));
    }

    #[test]
    fn the_mount_of_2_mib_pages_is_found() {
        let table = |options: &str| format!("proc /proc proc rw 0 0\nnodev /huge hugetlbfs {options} 0 0\n");
        for options in ["rw,relatime", "rw,relatime,pagesize=2M"] {
            assert_eq!(hugetlbfs_mount(&table(options)), Some("/huge"), "{options}");
        }
        let both = table("rw,pagesize=1024M") + "nodev /small hugetlbfs rw,pagesize=2M 0 0\n";
        assert_eq!(hugetlbfs_mount(&both), Some("/small"));
        assert_eq!(hugetlbfs_mount(&table("rw,pagesize=1024M")), None);
        assert_eq!(hugetlbfs_mount("tmpfs /tmp tmpfs rw,pagesize=2M 0 0\nshort"), None);
    }

    #[test]
    fn memory_is_bound_to_the_node_that_was_asked_for() {
        let bits = |node| node_mask(node).map(u64::count_ones).iter().sum::<u32>();
        for (node, word) in [(0, 0), (5, 0), (63, 0), (64, 1), (130, 2), (1023, 15)] {
            assert_eq!((node_mask(node)[word], bits(node)), (1 << (node % 64), 1), "node {node}");
        }
        assert_eq!(bits(1024), 0);
        let bound = |node| Mapping::new(Options { numa_node: Some(node), ..PLAIN }, 4096, false, Pages::Now);
        // Where the kernel knows nodes there is node 0, and no machine has the last one.
        if std::path::Path::new("/sys/devices/system/node/node0").exists() {
            assert_eq!(bound(0).expect("node 0").len, 4096);
        }
        let error = bound(1023).expect_err("no such node").to_string();
        assert!(error.contains("bind to the NUMA node 4096 bytes"), "{error}");
    }

    #[test]
    fn each_backing_gives_what_it_says_or_an_error_that_says_why() {
        for must_be_huge in [false, true] {
            let auto = Mapping::new(Options::default(), 4096, must_be_huge, Pages::Now);
            match auto {
                Ok(mapping) => assert!(mapping.huge || !must_be_huge),
                Err(error) => {
                    assert!(must_be_huge, "{error}");
                    assert!(matches!(error, Error::NoHugepages(_) | Error::NoHugetlbfs), "{error}");
                }
            }
            match Mapping::new(
                Options { backing: Backing::MemfdHuge, ..PLAIN },
                4096,
                must_be_huge,
                Pages::Now,
            ) {
                Ok(mapping) => assert_eq!((mapping.len, mapping.huge), (HUGE_PAGE, true)),
                Err(error) => assert!(matches!(error, Error::System { .. }), "{error}"),
            }
        }
        assert!(matches!(Mapping::new(PLAIN, 4096, true, Pages::Now), Err(Error::NoHugepages(_))));
    }
}
