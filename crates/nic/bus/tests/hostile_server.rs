//! Servers that misbehave towards our client: wrong answers, late ones, none, and requests for memory
//! that was never offered or is gone.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bus::vfio_user::client;
use bus::vfio_user::message::{self, Command, Encoder, HEADER, Header, decode_header, flags};
use bus::{Backend, Error, Pci, sigbus};
use common::raw::{EOPNOTSUPP, Raw, connect, decent, plausible, scripted};
use common::{Memory, PAGE, memfd};
use proptest::prelude::*;

#[test]
fn wrong_answers_while_connecting_are_errors() {
    type Mutation = fn(Encoder) -> Encoder;
    let mutations: [(&str, Command, Mutation); 10] = [
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
    for (told, at, mutate) in mutations {
        let error = connect(scripted(move |_, header, body, stream| {
            if header.command == at as u16 {
                stream.write_all(&mutate(Encoder::reply(header)).finish()).unwrap();
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

/// Whatever a server answers, memory that the driver took back is no longer its to write.
#[test]
fn a_refused_unmap_leaves_the_server_no_memory() {
    let (tell, told) = std::sync::mpsc::channel();
    let client = connect(scripted(move |_, header, body, stream| {
        if header.command != Command::DmaUnmap as u16 {
            decent(header, body, stream);
            return true;
        }
        let write =
            |id| Encoder::request(id, Command::DmaWrite, 0).u64(0x1_0000).u64(4).bytes(b"late").finish();
        // Before the answer, while the driver waits for it, and after it.
        stream.write_all(&write(1)).unwrap();
        let early = Raw(stream.try_clone().unwrap()).reply().1;
        stream.write_all(&Encoder::error(header, rustix::io::Errno::INVAL)).unwrap();
        let _ = stream.write_all(&write(2)); // the connection may be gone
        tell.send(early).unwrap();
        true
    }))
    .unwrap();
    let memory = Memory::new(PAGE);
    client.map_dma(&memory.range(0x1_0000, false)).unwrap();
    let error = client.unmap_dma(0x1_0000, PAGE).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_eq!(told.recv().unwrap(), libc::EFAULT as u32);
    assert_eq!(client.health(), Err(error.clone()), "the connection ends");
    assert_eq!(client.read_bar(0, 0, &mut [0; 4]), Err(error));
    assert_eq!(memory.read(0, 4), [0; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_client_bears_any_server(bytes in plausible(), garbage: Vec<u8>) {
        client::feed(&bytes);
        client::feed(&garbage);
    }
}

/// Where it was there may be somebody else's memory when a page of a peer's goes next.
#[test]
fn memory_that_is_taken_back_after_a_fault_is_not_watched_any_more() {
    let client = connect(scripted(|_, header, body, stream| {
        let is_last = header.command == Command::Reset as u16;
        if !is_last {
            decent(header, body, stream);
        }
        !is_last
    }))
    .unwrap();
    let memory = Memory::new(PAGE);
    let at = memory.mapping.base().addr();
    client.map_dma(&memory.range(0x10_0000, true)).unwrap();
    assert!(sigbus::is_watched(at));
    let fault = client.reset().unwrap_err();
    assert!(sigbus::is_watched(at), "the memory is still offered");
    assert_eq!(client.unmap_dma(0x10_0000, PAGE), Err(fault));
    assert!(!sigbus::is_watched(at));
}
