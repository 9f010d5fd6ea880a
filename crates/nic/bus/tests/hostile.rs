//! Peers that lie: garbage, wrong lengths, wrong order, too many file
//! descriptors, silence, and commands from the wrong side.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bus::vfio_user::client::{self, Client};
use bus::vfio_user::message::{self, Command, Encoder, HEADER, Header, MAX_MESSAGE, decode_header, flags};
use bus::vfio_user::server;
use bus::{Backend, Error, Pci};
use common::{Memory, PAGE, Serving, Toy, memfd};
use proptest::prelude::*;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// A client that says what it likes.
struct Raw(UnixStream);

impl Raw {
    fn connect(serving: &Serving) -> Raw {
        let stream = UnixStream::connect(serving.path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        Raw(stream)
    }

    fn attached(serving: &Serving) -> Raw {
        let mut raw = Raw::connect(serving);
        assert_eq!(raw.ask(version(0)).1, 0);
        raw
    }

    fn send_with(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
    }

    fn reply(&mut self) -> (Header, u32, Vec<u8>) {
        let mut bytes = [0; HEADER];
        self.0.read_exact(&mut bytes).unwrap();
        let header = decode_header(&bytes).unwrap();
        let mut body = vec![0; header.body_len()];
        self.0.read_exact(&mut body).unwrap();
        let errno = header.error().map_or(0, |errno| errno.raw_os_error() as u32);
        (header, errno, body)
    }

    fn ask(&mut self, bytes: Vec<u8>) -> (Header, u32, Vec<u8>) {
        self.0.write_all(&bytes).unwrap();
        self.reply()
    }

    fn errno(&mut self, message: Encoder) -> u32 {
        self.ask(message.finish()).1
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

fn version(major: u16) -> Vec<u8> {
    Encoder::request(0, Command::Version, 0).u16(major).u16(1).finish()
}

fn command(command: Command) -> Encoder {
    Encoder::request(9, command, 0)
}

const EINVAL: u32 = libc::EINVAL as u32;
const EOPNOTSUPP: u32 = libc::EOPNOTSUPP as u32;

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
    raw.send_with(
        &command(Command::SetIrqs).u32(20).u32(0x24).u32(2).u32(0).u32(1).finish(),
        &[memory.file.as_fd()],
    );
    assert_eq!(raw.reply().1, 0);
    assert_eq!(raw.errno(command(Command::SetIrqs).u32(20).u32(0x21).u32(2).u32(0).u32(0)), 0);
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

/// A server that follows a script: each request is answered by `answer`.
fn scripted(answer: impl Fn(usize, &Header, &[u8], &mut UnixStream) -> bool + Send + 'static) -> UnixStream {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        for turn in 0.. {
            let mut bytes = [0; HEADER];
            if theirs.read_exact(&mut bytes).is_err() {
                return;
            }
            let header = decode_header(&bytes).unwrap();
            let mut body = vec![0; header.body_len()];
            if theirs.read_exact(&mut body).is_err() || !answer(turn, &header, &body, &mut theirs) {
                return;
            }
        }
    });
    ours
}

/// What a decent server says while a client connects: no BARs but BAR 0.
fn decent(header: &Header, body: &[u8], stream: &mut UnixStream) {
    let reply = Encoder::reply(header);
    let reply = match Command::from_number(header.command).unwrap() {
        Command::Version => reply.u16(0).u16(1).bytes(b"{}\0"),
        Command::DeviceInfo => reply.u32(16).u32(3).u32(1).u32(3),
        Command::IrqInfo => reply.u32(16).u32(1).u32(2).u32(1),
        Command::RegionInfo => reply.u32(32).u32(3).u32(0).u32(0).u64(4096).u64(0),
        Command::RegionRead => reply.bytes(&body[..16]).bytes(&vec![1; usize::from(body[12])]),
        _ => reply,
    };
    stream.write_all(&reply.finish()).unwrap();
}

fn connect(stream: UnixStream) -> bus::Result<Client> {
    Client::over(stream, "script".into(), Duration::from_millis(400))
}

