//! Clients that misbehave towards our server: garbage, wrong lengths, wrong order, too many file
//! descriptors, silence, and commands from the wrong side.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bus::Pci;
use bus::vfio_user::message::{self, Command, Encoder, HEADER, MAX_MESSAGE, decode_header};
use bus::vfio_user::server;
use common::raw::{EOPNOTSUPP, Raw, command, plausible, version};
use common::{Memory, PAGE, Serving, Toy, memfd};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::SendFlags;

const EINVAL: u32 = libc::EINVAL as u32;

#[test]
fn wrong_requests_get_errors_and_the_stream_keeps_step() {
    let serving = Serving::start();
    let mut raw = Raw::attached(&serving);
    let wrong: Vec<(&str, Encoder, u32)> = vec![
        ("version twice", command(Command::Version).u16(0).u16(1), EINVAL),
        ("truncated read", command(Command::RegionRead).u64(0), EINVAL),
        ("read beyond the end", command(Command::RegionRead).u64(8190).u32(0).u32(4), EINVAL),
        ("read of a wrapping range", command(Command::RegionRead).u64(u64::MAX).u32(0).u32(4), EINVAL),
        ("read of a huge count", command(Command::RegionRead).u64(0).u32(0).u32(u32::MAX), EINVAL),
        ("read of no region", command(Command::RegionRead).u64(0).u32(99).u32(4), EINVAL),
        ("read of no BAR", command(Command::RegionRead).u64(0).u32(1).u32(4), EINVAL),
        ("read of nothing in no BAR", command(Command::RegionRead).u64(0).u32(1).u32(0), EINVAL),
        ("write of nothing to no region", command(Command::RegionWrite).u64(0).u32(u32::MAX).u32(0), EINVAL),
        ("config beyond the end", command(Command::RegionRead).u64(4094).u32(7).u32(4), EINVAL),
        (
            "write that tells more than it has",
            command(Command::RegionWrite).u64(0).u32(0).u32(8).u32(0),
            EINVAL,
        ),
        (
            "write that tells less than it has",
            command(Command::RegionWrite).u64(0).u32(0).u32(0).u32(0),
            EINVAL,
        ),
        ("write to no region", command(Command::RegionWrite).u64(0).u32(8).u32(4).u32(0), EINVAL),
        ("writes that are not there", command(Command::RegionWriteMulti).u64(u64::MAX), EINVAL),
        ("a write of 9 in 8", command(Command::RegionWriteMulti).u64(1).u64(0).u32(0).u32(9).u64(0), EINVAL),
        ("no such region", command(Command::RegionInfo).u32(32).u32(0).u32(9), EINVAL),
        ("no such interrupt", command(Command::IrqInfo).u32(16).u32(0).u32(5), EINVAL),
        (
            "vectors that wrap",
            command(Command::SetIrqs).u32(20).u32(0x24).u32(2).u32(u32::MAX).u32(2),
            EINVAL,
        ),
        ("too many vectors", command(Command::SetIrqs).u32(20).u32(0x24).u32(2).u32(0).u32(5), EINVAL),
        ("masking", command(Command::SetIrqs).u32(20).u32(0x09).u32(2).u32(0).u32(1), EOPNOTSUPP),
        ("raising", command(Command::SetIrqs).u32(20).u32(0x21).u32(2).u32(0).u32(1), EOPNOTSUPP),
        ("a map of nothing", command(Command::DmaMap).u32(32).u32(3).u64(0).u64(0).u64(0), EINVAL),
        (
            "a map that wraps",
            command(Command::DmaMap).u32(32).u32(3).u64(0).u64(u64::MAX - 4095).u64(8192),
            EINVAL,
        ),
        ("a map off the page", command(Command::DmaMap).u32(32).u32(3).u64(0).u64(8).u64(4096), EINVAL),
        ("an unmap that wraps", command(Command::DmaUnmap).u32(24).u32(0).u64(u64::MAX).u64(2), EINVAL),
        ("an unmap for dirty pages", command(Command::DmaUnmap).u32(24).u32(1).u64(0).u64(0), EOPNOTSUPP),
        ("reading memory of the wrong side", command(Command::DmaRead).u64(0).u64(8), EOPNOTSUPP),
        ("register files", command(Command::RegionIoFds).u32(16).u32(0).u32(0).u32(0), EOPNOTSUPP),
    ];
    for (what, message, errno) in wrong {
        assert_eq!(raw.errno(message), errno, "{what}");
    }
    let mut unknown = command(Command::Reset).bytes(&[7; 100]).finish();
    unknown[2..4].copy_from_slice(&999_u16.to_le_bytes());
    assert_eq!(raw.ask(unknown).1, EOPNOTSUPP);
    let (header, errno, data) = raw.ask(command(Command::RegionRead).u64(0).u32(7).u32(4).finish());
    assert_eq!((header.id, errno, &data[16..]), (9, 0, [0x86, 0x80, 0xFB, 0x10].as_slice()));
    let state = serving.state.lock().unwrap();
    assert!(state.writes.is_empty() && state.maps.is_empty() && state.resets == 0);
}

