use std::os::fd::OwnedFd;

use model::{Dma, Pages, Window as _};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;

fn file(len: u64) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len).unwrap();
    file
}

fn view(iova: u64, len: u64) -> View {
    let view = View::default();
    view.map(iova, len, file(len), 0, Access::BOTH).unwrap();
    view
}

#[test]
fn what_is_written_is_read_for_every_length() {
    let view = view(0x1_0000, 0x1000);
    let data: Vec<u8> = (0..300u32).map(|n| n as u8).collect();
    for len in 0..data.len() {
        assert!(view.write(0x1_0007, &data[..len]));
        let mut back = vec![0xEE; len + 1];
        assert!(view.read(0x1_0007, &mut back[..len]));
        assert_eq!(back[..len], data[..len]);
        assert_eq!(back[len], 0xEE, "one byte too many for {len}");
    }
}

#[test]
fn an_access_outside_is_refused_and_touches_nothing() {
    let view = view(0x1_0000, 0x1000);
    for (iova, len) in [(0xFFFF, 1), (0x1_1000, 1), (0x1_0FFF, 2), (u64::MAX, 1), (0x1_0001, 0x1000)] {
        assert!(!view.write(iova, &vec![1; len]), "{iova:#x}");
        assert!(!view.read(iova, &mut vec![1; len]), "{iova:#x}");
    }
    let mut all = vec![1; 0x1000];
    assert!(view.read(0x1_0000, &mut all));
    assert!(all.iter().all(|&byte| byte == 0));
}

#[test]
fn ranges_that_meet_are_reached_across() {
    let view = view(0x1_0000, 0x1000);
    view.map(0x1_1000, 0x1000, file(0x2000), 0x1000, Access::BOTH).unwrap();
    view.map(0x1_2000, 0x1000, file(0x1000), 0, Access { read: true, write: false }).unwrap();
    let data: Vec<u8> = (0..0x1800).map(|n| n as u8 ^ (n >> 8) as u8).collect();
    assert!(view.write(0x1_0400, &data));
    let mut back = vec![0; data.len()];
    assert!(view.read(0x1_0400, &mut back) && back == data);
    // Into what may only be read, or nothing at all: not a byte is written.
    assert!(!view.write(0x1_1FFF, &[1, 2]) && !view.write(0x1_0000, &[9; 0x2001]));
    assert!(!view.read(0x1_2FFF, &mut [0; 2]) && !view.read(0xFFFF, &mut [0; 2]));
    assert!(view.read(0x1_0400, &mut back) && back == data);
    assert!(view.read(0x1_1FFF, &mut [0; 2]), "all of it may be read");
}

#[test]
fn a_window_crosses_ranges_and_ends_with_any_of_them() {
    for gone in 0..3 {
        let view = view(0x1_0000, 0x1000);
        for n in 1..3_u64 {
            view.map(0x1_0000 + n * 0x1000, 0x1000, file(0x1000 * (n + 1)), 0x1000 * n, Access::BOTH)
                .unwrap();
        }
        let window = view.window(0x1_0F00, 0x1200).unwrap();
        for word in 0..0x1200 / 8 {
            window.store(8 * word, word as u64 + 1);
        }
        let mut back = [0; 8];
        for word in 0..0x1200 / 8 {
            assert!(view.read(0x1_0F00 + 8 * word, &mut back));
            assert_eq!(u64::from_le_bytes(back), word + 1);
        }
        assert!(view.read(0x1_0EF8, &mut back) && back == [0; 8], "what lies before it");
        assert!(view.read(0x1_2100, &mut back) && back == [0; 8], "and behind it");
        assert!(view.window(0x1_2F00, 0x200).is_none(), "beyond the last one");
        view.unmap(0x1_0000 + gone * 0x1000, 0x1000).unwrap();
        assert_eq!((window.load(0), window.load(0x11F8)), (0, 0), "without range {gone}");
        assert!(view.window(0x1_0F00, 0x1200).is_none());
    }
}

#[test]
fn ranges_that_meet_within_a_page_have_no_window_across() {
    let view = view(0x1_0000, 0x800);
    view.map(0x1_0800, 0x800, file(0x1000), 0x800, Access::BOTH).unwrap();
    assert!(view.write(0x1_07FC, &[7; 8]), "bytes are copied all the same");
    assert!(view.window(0x1_0400, 0x800).is_none());
}

