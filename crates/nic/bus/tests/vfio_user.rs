//! Our vfio-user client against our server, in one process, over a socket.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bus::vfio_user::client::Client;
use bus::{Backend, BarKind, Error, Pci};
use common::{Memory, PAGE, Serving};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

fn eventfd_pair() -> (std::fs::File, OwnedFd) {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    (event.try_clone().unwrap().into(), event)
}

#[test]
fn identity_and_bus_mastering_go_through_config_space() {
    let serving = Serving::start();
    let pci = Pci::connect(serving.path()).unwrap();
    let ids = pci.ids().unwrap();
    assert_eq!((ids.vendor, ids.device, ids.revision, ids.class), (0x8086, 0x10FB, 1, 0x020000));
    assert_eq!(pci.name(), format!("vfio-user:{}", serving.path().display()));
    pci.set_bus_master(true).unwrap();
    assert_eq!(serving.state.lock().unwrap().config[4], 0x07);
    pci.set_bus_master(false).unwrap();
    assert_eq!(serving.state.lock().unwrap().config[4], 0x03);
    let mut all = vec![0; 4096];
    pci.read_config(0, &mut all).unwrap();
    assert!(matches!(pci.read_config(4095, &mut [0; 2]), Err(Error::Refused { errno: Errno::INVAL, .. })));
    pci.health().unwrap();
}

#[test]
fn trapped_registers_keep_their_order() {
    let serving = Serving::start();
    let bar = Pci::connect(serving.path()).unwrap().bar(0).unwrap();
    let register = bar.register(0x10);
    for value in 0..1000 {
        bar.write32(0x10, value);
        register.write(value + 1);
        assert_eq!(bar.read32(0x10), value + 1);
        assert_eq!(register.read(), value + 1);
    }
    bar.write64(0x20, 0x1122_3344_5566_7788);
    assert_eq!((bar.read8(0x20), bar.read16(0x22), bar.read64(0x20)), (0x88, 0x5566, 0x1122_3344_5566_7788));
    bar.set32(0x30, 0xF0);
    bar.clear32(0x30, 0x30);
    assert_eq!(bar.read32(0x30), 0xC0);
    assert_eq!(bar.faults(), 0);
}

#[test]
fn shared_pages_are_mapped_and_the_rest_is_trapped() {
    let serving = Serving::start();
    let bar = Pci::connect(serving.path()).unwrap().bar(0).unwrap();
    assert_eq!((bar.len(), bar.kind(), bar.mapped().len()), (8192, BarKind::Memory, 1));
    assert_eq!((bar.mapped()[0].offset(), bar.mapped()[0].len()), (4096, 4096));
    bar.register(0x1004).write(0xABCD_0123);
    bar.write32(0x1FFC, 7);
    let mut word = [0; 4];
    serving.shared.read_exact_at(&mut word, 0x1004).unwrap();
    assert_eq!(u32::from_le_bytes(word), 0xABCD_0123);
    serving.shared.write_all_at(&99_u32.to_le_bytes(), 0x1008).unwrap();
    assert_eq!((bar.read32(0x1008), bar.register(0x1FFC).read()), (99, 7));
    bar.write32(0xFFC, 5); // last word before the mapped page
    bar.read32(0xFFC);
    assert_eq!(serving.state.lock().unwrap().writes, [(0, 0xFFC, vec![5, 0, 0, 0])]);
}

#[test]
fn accesses_out_of_range_read_ones_and_are_counted() {
    let serving = Serving::start();
    let pci = Pci::connect(serving.path()).unwrap();
    let bar = pci.bar(0).unwrap();
    assert_eq!((bar.read32(8192), bar.read32(8190), bar.read64(u32::MAX)), (u32::MAX, u32::MAX, u64::MAX));
    bar.write32(8192, 1);
    assert_eq!(bar.faults(), 4);
    assert!(matches!(pci.bar(1), Err(Error::NoBar { index: 1, .. })));
    assert!(matches!(pci.bar(77), Err(Error::NoBar { index: 77, .. })));
    let ports = pci.bar(2).unwrap();
    assert_eq!((ports.kind(), ports.len()), (BarKind::Io, 16));
    ports.write8(3, 0x5A);
    assert_eq!(ports.read8(3), 0x5A);
    pci.health().unwrap();
}

