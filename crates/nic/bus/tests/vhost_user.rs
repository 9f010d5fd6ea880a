//! Our vhost-user front end against the back end of crate `vhost`, which nobody
//! here wrote, and against back ends that misbehave.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/vhost_backend.rs"]
mod vhost_backend;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bus::vhost_user::message::{HEADER, Header, Request, protocol};
use bus::vhost_user::{Frontend, Listener, PACKED_START, VhostRing};
use bus::{Backend, DmaRange, Error, sigbus};
use common::{Memory, PAGE};
use rustix::event::{EventfdFlags, eventfd};
use vhost_backend::{Recorder, serve};

const LIMIT: Duration = Duration::from_millis(300);

fn range(memory: &Memory, iova: u64, page: usize) -> DmaRange<'_> {
    let addr = memory.mapping.base().wrapping_add(page * PAGE);
    let file = Some((memory.file.as_fd(), (page * PAGE) as u64));
    // SAFETY: a page of the memory; the front end hands it on and touches nothing.
    unsafe { DmaRange::new(addr, PAGE, iova, file) }
}

fn ring(iova: u64) -> VhostRing {
    VhostRing { size: 64, descriptors: iova, driver: iova + 1024, device: iova + 2048, base: PACKED_START }
}

fn event() -> std::os::fd::OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

#[test]
fn a_foreign_back_end_learns_memory_and_rings() {
    for slots in [false, true] {
        let (frontend, recorder) = serve(Recorder { slots, ..Recorder::default() });
        assert_eq!((frontend.features(), frontend.queue_pairs()), (1 << 32 | 1 << 34, 2));
        let memory = Memory::new(2 * PAGE);
        frontend.map_dma(&range(&memory, 0x10_0000, 1)).unwrap();
        frontend.set_features(1 << 32).unwrap();
        let (kick, call) = (event(), event());
        frontend.set_interrupt(3, Some(call.as_fd())).unwrap();
        frontend.start_ring(1, &ring(0x10_0100), kick.as_fd(), Some(3)).unwrap();
        frontend.enable_ring(1, true).unwrap();

        let base = memory.mapping.base().addr() as u64 + PAGE as u64;
        {
            let seen = recorder.lock().unwrap();
            assert_eq!(seen.features, 1 << 32 | 1 << 30);
            assert_eq!(seen.regions, [(0x10_0000, PAGE as u64, base, PAGE as u64)]);
            assert_eq!(seen.addresses, Some((1, base + 0x100, base + 0x100 + 2048, base + 0x100 + 1024)));
            assert_eq!((seen.size, seen.base, seen.enabled), (64, 0x8000_8000, Some((1, true))));
            seen.call.as_ref().unwrap().write_all(&1_u64.to_ne_bytes()).unwrap();
            let mut count = [0; 8];
            assert_eq!(rustix::io::read(&call, &mut count), Ok(8));
            rustix::io::write(&kick, &3_u64.to_ne_bytes()).unwrap();
            seen.kick.as_ref().unwrap().read_exact(&mut count).unwrap();
            assert_eq!(u64::from_ne_bytes(count), 3);
        }
        frontend.set_interrupt(3, None).unwrap();
        assert!(recorder.lock().unwrap().call.is_none());
        // Memory that comes and goes while a ring runs is told of at once.
        frontend.map_dma(&range(&memory, 0x20_0000, 0)).unwrap();
        assert_eq!(recorder.lock().unwrap().regions.len(), 2);
        frontend.unmap_dma(0x20_0000, PAGE).unwrap();
        assert_eq!(recorder.lock().unwrap().regions.len(), 1);
        assert_eq!(frontend.stop_ring(1).unwrap(), 0x8007_8009);
        frontend.health().unwrap();
    }
}

#[test]
fn what_it_does_not_have_is_refused_here() {
    let (frontend, recorder) = serve(Recorder::default());
    let (kick, memory) = (event(), Memory::new(PAGE));
    let start = |index, iova| frontend.start_ring(index, &ring(iova), kick.as_fd(), None);
    assert!(frontend.set_features(1 << 5).unwrap_err().to_string().contains("0x20 were not offered"));
    assert!(start(0, 0).unwrap_err().to_string().contains("no memory is mapped"));
    frontend.map_dma(&range(&memory, 0, 0)).unwrap();
    assert!(start(4, 0).unwrap_err().to_string().contains("there is no ring 4"));
    assert!(start(0, 0x5000).unwrap_err().to_string().contains("outside of mapped memory"));
    for n in 1..8 {
        frontend.map_dma(&range(&memory, n << 20, 0)).unwrap();
    }
    let ninth = frontend.map_dma(&range(&memory, 9 << 20, 0)).unwrap_err();
    assert!(ninth.to_string().contains("no more than 8 memory regions"), "{ninth}");
    // SAFETY: as in `range`.
    let anonymous = unsafe { DmaRange::new(memory.mapping.base(), PAGE, 9 << 20, None) };
    assert!(matches!(frontend.map_dma(&anonymous), Err(Error::Unsupported { .. })));
    recorder.lock().unwrap().refuse = true;
    let refused = start(0, 0).unwrap_err();
    assert!(matches!(refused, Error::Refused { command: "SET_VRING_NUM", .. }), "{refused}");
    frontend.health().unwrap();
}