#[test]
fn read_only_memory_is_not_written() {
    let view = View::default();
    view.map(0, 0x1000, file(0x1000), 0, Access { read: true, write: false }).unwrap();
    assert!(view.read(0, &mut [0; 8]));
    assert!(!view.write(0, &[0; 8]));
    assert!(view.window(0, 64).is_none());
}

#[test]
fn clones_see_ranges_come_and_go() {
    let stepping = View::default();
    assert!(!stepping.write(0, &[1]));
    let socket = stepping.clone();
    let generation = stepping.generation();
    socket.map(0, 0x1000, file(0x1000), 0, Access::BOTH).unwrap();
    assert_ne!(stepping.generation(), generation);
    assert!(stepping.write(0, &[1]));
    socket.unmap(0, 0x1000).unwrap();
    assert!(!stepping.write(0, &[1]));
}

#[test]
fn a_window_outlives_its_range_without_harm() {
    let view = view(0, 0x1000);
    let window = view.window(0x100, 32).unwrap();
    window.store_release(24, 0x0102_0304_0506_0708);
    window.store(32, 5);
    assert_eq!(window.load(32), 0);
    let mut bytes = [0; 8];
    assert!(view.read(0x118, &mut bytes));
    assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1]);
    view.unmap(0, 0x1000).unwrap();
    assert_eq!(window.load_acquire(24), 0, "revoked");
    window.store(24, 1);
    assert!(view.window(0x100, 32).is_none());
}

#[test]
fn memory_of_this_process_is_reached_until_it_is_taken_back() {
    let mut memory = vec![0_u64; 512];
    let view = View::default();
    // SAFETY: the vector lives to the end of the test, on one thread.
    unsafe { view.map_here(0x4000, memory.as_mut_ptr().cast(), 4096).unwrap() };
    let window = view.window(0x4000, 16).unwrap();
    window.store(8, 77);
    assert!(view.write(0x4FFF, &[1]) && !view.write(0x5000, &[1]));
    view.unmap(0x4000, 4096).unwrap();
    window.store(8, 78);
    assert!(!view.write(0x4000, &[1]));
    assert_eq!(memory[1], 77);
}

#[test]
fn without_bus_mastering_nothing_is_reached() {
    let view = view(0, 0x1000);
    let generation = view.generation();
    view.set_enabled(false);
    assert_ne!(view.generation(), generation);
    assert!(!view.read(0, &mut [0]) && view.window(0, 16).is_none());
    view.set_enabled(true);
    assert!(view.read(0, &mut [0]) && view.window(0, 16).is_some());
}

#[test]
fn windows_are_aligned_and_inside() {
    let view = view(0, 0x1000);
    assert!(view.window(4, 64).is_none());
    assert!(view.window(0xFF8, 16).is_none());
    assert!(view.window(0xFF0, 16).is_some());
}

#[test]
fn bad_maps_are_refused() {
    let view = view(0x1000, 0x1000);
    assert!(view.map(0x1800, 0x1000, file(0x1000), 0, Access::BOTH).is_err(), "overlap");
    assert!(view.map(0x4000, 0x2000, file(0x1000), 0, Access::BOTH).is_err(), "beyond the file");
    assert!(view.map(0x4000, 0, file(0x1000), 0, Access::BOTH).is_err(), "empty");
    assert!(view.map(u64::MAX - 0xFFF, 0x2000, file(0x2000), 0, Access::BOTH).is_err(), "wraps");
    assert!(view.map(0x4000, 0x1000, file(0x1000), u64::MAX, Access::BOTH).is_err(), "offset wraps");
    assert!(view.unmap(0x8000, 0x1000).is_err(), "never mapped");
    assert!(view.unmap(0x1000, 0x800).is_err(), "in part");
    assert_eq!(view.mapped(), (1, 0x1000));
}

#[test]
fn a_shared_file_can_no_longer_shrink() {
    let shared = file(0x1000);
    let view = View::new(Trust::Hostile);
    view.map(0, 0x1000, shared.try_clone().unwrap(), 0, Access::BOTH).unwrap();
    assert!(ftruncate(&shared, 0).is_err());
}

#[test]
fn a_hostile_file_without_seals_is_refused() {
    let file = memfd_create("test", MemfdFlags::empty()).unwrap();
    ftruncate(&file, 0x1000).unwrap();
    let same = file.try_clone().unwrap();
    assert!(View::new(Trust::Hostile).map(0, 0x1000, file, 0, Access::BOTH).is_err());
    assert!(View::new(Trust::Peer).map(0, 0x1000, same, 0, Access::BOTH).is_ok());
}