#[test]
fn lies_while_connecting_are_errors() {
    type Lie = fn(Encoder) -> Encoder;
    let lies: [(&str, Command, Lie); 10] = [
        ("speaks version 7.1", Command::Version, |reply| reply.u16(7).u16(1)),
        ("no JSON", Command::Version, |reply| reply.u16(0).u16(1).bytes(b"{\0")),
        ("below 8", Command::Version, |reply| {
            reply.u16(0).u16(1).bytes(b"{\"capabilities\":{\"max_data_xfer_size\":0}}\0")
        }),
        ("takes no file", Command::Version, |reply| {
            reply.u16(0).u16(1).bytes(b"{\"capabilities\":{\"max_msg_fds\":0}}\0")
        }),
        ("bytes wanted where", Command::DeviceInfo, |reply| reply.u32(16)),
        ("no PCI device", Command::DeviceInfo, |reply| reply.u32(16).u32(0).u32(1).u32(3)),
        ("described 5", Command::RegionInfo, |reply| reply.u32(32).u32(3).u32(5).u32(0).u64(4096).u64(0)),
        ("leads to offset 32", Command::RegionInfo, |reply| {
            reply.u32(40).u32(15).u32(0).u32(32).u64(4096).u64(0).u16(9).u16(1).u32(32)
        }),
        ("asked for 4 bytes, it sent 2", Command::RegionRead, |reply| reply.u64(0).u32(0).u32(2).u16(0)),
        ("does not go with", Command::RegionRead, |reply| reply.u64(0).u32(0).u32(4).u16(0)),
    ];
    for (told, at, lie) in lies {
        let error = connect(scripted(move |_, header, body, stream| {
            if header.command == at as u16 {
                stream.write_all(&lie(Encoder::reply(header)).finish()).unwrap();
            } else {
                decent(header, body, stream);
            }
            true
        }));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(told), "{error} does not tell `{told}`");
    }
}

#[test]
fn a_mapping_beyond_the_file_is_refused() {
    for (offset, len) in [(0, 8192), (4096, 4096), (u64::MAX - 4095, 4096), (0, 100)] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let mut raw = Raw(theirs);
            let file = memfd(4096);
            loop {
                let mut bytes = [0; HEADER];
                if raw.0.read_exact(&mut bytes).is_err() {
                    return;
                }
                let header = decode_header(&bytes).unwrap();
                let mut body = vec![0; header.body_len()];
                raw.0.read_exact(&mut body).unwrap();
                if header.command == Command::RegionInfo as u16 {
                    let region = message::Region {
                        argsz: 0,
                        flags: 15,
                        index: 0,
                        size: 8192,
                        offset: 0,
                        areas: Some(vec![(offset, len)]),
                    };
                    raw.send_with(&Encoder::reply(&header).region(&region, 4096).finish(), &[file.as_fd()]);
                } else {
                    decent(&header, &body, &mut raw.0);
                }
            }
        });
        let error = connect(ours).unwrap_err().to_string();
        assert!(error.contains("to map"), "{error}");
        thread.join().unwrap();
    }
}

#[test]
fn hanging_up_or_silence_within_a_request_ends_in_time() {
    for silent in [false, true] {
        let client = connect(scripted(move |_, header, body, stream| {
            let last = header.command == Command::Reset as u16;
            if last && silent {
                std::thread::sleep(Duration::from_secs(2));
            } else if last {
                stream.write_all(&[0; 5]).unwrap(); // part of a header
            } else {
                decent(header, body, stream);
            }
            !last
        }))
        .unwrap();
        let started = Instant::now();
        let error = client.reset().unwrap_err();
        assert_eq!(matches!(error, Error::TimedOut { .. }), silent, "{error}");
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!(client.health(), Err(error));
        let bar = Pci::new(std::sync::Arc::new(client)).bar(0).unwrap();
        assert_eq!(bar.read32(0), u32::MAX);
    }
}

