//! A vhost-user front end that misbehaves towards our back end by all that it has: memory tables that
//! overlap, wrap, are huge or no memory; memory that goes while rings in it run; descriptors
//! and indices that change while the device reads them. The session ends or goes on as the
//! protocol has it, what was taken back is not touched, and the next front end is served.

mod front_end;

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bus::Mapping;
use bus::vhost_user::message::{F_PROTOCOL_FEATURES, HEADER, Header, Message, Request, protocol};
use bus::vhost_user::{PACKED_START, SPLIT_START};
use regs::virtio::feature::{INDIRECT_DESC, RING_PACKED, VERSION_1, net};
use regs::virtio::packed::descriptor as packed;
use regs::virtio::split::{available, descriptor as split, used};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use testbed::fault::Random;
use testbed::serve::{Endpoint, EndpointReport, Options, Serving};
use testbed::wire::Cable;
use testbed::{Idle, vhost_user, virtio};

use crate::common::alone::alone;
use crate::common::files::{LONG, lingering};
use crate::common::limit::{Limit, until};
use crate::common::witness::Witness;
use front_end::{FrontEnd, Served};

/// Each test has this long.
const LIMIT: Duration = Duration::from_secs(100);
/// Entries of a ring, and buffers of it.
const SIZE: u16 = 64;
const BUFFER: u64 = 2048;
/// A ring's parts within its share of memory.
const RING_BYTES: u64 = 0x4000;
const DRIVER: u64 = 0x1000;
const DEVICE: u64 = 0x2000;
/// Where rings and buffers are, as the device and as the front end see them.
const RINGS: Region = Region { guest: 0x10_0000, len: 2 * RING_BYTES, user: 0x7000_0000_0000, offset: 0 };
const BUFFERS: Region =
    Region { guest: 0x20_0000, len: 2 * SIZE as u64 * BUFFER, user: 0x7100_0000_0000, offset: 0 };

/// A memory region as a message describes it.
#[derive(Clone, Copy, Debug)]
struct Region {
    guest: u64,
    len: u64,
    user: u64,
    offset: u64,
}

impl Region {
    fn describe(self, message: Message) -> Message {
        message.u64(self.guest).u64(self.len).u64(self.user).u64(self.offset)
    }

    fn add(self) -> Message {
        self.describe(Message::new(Request::AddMemReg).u64(0))
    }

    fn remove(self) -> Message {
        self.describe(Message::new(Request::RemMemReg).u64(0))
    }
}

/// A message that tells all regions at once.
fn table(regions: &[Region]) -> Message {
    let message = Message::new(Request::SetMemTable).u32(regions.len() as u32).u32(0);
    regions.iter().fold(message, |message, region| region.describe(message))
}