#[test]
fn several_writes_in_one_message_arrive_in_order() {
    let serving = Serving::start();
    let mut raw = Raw::attached(&serving);
    let one = |body: Encoder, offset: u64, value: u64| body.u64(offset).u32(0).u32(4).u64(value);
    let body = one(one(command(Command::RegionWriteMulti).u64(2), 0x20, 1), 0x20, 2);
    let (_, errno, count) = raw.ask(body.finish());
    assert_eq!((errno, count), (0, 2_u64.to_le_bytes().to_vec()));
    let writes = &serving.state.lock().unwrap().writes;
    assert_eq!(writes[..], [(0, 0x20, vec![1, 0, 0, 0]), (0, 0x20, vec![2, 0, 0, 0])]);
}

#[test]
fn unmapping_all_and_wiring_none() {
    let serving = Serving::start();
    let mut raw = Raw::attached(&serving);
    let memory = Memory::new(PAGE);
    for iova in [0_u64, 0x1000, 0x8000] {
        let map = command(Command::DmaMap).u32(32).u32(3).u64(0).u64(iova).u64(4096).finish();
        raw.send_with(&map, &[memory.file.as_fd()]);
        assert_eq!(raw.reply().1, 0);
    }
    assert_eq!(raw.errno(command(Command::DmaUnmap).u32(24).u32(0).u64(0).u64(0x2000)), 0);
    assert_eq!(serving.state.lock().unwrap().maps.len(), 1);
    assert_eq!(raw.errno(command(Command::DmaUnmap).u32(24).u32(2).u64(0).u64(0)), 0);
    assert!(serving.state.lock().unwrap().maps.is_empty());
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    raw.send_with(&wire_first_vector(), &[event.as_fd()]);
    assert_eq!(raw.reply().1, 0);
    assert_eq!(raw.errno(command(Command::SetIrqs).u32(20).u32(0x21).u32(2).u32(0).u32(0)), 0);
    assert!(serving.state.lock().unwrap().events.iter().all(Option::is_none));
}

fn wire_first_vector() -> Vec<u8> {
    command(Command::SetIrqs).u32(20).u32(0x24).u32(2).u32(0).u32(1).finish()
}