#[test]
fn its_end_is_noticed() {
    let (frontend, recorder) = serve(Recorder::default());
    let (kick, memory) = (event(), Memory::new(PAGE));
    frontend.map_dma(&range(&memory, 0, 0)).unwrap();
    frontend.start_ring(0, &ring(0), kick.as_fd(), None).unwrap();
    frontend.health().unwrap();
    recorder.lock().unwrap().error.as_ref().unwrap().write_all(&1_u64.to_ne_bytes()).unwrap();
    assert!(frontend.health().unwrap_err().to_string().contains("gave up a ring"));

    let (stream, peer) = UnixStream::pair().unwrap();
    let answering = thread::spawn(move || converse(peer, &mut |_| Some(0_u64.to_le_bytes().to_vec()), 2));
    let frontend = Frontend::over(stream, "vhost-user:test".to_owned(), LIMIT).unwrap();
    answering.join().unwrap();
    assert_eq!(frontend.health(), Err(Error::HungUp { peer: "vhost-user:test".to_owned() }));
    assert_eq!(frontend.stop_ring(0), Err(Error::HungUp { peer: "vhost-user:test".to_owned() }));
}

/// Where it was there may be somebody else's memory when a page of a peer's goes next.
#[test]
fn memory_that_is_taken_back_after_a_fault_is_not_watched_any_more() {
    let (stream, peer) = UnixStream::pair().unwrap();
    let answering = thread::spawn(move || converse(peer, &mut |_| Some(0_u64.to_le_bytes().to_vec()), 2));
    let frontend = Frontend::over(stream, "vhost-user:test".to_owned(), LIMIT).unwrap();
    answering.join().unwrap();
    let memory = Memory::new(PAGE);
    let at = memory.mapping.base().addr();
    frontend.map_dma(&range(&memory, 0x10_0000, 0)).unwrap();
    assert!(sigbus::is_watched(at));
    let fault = frontend.health().unwrap_err();
    assert!(sigbus::is_watched(at), "the memory is still offered");
    assert_eq!(frontend.unmap_dma(0x10_0000, PAGE), Err(fault));
    assert!(!sigbus::is_watched(at));
}

#[test]
fn a_back_end_may_connect_to_us() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let none = Frontend::listen(&path, Some(Duration::from_millis(20)), None).unwrap_err();
    assert!(none.to_string().contains("no back end connected"));
    let connecting = path.clone();
    let peer = thread::spawn(move || {
        let connect = || UnixStream::connect(&connecting).ok();
        let stream = std::iter::repeat_with(connect).find_map(|stream| stream).unwrap();
        converse(stream, &mut |_| Some(0_u64.to_le_bytes().to_vec()), 2);
    });
    Frontend::listen(&path, Some(Duration::from_secs(5)), None).unwrap();
    peer.join().unwrap();
    assert!(!path.exists());
    let _first = Listener::bind(&path).unwrap();
    assert!(Listener::bind(&path).is_err(), "a socket in use is not taken");
}

/// Reads `count` requests and answers each with what `answer` says.
fn converse(mut stream: UnixStream, answer: &mut dyn FnMut(Header) -> Option<Vec<u8>>, count: usize) {
    for _ in 0..count {
        let mut bytes = [0; HEADER];
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        let header = Header::decode(&bytes);
        let mut body = vec![0; header.size as usize];
        stream.read_exact(&mut body).unwrap();
        let asks = [1, 15, 17, 36].contains(&header.request) || header.flags & 8 != 0;
        if let (true, Some(body)) = (asks, answer(header)) {
            let head = [header.request, 5, body.len() as u32].map(u32::to_le_bytes).concat();
            let _ = stream.write_all(&[head, body].concat());
        }
    }
}

/// Connects to a back end that writes `bytes` after having read what comes.
fn meet(bytes: Vec<u8>, linger: Duration) -> Error {
    let (stream, mut peer) = UnixStream::pair().unwrap();
    let peer = thread::spawn(move || {
        peer.write_all(&bytes).unwrap();
        thread::sleep(linger);
        drop(peer);
    });
    let begin = Instant::now();
    let error = Frontend::over(stream, "vhost-user:test".to_owned(), LIMIT).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(2), "{error} took {:?}", begin.elapsed());
    peer.join().unwrap();
    error
}

fn head(request: u32, flags: u32, size: u32) -> Vec<u8> {
    [request, flags, size].map(u32::to_le_bytes).concat()
}