#[test]
fn what_is_not_memory_is_refused_however_trusted() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    // Takes no seals, as no file on a disk does; a temporary file may be on a tmpfs.
    let proc = std::fs::File::open("/proc/self/status").unwrap();
    let directory = std::fs::File::open("/").unwrap();
    for file in [reader, writer, socket.into(), proc.into(), directory.into()] {
        assert!(View::new(Trust::Peer).map(0, 0x1000, file, 0, Access::BOTH).is_err());
    }
}

#[test]
fn pages_that_a_client_takes_away_are_lost_to_it_alone() {
    let files = [0; 4].map(|_| {
        let file = memfd_create("test", MemfdFlags::empty()).unwrap();
        ftruncate(&file, 0x3000).unwrap();
        file
    });
    let views = [0; 3].map(|_| View::new(Trust::Peer));
    let [hostile, across, decent] = &views;
    let map = |view: &View, iova, file: &OwnedFd| {
        view.map(iova, 0x3000, file.try_clone().unwrap(), 0, Access::BOTH).unwrap();
    };
    map(hostile, 0, &files[0]);
    map(across, 0, &files[1]);
    map(across, 0x3000, &files[2]);
    map(decent, 0, &files[3]);
    let window = across.window(0x2000, 0x2000).unwrap();
    window.store(0x1000, 1);
    assert!(views.iter().all(|view| !view.is_lost()));
    files[..3].iter().for_each(|file| ftruncate(file, 0).unwrap());
    assert!(hostile.read(0x1000, &mut [1; 8]) && hostile.is_lost());
    assert_eq!((window.load(0x1000), across.is_lost()), (0, true), "by way of the second mapping");
    assert!(decent.write(0, &[1]) && !decent.is_lost());
    hostile.clear();
    assert!(!hostile.is_lost(), "the next client begins anew");
}

/// The files are as long as that and have no pages.
#[test]
fn a_client_maps_no_more_than_4_tib() {
    const TIB: u64 = 1 << 40;
    let view = View::default();
    let map = |at: u64, len: u64| view.map(at, len, file(1 << 62), 0, Access::BOTH);
    let is_full = |mapped: io::Result<()>| {
        let errno = mapped.unwrap_err().raw_os_error();
        assert_eq!(errno, Some(rustix::io::Errno::NOSPC.raw_os_error()));
    };
    is_full(map(0, 1 << 62));
    is_full(map(0, 4 * TIB + 0x1000));
    (0..4).for_each(|n| map(n * TIB, TIB).unwrap());
    is_full(map(4 * TIB, 0x1000));
    // Also what is only known: its addresses are the client's to fill.
    is_full(view.map_unreachable(4 * TIB, 1));
    view.unmap(0, TIB).unwrap();
    map(4 * TIB, TIB).unwrap();
    assert_eq!(view.mapped(), (4, 4 * TIB));
}

#[test]
fn memory_without_a_file_is_known_but_out_of_reach() {
    let view = View::default();
    view.map_unreachable(0, 0x1000).unwrap();
    assert!(!view.read(0, &mut [0]));
    view.unmap(0, 0x1000).unwrap();
}

#[test]
fn too_many_ranges_are_refused() {
    let view = View::default();
    for n in 0..MAX_RANGES as u64 {
        view.map_unreachable(n * 0x1000, 0x1000).unwrap();
    }
    assert!(view.map_unreachable(1 << 40, 0x1000).is_err());
}

#[test]
fn pages_are_seen_through_the_file() {
    let pages = BarPages::new(0x2_0000).unwrap();
    pages.store(0x1018, 7);
    let view = View::default();
    view.map(0, 0x2_0000, pages.file().try_clone_to_owned().unwrap(), 0, Access::BOTH).unwrap();
    let mut bytes = [0; 4];
    assert!(view.read(0x1018, &mut bytes));
    assert_eq!(u32::from_le_bytes(bytes), 7);
    assert!(view.write(0x6018, &9u32.to_le_bytes()));
    assert_eq!(pages.load(0x6018), 9);
    assert_eq!(pages.load(0x2_0000), 0);
    pages.store(0x2_0000, 1);
    pages.clear(0x6000, 0x1000);
    assert_eq!(pages.load(0x6018), 0);
}