#[test]
fn what_is_no_eventfd_is_no_interrupt() {
    let serving = Serving::start();
    let mut raw = Raw::attached(&serving);
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let (file, socket) = (memfd(PAGE), raw.0.try_clone().unwrap());
    for (n, other) in [reader.as_fd(), writer.as_fd(), file.as_fd(), socket.as_fd()].iter().enumerate() {
        raw.send_with(&wire_first_vector(), &[*other]);
        assert_eq!(raw.reply().1, EINVAL, "{n}");
    }
    // One of several: none is wired.
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let two = command(Command::SetIrqs).u32(20).u32(0x24).u32(2).u32(0).u32(2).finish();
    raw.send_with(&two, &[event.as_fd(), writer.as_fd()]);
    assert_eq!(raw.reply().1, EINVAL);
    assert!(serving.state.lock().unwrap().events.iter().all(Option::is_none));
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn stray_file_descriptors_are_refused_and_closed() {
    // In a process of its own: other tests open files meanwhile.
    if std::env::var_os("IXORA_COUNT_FDS").is_none() {
        let test = std::env::current_exe().unwrap();
        let arguments = ["--exact", "stray_file_descriptors_are_refused_and_closed", "--nocapture"];
        let output =
            std::process::Command::new(test).args(arguments).env("IXORA_COUNT_FDS", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let serving = Serving::start();
    let mut raw = Raw::attached(&serving);
    let file = memfd(PAGE);
    let before = open_fds();
    for count in [1, 16, 17, 60] {
        raw.send_with(&command(Command::Reset).finish(), &vec![file.as_fd(); count]);
        assert_eq!(raw.reply().1, EINVAL, "{count} with a reset");
        raw.send_with(
            &command(Command::DmaMap).u32(32).u32(3).u64(0).u64(0).u64(4096).finish(),
            &vec![file.as_fd(); count + 1],
        );
        assert_eq!(raw.reply().1, EINVAL, "{} with a map", count + 1);
    }
    assert_eq!((open_fds(), serving.state.lock().unwrap().resets), (before, 0));
}

#[test]
fn what_cannot_be_followed_ends_the_connection_only() {
    let serving = Serving::start();
    let sizes = [0_u32, 15, MAX_MESSAGE as u32 + 1, u32::MAX];
    for size in sizes {
        let mut raw = Raw::attached(&serving);
        let mut message = command(Command::Reset).finish();
        message[4..8].copy_from_slice(&size.to_le_bytes());
        raw.0.write_all(&message).unwrap();
        assert!(raw.is_closed(), "size {size}");
    }
    let mut raw = Raw::attached(&serving);
    raw.0.write_all(&Encoder::error(&decode_header(&version(0)).unwrap(), Errno::IO)).unwrap();
    assert!(raw.is_closed(), "a reply to nothing");
    let mut raw = Raw::connect(&serving);
    assert_eq!(raw.ask(version(1)).1, EINVAL);
    assert!(raw.is_closed(), "another major version");
    let mut raw = Raw::connect(&serving);
    assert_eq!(raw.errno(command(Command::Reset)), EINVAL);
    assert!(raw.is_closed(), "no version first");
    Raw::connect(&serving).0.write_all(&version(0)[..7]).unwrap(); // hangs up within a header
    Raw::attached(&serving).0.write_all(&command(Command::RegionWrite).u64(0).finish()[..20]).unwrap();
    let pci = Pci::connect(serving.path()).unwrap();
    assert_eq!((pci.ids().unwrap().vendor, serving.state.lock().unwrap().resets), (0x8086, 0));
}

/// poll(2) says of such a byte that there is something to read, and a read that believes it
/// waits for what comes next: others would not be told that somebody is attached.
#[test]
fn a_byte_out_of_band_ends_the_connection() {
    let serving = Serving::start();
    let raw = Raw::attached(&serving);
    if rustix::net::send(&raw.0, b"x", SendFlags::OOB).is_err() {
        println!("passed over: this kernel has none (CONFIG_AF_UNIX_OOB)");
        return;
    }
    hung_up_after(&raw);
    let mut raw = Raw::attached(&serving);
    // Within a message the rest of it is waited for, and that has an end.
    raw.0.write_all(&command(Command::Reset).finish()[..7]).unwrap();
    rustix::net::send(&raw.0, b"x", SendFlags::OOB).unwrap();
    hung_up_after(&raw);
    assert_eq!(Raw::attached(&serving).errno(command(Command::Reset)), 0);
}

#[test]
fn half_a_message_does_not_keep_the_server_from_stopping() {
    let mut serving = Serving::start();
    let mut raw = Raw::attached(&serving);
    raw.0.write_all(&version(0)[..7]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let started = Instant::now();
    serving.stop();
    assert!(started.elapsed() < Duration::from_millis(400), "{:?}", started.elapsed());
}

/// Waits for the server to hang up.
fn hung_up_after(raw: &Raw) -> Duration {
    let begin = Instant::now();
    raw.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    match (&raw.0).read(&mut [0; 1]) {
        Ok(0) => {}
        // It left something unread.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        other => panic!("{other:?} after {:?}", begin.elapsed()),
    }
    begin.elapsed()
}

#[test]
fn who_says_nothing_or_half_of_something_makes_room_for_the_next() {
    let serving = Serving::start();
    let silent = Raw::connect(&serving);
    assert!(hung_up_after(&silent) < Duration::from_secs(15));
    let mut halting = Raw::attached(&serving);
    halting.0.write_all(&version(0)[..7]).unwrap();
    assert!(hung_up_after(&halting) < Duration::from_secs(15));
    // Silence between whole messages is a driver that has nothing to do.
    let mut raw = Raw::attached(&serving);
    std::thread::sleep(Duration::from_millis(5500));
    assert_eq!(raw.errno(command(Command::Reset)), 0);
}

#[test]
fn a_client_that_takes_no_replies_is_left_in_peace_until_stopped() {
    let mut serving = Serving::start();
    let raw = Raw::attached(&serving);
    let ask = command(Command::RegionRead).u64(0).u32(0).u32(8192).finish();
    raw.0.set_nonblocking(true).unwrap();
    let full = (0..1_000_000).any(|_| (&raw.0).write(&ask).is_err());
    assert!(full, "the server reads on though nobody takes its replies");
    let started = Instant::now();
    serving.stop();
    assert!(started.elapsed() < Duration::from_millis(400), "{:?}", started.elapsed());
}

proptest! {
    #[test]
    fn any_bytes_are_decoded(bytes: Vec<u8>, command: u16, small in 0_u16..20) {
        let _ = decode_header(&bytes);
        for command in [command, small] {
            if let Ok(message::Request::RegionWriteMulti(writes)) = message::decode_request(command, &bytes) {
                prop_assert_eq!(writes.iter().count(), writes.len());
            }
        }
        let _ = message::decode_version(&bytes);
        let _ = message::decode_device_info(&bytes);
        let _ = message::decode_region(&bytes);
        let _ = message::decode_irq_info(&bytes);
        let _ = message::decode_read(&bytes);
    }

    #[test]
    fn a_server_bears_any_messages(bytes in plausible(), garbage: Vec<u8>) {
        server::feed(&mut Toy::new(), &bytes);
        server::feed(&mut Toy::new(), &garbage);
    }

    #[test]
    fn a_region_is_read_as_it_was_written(size: u64, offset: u64, areas in prop::option::of(prop::collection::vec(any::<(u64, u64)>(), 0..20))) {
        let caps = if areas.is_some() { 8 } else { 0 };
        let needed = 32 + areas.as_ref().map_or(0, |areas| 16 + 16 * areas.len() as u32);
        let region = message::Region { argsz: needed, flags: 3 | caps, index: 2, size, offset, areas };
        let header = decode_header(&version(0)).unwrap();
        let whole = Encoder::reply(&header).region(&region, needed).finish();
        prop_assert_eq!(message::decode_region(&whole[HEADER..]), Ok(region.clone()));
        let cut = Encoder::reply(&header).region(&region, 32).finish();
        prop_assert_eq!(message::decode_region(&cut[HEADER..]).map(|cut| cut.argsz), Ok(needed));
    }
}