#[test]
fn lies_end_the_session_by_name() {
    let long = LIMIT * 2;
    let timed_out =
        |error| assert!(matches!(error, Error::TimedOut { command: "GET_FEATURES", .. }), "{error}");
    timed_out(meet(Vec::new(), long));
    timed_out(meet(head(1, 5, 8)[..7].to_vec(), long));
    timed_out(meet([head(1, 5, 8), vec![0; 7]].concat(), long));
    let hung_up = |error| assert!(matches!(error, Error::HungUp { .. }), "{error}");
    hung_up(meet(Vec::new(), Duration::ZERO));
    hung_up(meet(head(1, 5, 8), Duration::ZERO));
    let broke = |bytes, words: &str| {
        let error = meet(bytes, LIMIT);
        assert!(error.to_string().contains(words), "{error}");
    };
    broke(head(2, 5, 8), "it sent message 2");
    broke(head(1, 1, 8), "with flags 0x1");
    broke(head(1, 6, 8), "with flags 0x6");
    broke(head(1, 5, u32::MAX), "claims 4294967295 bytes");
    broke([head(1, 5, 4), vec![0; 4]].concat(), "has 4 bytes, not 8");
    let features = |request| [head(request, 5, 8), u64::MAX.to_le_bytes().to_vec()].concat();
    let none = [head(17, 5, 8), vec![0; 8]].concat();
    broke([features(1), features(15), none.clone()].concat(), "it has no queue pair");
    let room = [head(36, 5, 8), vec![0; 8]].concat();
    broke([features(1), features(15), features(17), room].concat(), "no room for memory");
}

/// A back end that takes some regions: what it has is taken back though the ring did not start.
#[test]
fn regions_before_one_that_is_refused_are_taken_back() {
    let (frontend, recorder) = serve(Recorder { slots: true, most: Some(2), ..Recorder::default() });
    let (kick, memory) = (event(), Memory::new(PAGE));
    let start = || frontend.start_ring(0, &ring(0), kick.as_fd(), None);
    (0..3).for_each(|n| frontend.map_dma(&range(&memory, n << 20, 0)).unwrap());
    let has = || recorder.lock().unwrap().regions.len();
    for _ in 0..2 {
        let refused = start().unwrap_err();
        assert!(matches!(refused, Error::Refused { command: "ADD_MEM_REG", .. }), "{refused}");
        assert_eq!(has(), 2, "each is told once");
    }
    frontend.unmap_dma(1 << 20, PAGE).unwrap();
    start().unwrap();
    assert_eq!(has(), 2);
    [0, 2].iter().for_each(|n| frontend.unmap_dma(n << 20, PAGE).unwrap());
    assert_eq!(has(), 0);
}

#[test]
fn a_drip_of_bytes_does_not_stretch_the_limit() {
    let (stream, mut peer) = UnixStream::pair().unwrap();
    let peer = thread::spawn(move || {
        for byte in head(1, 5, 8).into_iter().chain([0; 8]) {
            if peer.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(LIMIT / 4);
        }
    });
    let error = Frontend::over(stream, "vhost-user:test".to_owned(), LIMIT).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    peer.join().unwrap();
}

#[test]
fn without_protocol_features_rings_need_no_enabling() {
    let (stream, peer) = UnixStream::pair().unwrap();
    let answering = thread::spawn(move || converse(peer, &mut |_| Some(0_u64.to_le_bytes().to_vec()), 2));
    let frontend = Arc::new(Frontend::over(stream, "vhost-user:test".to_owned(), LIMIT).unwrap());
    assert_eq!((frontend.protocol_features(), frontend.queue_pairs()), (0, 1));
    answering.join().unwrap();
    frontend.enable_ring(0, true).unwrap(); // says nothing to a peer that is gone
    frontend.set_status(7).unwrap();
    assert_eq!(frontend.status(), Ok(7));
    assert!(matches!(frontend.config(0, &mut [0; 6]), Err(Error::Unsupported { .. })));
    assert_eq!(Request::SetVringAddr.name(), "SET_VRING_ADDR");
    assert_eq!(protocol::WANTED & 1 << 1, 0, "no logging");
}

/// A socket whose queue of connections is full, of a process that takes none.
#[test]
fn who_takes_no_connection_is_given_up() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let new = || {
        let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
        rustix::net::socket_with(unix, stream, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None).unwrap()
    };
    let (socket, address) = (new(), SocketAddrUnix::new(&path).unwrap());
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let mut queued = Vec::new();
    let full = (0..10).any(|_| {
        queued.push(new());
        rustix::net::connect(&queued[queued.len() - 1], &address).is_err()
    });
    assert!(full);
    let begin = Instant::now();
    assert!(Frontend::connect(&path).unwrap_err().to_string().contains("connecting to"));
    assert!(Listener::bind(&path).unwrap_err().to_string().contains("another process serves"));
    assert!(begin.elapsed() < Duration::from_secs(20));
}