#[test]
fn offered_memory_is_the_same_memory() {
    let serving = Serving::start();
    let pci = Pci::connect(serving.path()).unwrap();
    let memory = Memory::new(4 * PAGE);
    pci.map_dma(&memory.range(0x10_0000, true)).unwrap();
    {
        let state = serving.state.lock().unwrap();
        let (iova, len, file, offset) = &state.maps[0];
        assert_eq!((*iova, *len, *offset), (0x10_0000, 4 * PAGE as u64, 0));
        file.as_ref().unwrap().write_all_at(b"from the device", 100).unwrap();
    }
    assert_eq!(memory.read(100, 15), b"from the device");
    let shrunk = memory.file.set_len(0).unwrap_err();
    assert_eq!(shrunk.raw_os_error(), Some(libc::EPERM), "a device could be ended with SIGBUS");
    let again = pci.map_dma(&memory.range(0x10_2000, true));
    assert!(
        matches!(again, Err(Error::Refused { command: "DMA_MAP", errno: Errno::EXIST, .. })),
        "{again:?}"
    );
    pci.unmap_dma(0x50_0000, PAGE).expect("there is nothing to take back");
    pci.unmap_dma(0x10_0000, 4 * PAGE).unwrap();
    assert!(serving.state.lock().unwrap().maps.is_empty());
    // The file is too short for what the range claims.
    let beyond = memory.range_from(0x10_0000, Some(PAGE as u64));
    assert!(matches!(pci.map_dma(&beyond), Err(Error::Refused { errno: Errno::INVAL, .. })));
    let odd = memory.range(0x10_0001, true);
    assert!(matches!(pci.map_dma(&odd), Err(Error::Refused { errno: Errno::INVAL, .. })));
    serving.state.lock().unwrap().refuse_maps = true;
    let refused = pci.map_dma(&memory.range(0, true)).unwrap_err();
    assert!(matches!(refused, Error::Refused { errno: Errno::NOMEM, .. }), "{refused}");
    pci.health().unwrap();
    serving.state.lock().unwrap().refuse_maps = false;
    pci.map_dma(&memory.range(0x10_0000, true)).unwrap();
    // A part of a range stays a device's, so the memory could not go.
    assert!(matches!(pci.unmap_dma(0x10_0000, PAGE), Err(Error::Refused { errno: Errno::INVAL, .. })));
    pci.health().unwrap_err();
}

#[test]
fn interrupts_are_eventfds() {
    let serving = Serving::start();
    let pci = Pci::connect(serving.path()).unwrap();
    assert_eq!(pci.interrupt_vectors(), 4);
    let (mut reader, event) = eventfd_pair();
    pci.set_interrupt(3, Some(event.as_fd())).unwrap();
    let wired = serving.state.lock().unwrap().events[3].take();
    wired.unwrap().write_all(&5_u64.to_ne_bytes()).unwrap();
    let mut count = [0; 8];
    reader.read_exact(&mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 5);
    pci.set_interrupt(2, Some(event.as_fd())).unwrap();
    pci.set_interrupt(2, None).unwrap();
    assert!(serving.state.lock().unwrap().events[2].is_none());
    let none = pci.set_interrupt(4, Some(event.as_fd()));
    assert!(matches!(none, Err(Error::Refused { errno: Errno::INVAL, .. })), "{none:?}");
}

#[test]
fn reset_reaches_the_device() {
    let serving = Serving::start();
    let pci = Pci::connect(serving.path()).unwrap();
    let bar = pci.bar(0).unwrap();
    bar.write32(0, 1);
    pci.reset().unwrap();
    assert_eq!((bar.read32(0), serving.state.lock().unwrap().resets), (0, 1));
}

#[test]
fn a_second_client_is_refused_and_a_later_one_served() {
    let serving = Serving::start();
    let first = Pci::connect(serving.path()).unwrap();
    let second = Pci::connect(serving.path()).unwrap_err();
    assert!(second.to_string().contains("another client is attached"), "{second}");
    first.health().unwrap();
    drop(first);
    serving.until(|state| state.disconnects == 1);
    Pci::connect(serving.path()).unwrap();
}

