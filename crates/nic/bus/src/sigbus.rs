//! Mappings of files whose pages may go away: a fault in one is the end of a connection,
//! not of the process.
//!
//! A page is gone when the file was made shorter ([`seal`](crate::seal) tells where that
//! is possible), or when it was punched out of the file and the kernel has none left for
//! it: a sealed memfd of ordinary pages then reads as zeros, one of hugepages or a sparse
//! file of a full tmpfs has no page to give. The kernel tells who touches it by SIGBUS
//! (sigaction(2), `BUS_ADRERR`).
//!
//! The handler lays zeroed memory of our own over the whole mapping, notes that it is
//! lost, and the access is made again. It calls mmap(2) only, takes no lock and allocates
//! nothing: the table is blocks of atomic words that are never freed. The whole mapping,
//! because a connection that lost a page is at its end, and hugepages cannot be replaced
//! in part. A SIGBUS elsewhere goes to the handler that was there before.

use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{FsWord, fstatfs};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Mappings in a block of the table.
const SLOTS: usize = 64;
/// Bytes of the smallest page.
const PAGE: usize = 4096;
/// The type of a hugetlbfs (`HUGETLBFS_MAGIC` of linux/magic.h).
const HUGETLBFS: FsWord = 0x9584_58F6;
/// The largest page that is taken to exist: 16 GiB, POWER's.
const LARGEST_PAGE: usize = 16 << 30;

/// A mapping, as the handler sees it. `begin` is zero where there is none.
struct Slot {
    begin: AtomicUsize,
    end: AtomicUsize,
    /// Bytes of its pages.
    page: AtomicUsize,
    /// Which registration this is; numbers are not used again.
    number: AtomicU64,
    /// The number of the last registration that lost its pages.
    lost: AtomicU64,
}

struct Block {
    slots: [Slot; SLOTS],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn new() -> Block {
        let slots = [const {
            Slot {
                begin: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                page: AtomicUsize::new(PAGE),
                number: AtomicU64::new(0),
                lost: AtomicU64::new(0),
            }
        }; SLOTS];
        Block { slots, next: AtomicPtr::new(ptr::null_mut()) }
    }

    fn next(&self) -> Option<&'static Block> {
        // SAFETY: null, or a block that was leaked.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }
}

static TABLE: Block = Block::new();
static NUMBERS: AtomicU64 = AtomicU64::new(0);
/// Mappings that were lost so far.
static LOSSES: AtomicU64 = AtomicU64::new(0);
/// What was done at SIGBUS before the handler was installed.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();
/// The slots that are free, once the handler is installed.
static FREE: Mutex<Option<Vec<&'static Slot>>> = Mutex::new(None);

/// How many mappings of this process were lost so far: where it has not changed, none
/// was.
pub fn losses() -> u64 {
    LOSSES.load(Ordering::Acquire)
}

/// Whether a registration watches an address: for tests.
#[doc(hidden)]
pub fn is_watched(address: usize) -> bool {
    std::iter::successors(Some(&TABLE), |block| block.next()).flat_map(|block| &block.slots).any(|slot| {
        let begin = slot.begin.load(Ordering::Acquire);
        begin != 0 && (begin..slot.end.load(Ordering::Acquire)).contains(&address)
    })
}

/// The size in bytes of the pieces in which a file is mapped; the file is memory.
///
/// # Errors
/// What fstatfs(2) says; `EINVAL` for a size that no page has.
pub fn page_size(file: impl AsFd) -> rustix::io::Result<usize> {
    let system = fstatfs(file)?;
    // A tmpfs with large pages (`huge=`) is mapped in small ones, whatever it says of its
    // blocks.
    let size = match system.f_type {
        HUGETLBFS => usize::try_from(system.f_bsize).unwrap_or(0),
        _ => rustix::param::page_size(),
    };
    let known = (PAGE..=LARGEST_PAGE).contains(&size) && size.is_power_of_two();
    if known { Ok(size) } else { Err(Errno::INVAL) }
}