fn file(len: u64) -> File {
    let file = memfd_create("front end", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len).unwrap();
    file.into()
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// Bytes of a file.
fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A lie about memory: a message, and the files that come along.
struct BadMessage {
    what: &'static str,
    message: Message,
    files: Vec<OwnedFd>,
}

fn bad(what: &'static str, message: Message, files: Vec<OwnedFd>) -> BadMessage {
    BadMessage { what, message, files }
}

/// One region more, or changed, with memory that is as long as it says.
fn one(what: &'static str, region: Region) -> BadMessage {
    let len = region.offset.saturating_add(region.len).min(1 << 45);
    bad(what, region.add(), vec![file(len.next_multiple_of(0x1000)).into()])
}

const FREE: Region = Region { guest: 0x4000_0000, len: 0x2000, user: 0x7200_0000_0000, offset: 0 };

fn regions_that_cannot_be() -> Vec<BadMessage> {
    let page = 0x1000;
    vec![
        one("told twice", RINGS),
        one("overlaps in the guest, from below", Region { guest: RINGS.guest - page, ..FREE }),
        one("overlaps in the guest, from above", Region { guest: RINGS.guest + RINGS.len - page, ..FREE }),
        one("overlaps in the front end, from below", Region { user: RINGS.user - page, ..FREE }),
        one("overlaps in the front end, from above", Region { user: RINGS.user + RINGS.len - page, ..FREE }),
        one("surrounds others in the guest", Region { guest: 0, len: 1 << 30, ..FREE }),
        one("surrounds others in the front end", Region { user: page, len: 1 << 47, ..FREE }),
        one("is nothing", Region { len: 0, ..FREE }),
        one("wraps in the guest", Region { guest: u64::MAX - 0xFFF, ..FREE }),
        one("wraps in the front end", Region { user: u64::MAX - 0xFFF, ..FREE }),
        one("has a length that wraps", Region { len: u64::MAX, ..FREE }),
        one("has a length that is no number of pages and wraps", Region { len: u64::MAX - 0xFFF, ..FREE }),
        bad("lies behind the file's end", Region { offset: page, ..FREE }.add(), vec![file(0x2000).into()]),
        bad(
            "has an offset that wraps",
            Region { offset: u64::MAX - 0xFFF, ..FREE }.add(),
            vec![file(0x2000).into()],
        ),
        one("is 4 TiB, with what there is more than a client may map", Region { len: 4 << 40, ..FREE }),
        bad("has no file", FREE.add(), Vec::new()),
        bad("has two files", FREE.add(), vec![file(0x2000).into(), file(0x2000).into()]),
        bad("goes and is not there", FREE.remove(), Vec::new()),
        bad("goes in part", Region { len: page, ..RINGS }.remove(), Vec::new()),
        bad("goes from elsewhere", Region { user: RINGS.user + page, ..RINGS }.remove(), Vec::new()),
        bad("goes to elsewhere", Region { guest: RINGS.guest + page, ..RINGS }.remove(), Vec::new()),
    ]
}

/// The same in a table, where it replaces what was told before.
fn tables_that_cannot_be() -> Vec<BadMessage> {
    let two = |what, first: Region, second: Region| {
        bad(what, table(&[first, second]), vec![file(0x10_0000).into(), file(0x10_0000).into()])
    };
    vec![
        two("twice the same", FREE, FREE),
        two("overlap in the guest", FREE, Region { user: RINGS.user, guest: FREE.guest + 0x1000, ..FREE }),
        two(
            "overlap in the front end",
            FREE,
            Region { guest: RINGS.guest, user: FREE.user + 0x1000, ..FREE },
        ),
        two("the second wraps", FREE, Region { guest: u64::MAX - 0xFFF, user: RINGS.user, ..FREE }),
        two("the second is nothing", FREE, Region { guest: 0, user: RINGS.user, len: 0, ..FREE }),
        bad("fewer files than regions", table(&[FREE, RINGS]), vec![file(0x10_0000).into()]),
        bad("more files than regions", table(&[FREE]), vec![file(0x2000).into(), file(0x2000).into()]),
        bad("nothing", table(&[]), Vec::new()),
        bad("more than it says", table(&[FREE]).bytes(&[0; 32]), vec![file(0x2000).into()]),
    ]
}

/// Files that are no memory, or that the front end could take away, or that cannot be written.
fn files_that_cannot_be() -> Vec<BadMessage> {
    let sealed = file(0x2000);
    fcntl_add_seals(&sealed, SealFlags::WRITE).unwrap();
    let read_only = file(0x2000);
    fcntl_add_seals(&read_only, SealFlags::SHRINK).unwrap();
    let path = format!("/proc/self/fd/{}", read_only.as_raw_fd());
    let unsealed = memfd_create("front end", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&unsealed, 0x2000).unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let files: [(&str, OwnedFd); 9] = [
        ("sealed against writing", sealed.into()),
        ("open for reading", File::open(path).unwrap().into()),
        ("not sealed", unsealed),
        ("an eventfd", event()),
        ("a pipe's end", reader),
        ("a pipe's other end", writer),
        ("a socket", UnixStream::pair().unwrap().0.into()),
        ("a device", File::open("/dev/zero").unwrap().into()),
        ("a folder", File::open("/").unwrap().into()),
    ];
    files.into_iter().map(|(what, file)| bad(what, FREE.add(), vec![file])).collect()
}

#[test]
fn memory_that_cannot_be_ends_the_session_alone() {
    alone(module_path!(), "memory_that_cannot_be_ends_the_session_alone", LIMIT, || {
        let served = Served::new();
        served.serves_on();
        let before = Witness::now();
        for messages in [regions_that_cannot_be(), tables_that_cannot_be(), files_that_cannot_be()] {
            for BadMessage { what, message, files } in messages {
                println!("{what}");
                let mut front = FrontEnd::connect(&served, VERSION_1);
                front.start(SPLIT_START);
                front.moves(100);
                let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                let faults = served.report().client_faults;
                assert!(!front.order(message, &files), "{what}: taken");
                served.is_free();
                until("the fault", || served.report().client_faults > faults);
            }
        }
        served.serves_on();
        before.is_as_before();
    });
}

/// What the last front end did that ended its session.
fn fault(served: &Served) -> String {
    let told = served.report().last_fault.unwrap();
    told.strip_prefix("front end lost: it ").unwrap_or(&told).to_owned()
}

#[test]
fn a_file_that_lingers_makes_no_other_front_end_wait() {
    alone(module_path!(), "a_file_that_lingers_makes_no_other_front_end_wait", LIMIT, || {
        let served = Served::new();
        let (socket, _other) = lingering();
        let mut front = FrontEnd::connect(&served, VERSION_1);
        front.start(SPLIT_START);
        let faults = served.report().client_faults;
        front.say(&FREE.add().finish(true), &[socket.as_fd()]);
        drop(socket);
        let begin = Instant::now();
        until("the fault", || served.report().client_faults > faults);
        assert_eq!(fault(&served), "sent a file that is neither memory nor an eventfd");
        served.serves_on();
        assert!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
    });
}

#[test]
fn files_with_a_message_in_pieces_end_the_session() {
    alone(module_path!(), "files_with_a_message_in_pieces_end_the_session", LIMIT, || {
        let served = Served::new();
        let mut front = FrontEnd::connect(&served, VERSION_1);
        front.start(SPLIT_START);
        let faults = served.report().client_faults;
        let (message, memory) = (FREE.add().finish(true), file(FREE.len));
        let (head, body) = message.split_at(HEADER);
        front.say(head, &[memory.as_fd()]);
        front.say(body, &[]);
        until("the fault", || served.report().client_faults > faults);
        assert_eq!(fault(&served), "sent files with a message in pieces");
        served.serves_on();
    });
}

/// How memory or rings are taken back while frames move, and the file that is the front
/// end's own from then on.
type TakeBack = fn(&mut FrontEnd) -> File;

/// With whether the rings stay the device's.
const TAKE_BACK: &[(&str, bool, TakeBack)] = &[
    ("buffers", true, |front| {
        front.must(BUFFERS.remove(), &[]);
        front.buffers.try_clone().unwrap()
    }),
    ("rings", false, |front| {
        front.must(RINGS.remove(), &[]);
        front.rings.file.try_clone().unwrap()
    }),
    ("all, for other memory at the same place", true, |front| {
        let old = front.buffers.try_clone().unwrap();
        front.buffers = file(BUFFERS.len);
        let files = front.files();
        front.must(table(&[RINGS, BUFFERS]), &[files[0].as_fd(), files[1].as_fd()]);
        old
    }),
    ("all, for memory at another place", false, |front| {
        let old = front.rings.file.try_clone().unwrap();
        let other = file(FREE.len);
        front.must(table(&[FREE]), &[other.as_fd()]);
        old
    }),
    ("rings, which stop", false, |front| {
        front.stop_rings();
        front.rings.file.try_clone().unwrap()
    }),
    ("rings, which are reset", false, |front| {
        front.must(Message::new(Request::ResetDevice), &[]);
        front.rings.file.try_clone().unwrap()
    }),
];

#[test]
fn memory_that_is_taken_back_while_frames_move_is_left_alone() {
    alone(module_path!(), "memory_that_is_taken_back_while_frames_move_is_left_alone", LIMIT, || {
        let served = Served::new();
        served.serves_on();
        let before = Witness::now();
        for (ring, base) in [(0, SPLIT_START), (RING_PACKED, PACKED_START)] {
            for (what, goes_on, take_back) in TAKE_BACK {
                println!("{ring:#x}: {what}");
                let mut front = FrontEnd::connect(&served, VERSION_1 | ring);
                front.start(base);
                front.moves(500);
                let mine = take_back(&mut front);
                // From the acknowledgement on nobody but us writes there.
                mine.write_all_at(&vec![0xA5; mine.metadata().unwrap().len() as usize], 0).unwrap();
                served.steps(500, || _ = goes_on.then(|| front.offer()));
                assert!(bytes(&mine).iter().all(|&byte| byte == 0xA5), "{what}: written to");
                drop(front);
                served.is_free();
            }
        }
        served.serves_on();
        before.is_as_before();
    });
}

/// A table in which all is as before but for where the guest has it: the rings go on there,
/// and no step of the device comes between.
#[test]
fn memory_that_moves_under_a_ring_moves_in_one_go() {
    let served = Served::new();
    let mut front = FrontEnd::connect(&served, VERSION_1);
    front.start(SPLIT_START);
    for n in 0..5_000 {
        let rings = Region { guest: RINGS.guest + (n % 2 + 1) * 0x2000_0000, ..RINGS };
        let files = front.files();
        front.must(table(&[rings, BUFFERS]), &[files[0].as_fd(), files[1].as_fd()]);
        front.offer();
    }
    front.moves(500);
    let report = served.report();
    assert!(report.device.findings.is_empty(), "{:?}", report.device.findings);
    assert_eq!((report.device.counters["broken_queues"], report.last_fault), (0, None));
}

/// Somewhere in the rings other bytes, and at times what a descriptor should not say.
fn change(front: &FrontEnd, random: &mut Random) {
    let ring = random.below(2) * RING_BYTES;
    let n = random.below(SIZE.into());
    let any = [0, 1, 2, 4, 0x80, 0x8000, 0xFFFF, random.below(0x1_0000)][random.below(8) as usize] as u16;
    let address = [
        random.next(),
        u64::MAX - random.below(64),
        RINGS.guest + RINGS.len - random.below(64),
        RINGS.guest + random.below(RINGS.len),
        BUFFERS.guest + BUFFERS.len - random.below(2048),
    ];
    let rings = &front.rings;
    match random.below(5) {
        0 => rings.put64(ring + n * 16, address[random.below(5) as usize]),
        // Lengths.
        1 => rings.put16(ring + n * 16 + 8 + 2 * random.below(2), any),
        // Flags and the next one, or the id and flags.
        2 => rings.put16(ring + n * 16 + 12 + 2 * random.below(2), any),
        3 => rings.put16(ring + DRIVER + 2 * random.below(2 * u64::from(SIZE)), any),
        _ => rings.put16(ring + 2 * random.below(RING_BYTES / 2), any),
    }
}

#[test]
fn descriptors_that_change_under_the_device_break_rings_alone() {
    const FEATURES: [u64; 2] = [0, RING_PACKED];
    const ROUNDS: u64 = 60;
    alone(module_path!(), "descriptors_that_change_under_the_device_break_rings_alone", LIMIT, || {
        let served = Served::new();
        served.serves_on();
        let before = Witness::now();
        for ring in FEATURES {
            let base = if ring == 0 { SPLIT_START } else { PACKED_START };
            let features = VERSION_1 | INDIRECT_DESC | net::MRG_RXBUF | net::CSUM | net::HOST_TSO4 | ring;
            let mut front = FrontEnd::connect(&served, features);
            front.start(base);
            let broken = || served.report().device.counters["broken_queues"];
            let before = broken();
            for seed in 0.. {
                // On a busy machine the device may look in between the changes only later.
                if seed >= ROUNDS && broken() > before {
                    break;
                }
                assert!(seed < 50 * ROUNDS, "{ring:#x}: none broke");
                let mut random = Random::new(seed);
                let mut again = || {
                    change(&front, &mut random);
                    front.offer();
                };
                (0..[20, 200, 1000][seed as usize % 3]).for_each(|_| again());
                served.steps(10, again);
                // Whatever became of the rings, the session is there, and they start anew.
                front.stop_rings();
                front.start_rings(base);
            }
            front.moves(500);
            assert!(served.report().attached && served.report().last_fault.is_none());
            drop(front);
            served.is_free();
        }
        served.serves_on();
        before.is_as_before();
    });
}