#[test]
fn a_server_that_goes_away_is_told_by_health_and_reads_ones() {
    let mut serving = Serving::start();
    let pci = Pci::connect(serving.path()).unwrap();
    let bar = pci.bar(0).unwrap();
    bar.write32(0x1000, 7);
    let started = Instant::now();
    serving.stop();
    assert!(started.elapsed() < Duration::from_millis(400), "stopping took {:?}", started.elapsed());
    let gone = Error::HungUp { peer: pci.name() };
    assert_eq!(pci.health(), Err(gone.clone()));
    assert_eq!((bar.read32(0), bar.read8(1), bar.faults()), (u32::MAX, 0xFF, 2));
    assert_eq!(bar.read32(0x1000), 7, "mapped pages outlive the server");
    assert_eq!(pci.reset(), Err(gone));
    assert!(!serving.path().exists(), "the socket file is left over");
    let nobody = Pci::connect(serving.path()).unwrap_err();
    assert!(nobody.to_string().contains("start the model first"), "{nobody}");
}

#[test]
fn a_slow_answer_ends_the_connection_in_time() {
    let serving = Serving::start();
    let stream = UnixStream::connect(serving.path()).unwrap();
    let client = Client::over(stream, "slow".into(), Duration::from_millis(200)).unwrap();
    serving.state.lock().unwrap().slow = Duration::from_millis(1500);
    let started = Instant::now();
    let late = client.read_bar(0, 0, &mut [0; 4]).unwrap_err();
    assert!(matches!(late, Error::TimedOut { command: "REGION_READ", .. }), "{late}");
    assert!(started.elapsed() < Duration::from_millis(1000));
    assert_eq!(client.health(), Err(late), "a late answer must not be taken for another's");
}

#[test]
fn writes_outlast_the_message_ids() {
    let serving = Serving::start();
    let bar = Pci::connect(serving.path()).unwrap().bar(0).unwrap();
    for value in 0..70_000 {
        bar.write32(0, value); // more than there are message ids
    }
    assert_eq!((bar.read32(0), bar.faults()), (69_999, 0));
    assert_eq!(serving.state.lock().unwrap().writes.len(), 70_000);
}

#[test]
fn a_socket_whose_file_is_there_takes_connections() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..300).map(|n| directory.path().join(n.to_string())).collect();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let dialled = |path: &std::path::PathBuf| loop {
        match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                assert!(std::time::Instant::now() < end, "{} does not come", path.display());
            }
            outcome => break outcome.is_ok(),
        }
    };
    std::thread::scope(|scope| {
        let dialling = scope.spawn(|| paths.iter().filter(|path| !dialled(path)).count());
        let servers = paths.iter().map(|path| bus::vfio_user::server::Server::bind(path).unwrap());
        let _servers: Vec<_> = servers.collect();
        assert_eq!(dialling.join().unwrap(), 0, "so many were refused");
    });
}

#[test]
fn a_path_that_no_socket_can_have_is_refused_by_its_length() {
    let path = |bytes: usize| std::path::PathBuf::from(format!("/{}", "x".repeat(bytes - 1)));
    let said = bus::vfio_user::server::Server::bind(&path(120)).unwrap_err().to_string();
    assert!(said.contains("at most 106 bytes, this one has 120: choose a shorter one"), "{said}");
    let said = Client::connect(&path(108), bus::Trust::Hostile, &Default::default()).unwrap_err().to_string();
    assert!(said.contains("at most 107 bytes, this one has 108"), "{said}");
    let said = bus::vhost_user::Frontend::connect(&path(108)).unwrap_err().to_string();
    assert!(said.contains("at most 107 bytes, this one has 108"), "{said}");
}

#[test]
fn sockets_are_taken_over_from_the_dead_only() {
    let serving = Serving::start();
    let busy = bus::vfio_user::server::Server::bind(serving.path()).unwrap_err();
    assert!(busy.to_string().contains("another process serves this socket"), "{busy}");
    let directory = tempfile::tempdir().unwrap();
    let stale = directory.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    drop(bus::vfio_user::server::Server::bind(&stale).unwrap());
    assert!(!stale.exists());
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    bus::vfio_user::server::Server::bind(&file).unwrap_err();
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}