/// How many pages this thread did not find when it touched them (getrusage(2)). One that is
/// found later makes it wait: while a peer punches a hole into a file, for as long as that
/// takes.
pub fn page_faults() -> u64 {
    // SAFETY: the structure is plain data, zero is a value of it, and the call fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_minflt.wrapping_add(usage.ru_majflt) as u64
}

/// A mapping that is watched until this is dropped.
#[derive(Debug)]
pub struct Registration {
    slot: &'static Slot,
    number: u64,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |word: &AtomicUsize| word.load(Ordering::Relaxed);
        write!(f, "{:#x}..{:#x}", at(&self.begin), at(&self.end))
    }
}

impl Registration {
    /// Watches the pages of size `page` that hold `base..base + len`.
    ///
    /// # Safety
    /// These pages must be a mapping of the caller's that stays until this is dropped, and
    /// outside of any Rust object, since they are replaced by zeroed private ones at a
    /// fault; nobody may touch them afterwards.
    pub unsafe fn new(base: *mut u8, len: usize, page: usize) -> Registration {
        let begin = base as usize & !(page - 1);
        let end = (base as usize + len).next_multiple_of(page);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
        let slot = take_slot();
        // `begin` last: before it, the handler passes the slot over.
        slot.number.store(number, Ordering::Relaxed);
        slot.end.store(end, Ordering::Relaxed);
        slot.page.store(page, Ordering::Relaxed);
        slot.begin.store(begin, Ordering::Release);
        Registration { slot, number }
    }

    /// Whether pages were lost, so that it is memory of this process alone since.
    pub fn is_lost(&self) -> bool {
        self.slot.lost.load(Ordering::Acquire) == self.number
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.slot.begin.store(0, Ordering::Release);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.get_or_insert_default().push(self.slot);
    }
}

fn take_slot() -> &'static Slot {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let free = free.get_or_insert_with(|| {
        install();
        TABLE.slots.iter().collect()
    });
    free.pop().unwrap_or_else(|| {
        let block: &'static Block = Box::leak(Box::new(Block::new()));
        let mut last = &TABLE;
        while let Some(next) = last.next() {
            last = next;
        }
        // Release: who finds the block finds it made.
        last.next.store(ptr::from_ref(block).cast_mut(), Ordering::Release);
        free.extend(&block.slots[1..]);
        &block.slots[0]
    })
}