#[test]
fn a_server_that_only_ever_asks_is_given_up() {
    let client = connect(scripted(|_, header, body, stream| {
        if header.command != Command::Reset as u16 {
            decent(header, body, stream);
            return true;
        }
        let ask = Encoder::request(1, Command::DmaRead, flags::NO_REPLY).u64(0).u64(8).finish();
        while stream.write_all(&ask).is_ok() {}
        false
    }))
    .unwrap();
    let started = Instant::now();
    assert!(matches!(client.reset(), Err(Error::TimedOut { .. })));
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_server_reads_and_writes_memory_that_it_was_offered_and_no_other() {
    let client = connect(scripted(|_, header, body, stream| {
        if header.command != Command::RegionRead as u16 || body[8] == 7 {
            decent(header, body, stream);
            return true;
        }
        let mut ask = |message: Encoder| {
            stream.write_all(&message.finish()).unwrap();
            Raw(stream.try_clone().unwrap()).reply()
        };
        let write = |iova: u64, data: &[u8]| {
            Encoder::request(3, Command::DmaWrite, 0).u64(iova).u64(data.len() as u64).bytes(data)
        };
        let read = |iova: u64, count: u64| Encoder::request(4, Command::DmaRead, 0).u64(iova).u64(count);
        assert_eq!(ask(write(0x1_0FFE, b"ok")).1, 0);
        assert_eq!(ask(write(0x1_0FFF, b"no")).1, libc::EFAULT as u32);
        assert_eq!(ask(write(0xFFFF, b"no")).1, libc::EFAULT as u32);
        assert_eq!(ask(read(0x1_0FFD, 3)).2[16..], *b"\0ok");
        assert_eq!(ask(read(u64::MAX, 8)).1, libc::EFAULT as u32);
        assert_eq!(ask(read(0x1_0000, u64::MAX)).1, libc::EMSGSIZE as u32);
        assert_eq!(ask(Encoder::request(5, Command::Reset, 0)).1, EOPNOTSUPP);
        let mut odd = Encoder::request(6, Command::Reset, 0).bytes(&[1; 9]).finish();
        odd[2] = 200;
        stream.write_all(&odd).unwrap();
        assert_eq!(Raw(stream.try_clone().unwrap()).reply().1, EOPNOTSUPP);
        decent(header, body, stream);
        true
    }))
    .unwrap();
    let memory = Memory::new(PAGE);
    client.map_dma(&memory.range(0x1_0000, false)).unwrap();
    let mut word = [0; 4];
    client.read_bar(0, 0, &mut word).unwrap();
    assert_eq!((word, memory.read(4094, 2)), ([1; 4], b"ok".to_vec()));
}

#[test]
fn a_reply_to_something_else_is_the_end() {
    for (id, command) in [(1, 0_u16), (0, 1)] {
        let client = connect(scripted(move |_, header, body, stream| {
            if header.command == Command::Reset as u16 {
                let other = Header { id: header.id + id, command: header.command + command, ..*header };
                stream.write_all(&Encoder::reply(&other).finish()).unwrap();
                return true;
            }
            decent(header, body, stream);
            true
        }))
        .unwrap();
        assert!(matches!(client.reset(), Err(Error::Protocol { .. })));
    }
}

/// Messages that look right at first: a header that fits, a known command.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![Just(0_u8), Just(1), Just(2), Just(0x10), Just(0x24), Just(0xFF), any::<u8>()];
    let message = (0_u16..20, prop::collection::vec(field, 0..64), 0_u32..0x40);
    prop::collection::vec(message, 0..8).prop_map(|messages| {
        let encode = |(command, body, flags): (u16, Vec<u8>, u32)| {
            let mut bytes = Encoder::request(1, Command::Reset, flags).bytes(&body).finish();
            bytes[2..4].copy_from_slice(&command.to_le_bytes());
            bytes
        };
        messages.into_iter().flat_map(encode).collect()
    })
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_client_bears_any_server(bytes in plausible(), garbage: Vec<u8>) {
        client::feed(&bytes);
        client::feed(&garbage);
    }
}