/// Installs the handler, once.
fn install() {
    // SAFETY: the structures are plain data, zero is a value of them. The first call only
    // asks; what it says is kept before the handler can run.
    unsafe {
        let mut former: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut former) == 0 {
            let _ = FORMER.set(former);
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
        action.sa_sigaction = handler as usize;
        // On the thread's own stack for signals, where it has one.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes what it says it does (`SA_SIGINFO`).
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Another code is a broken memory module, or somebody's kill(2) without an address.
    if code != libc::BUS_ADRERR || !replace(address) {
        pass_on(signal, info, context);
    }
}

/// Replaces the mapping that `address` lies in; whether there is one.
fn replace(address: usize) -> bool {
    let mut found = None;
    let mut next = Some(&TABLE);
    while let Some(block) = next {
        for slot in &block.slots {
            let begin = slot.begin.load(Ordering::Acquire);
            let (end, number) = (slot.end.load(Ordering::Acquire), slot.number.load(Ordering::Acquire));
            let page = slot.page.load(Ordering::Acquire);
            // Once more: the slot may have been given to another mapping in between.
            if begin != 0 && (begin..end).contains(&address) && slot.begin.load(Ordering::Acquire) == begin {
                found = Some((begin, end, page));
                slot.lost.fetch_max(number, Ordering::AcqRel);
            }
        }
        next = block.next();
    }
    let Some((begin, end, page)) = found else { return false };
    // A kernel that reserves what it maps (`vm.overcommit_memory=2`) may have room for the
    // page alone.
    let touched = address & !(page - 1);
    let is_replaced = lay_zeros(begin, end - begin) || lay_zeros(touched, page);
    LOSSES.fetch_add(1, Ordering::Release);
    is_replaced
}

/// Lays zeroed memory over pages of a mapping that was found in the table; whether there was
/// any.
fn lay_zeros(begin: usize, len: usize) -> bool {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: whoever registered these pages said that they may be replaced so. Who
    // touches them is where the signal came from, so that they are registered still.
    let mapped = unsafe {
        mmap_anonymous(ptr::with_exposed_provenance_mut(begin), len, access, flags | MapFlags::FIXED)
    };
    mapped.is_ok()
}

/// Does what was done before there was a handler.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    let former = FORMER.get().filter(|former| ![libc::SIG_DFL, libc::SIG_IGN].contains(&former.sa_sigaction));
    if let Some(former) = former {
        // SAFETY: the address of a handler that sigaction(2) gave; one without
        // `SA_SIGINFO` does not look at the two arguments more.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(former.sa_sigaction) };
        return handler(signal, info, context);
    }
    // SAFETY: zeros are `SIG_DFL`. The signal comes again when this returns, and ends the
    // process as if there had been no handler.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, ptr::null_mut());
        libc::raise(signal);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;

    use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

    use super::*;
    use crate::seal::{Trust, seal};
    use crate::{Error, Mapping};

    const LEN: usize = 4 * PAGE;

    fn memfd(flags: MemfdFlags, len: usize) -> File {
        let file = File::from(memfd_create("test", flags | MemfdFlags::CLOEXEC).unwrap());
        file.set_len(len as u64).unwrap();
        file
    }

    fn read(mapping: &Mapping, at: usize) -> u8 {
        assert!(at < mapping.len());
        // SAFETY: inside of the mapping.
        unsafe { mapping.base().add(at).read_volatile() }
    }

    fn write(mapping: &Mapping, at: usize, value: u8) {
        assert!(at < mapping.len());
        // SAFETY: inside of the mapping.
        unsafe { mapping.base().add(at).write_volatile(value) };
    }

    #[test]
    fn a_page_that_is_gone_is_zeros_and_the_mapping_lost() {
        let files = [0; 3].map(|_| memfd(MemfdFlags::empty(), LEN));
        let [first, second, other] = &files.each_ref().map(|file| Mapping::of_peer(file, 0, LEN).unwrap());
        for (mapping, file) in [(first, &files[0]), (second, &files[1])] {
            write(mapping, PAGE, 7);
            file.set_len(PAGE as u64).unwrap();
            assert!(!mapping.is_lost(), "nobody touched it");
            let before = losses();
            assert_eq!(read(mapping, PAGE), 0);
            assert!(mapping.is_lost() && losses() > before);
            write(mapping, LEN - 1, 9);
            assert_eq!((read(mapping, LEN - 1), read(mapping, 0)), (9, 0), "memory of our own");
        }
        write(other, 0, 1);
        assert!(!other.is_lost());
    }

    #[test]
    fn a_slot_is_used_again_and_forgets() {
        for _ in 0..3 * SLOTS {
            let file = memfd(MemfdFlags::empty(), LEN);
            let mapping = Mapping::of_peer(&file, 0, LEN).unwrap();
            assert!(!mapping.is_lost());
            file.set_len(0).unwrap();
            assert_eq!(read(&mapping, 0), 0);
            assert!(mapping.is_lost());
        }
    }

    #[test]
    fn many_mappings_are_watched_and_threads_lose_one_at_a_time() {
        let file = memfd(MemfdFlags::empty(), LEN);
        let whole: Vec<_> = (0..5 * SLOTS).map(|_| Mapping::of_peer(&file, 0, LEN).unwrap()).collect();
        file.set_len(0).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| whole.iter().for_each(|mapping| assert_eq!(read(mapping, 2 * PAGE), 0)));
            }
        });
        assert!(whole.iter().all(Mapping::is_lost));
    }

    /// What is punched out of a sealed file of ordinary pages is given anew, as zeros.
    #[test]
    fn a_hole_in_ordinary_memory_loses_nothing() {
        let file = memfd(MemfdFlags::ALLOW_SEALING, LEN);
        seal(&file, Trust::Hostile).unwrap();
        let mapping = Mapping::of_peer(&file, 0, LEN).unwrap();
        (0..LEN).for_each(|at| write(&mapping, at, 1));
        fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, LEN as u64).unwrap();
        assert!((0..LEN).all(|at| read(&mapping, at) == 0));
        write(&mapping, 0, 1);
        assert!(!mapping.is_lost());
    }

    /// A hugepage that is punched out of a sealed file is anybody's, and gone when
    /// another takes it. Passed over where there are no hugepages.
    #[test]
    fn a_hole_in_hugepages_may_be_a_loss() {
        const HUGE: usize = 2 << 20;
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
        let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
        let free: usize = free.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        if !(1..64).contains(&free) {
            println!("passed over: {free} free hugepages");
            return;
        }
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let file = memfd(flags, HUGE);
        seal(&file, Trust::Hostile).unwrap();
        let mapping = Mapping::of_peer(&file, 0, HUGE).unwrap();
        write(&mapping, 0, 1);
        fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, HUGE as u64).unwrap();
        let all = free * HUGE;
        let thief = Mapping::new(memfd(flags, all), 0, all).unwrap();
        (0..free).for_each(|page| write(&thief, page * HUGE, 1));
        assert_eq!(read(&mapping, HUGE - 1), 0);
        assert!(mapping.is_lost());
    }

    #[test]
    fn a_fault_elsewhere_ends_the_process_as_ever() {
        const VARIABLE: &str = "IXORA_FAULT_ELSEWHERE";
        if std::env::var_os(VARIABLE).is_some() {
            let file = memfd(MemfdFlags::empty(), LEN);
            let _watched = Mapping::of_peer(&file, 0, LEN).unwrap();
            let other = Mapping::new(&file, 0, LEN).unwrap();
            file.set_len(0).unwrap();
            read(&other, 0);
            return;
        }
        let name = "sigbus::tests::a_fault_elsewhere_ends_the_process_as_ever";
        let test = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(test);
        let ended = child.args(["--exact", name]).env(VARIABLE, "1").output().unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{ended:?}");
    }

    /// A tmpfs of large pages says that its blocks have 2 MiB, and is mapped in small ones.
    /// Passed over where the kernel has no such mode.
    #[test]
    fn the_pages_of_a_tmpfs_are_the_ones_it_is_mapped_in() {
        let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        let before = mode.unwrap_or_default();
        assert_eq!(page_size(memfd(MemfdFlags::empty(), LEN)), Ok(rustix::param::page_size()), "{before}");
        let folder = tempfile::tempdir().unwrap();
        let (path, mut mount) = (folder.path(), std::process::Command::new("mount"));
        let mounted = mount.args(["-t", "tmpfs", "-o", "huge=always,size=8m", "tmpfs"]).arg(path).output();
        if !mounted.is_ok_and(|done| done.status.success()) {
            println!("passed over: this user or this kernel mounts no tmpfs of large pages");
            return;
        }
        let file = File::options().create_new(true).read(true).write(true).open(path.join("a")).unwrap();
        file.set_len(LEN as u64).unwrap();
        let size = page_size(&file);
        drop(file);
        std::process::Command::new("umount").arg(path).status().unwrap();
        assert_eq!(size, Ok(rustix::param::page_size()));
    }

    #[test]
    fn what_has_no_pages_is_not_mapped() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert!(matches!(Mapping::of_peer(&reader, 0, PAGE), Err(Error::Os { .. })));
    }
}
