//! Peers that take away memory which both have mapped: refused where it is possible, and
//! else the end of the connection, not of the process.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/vhost_backend.rs"]
mod vhost_backend;

use std::sync::Arc;

use bus::{Backend, Error, Pci, Result, Trust};
use common::{Memory, PAGE, Serving, memfd, unsealable};
use vhost_backend::{Recorder, serve};

fn connect(serving: &Serving, trust: Trust) -> Result<Pci> {
    Pci::connect_until(serving.path(), trust, &Arc::default())
}

fn says(result: Result<impl std::fmt::Debug>, words: &[&str]) {
    let error = result.unwrap_err().to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

#[test]
fn register_pages_that_could_go_are_refused() {
    let serving = Serving::sharing(unsealable(2 * PAGE));
    let refused = connect(&serving, Trust::Hostile);
    assert!(matches!(refused, Err(Error::Setup { .. })));
    says(refused, &["register pages", "cannot be sealed", "MFD_ALLOW_SEALING", ",allow-unsealed"]);
}

#[test]
fn register_pages_that_are_no_memory_are_refused_always() {
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let directory = std::fs::File::open("/tmp").unwrap();
    // Takes no seals, as no file on a disk does; a temporary file may be on a tmpfs.
    let proc = std::fs::File::open("/proc/self/status").unwrap();
    for file in [socket.into(), directory.into(), proc.into()] {
        let serving = Serving::sharing(file);
        says(connect(&serving, Trust::Peer), &["not memory"]);
    }
}

#[test]
fn a_server_that_truncates_its_register_pages_loses_its_driver_only() {
    let serving = Serving::sharing(unsealable(2 * PAGE));
    let other = Serving::start();
    let pci = connect(&serving, Trust::Peer).unwrap();
    let decent = connect(&other, Trust::Hostile).unwrap();
    let (bar, decent_bar) = (pci.bar(0).unwrap(), decent.bar(0).unwrap());
    bar.write32(0x1000, 5);
    decent_bar.write32(0x1000, 6);
    serving.shared.set_len(0).unwrap();
    assert_eq!(bar.read32(0x1000), 0);
    bar.write32(0x1FFC, 7);
    says(pci.health(), &["took away pages", "SIGBUS"]);
    assert_eq!(pci.reset(), pci.health(), "the connection is at its end");
    decent.health().unwrap();
    assert_eq!(decent_bar.read32(0x1000), 6);
}

#[test]
fn packet_memory_that_could_go_is_not_given_away() {
    let serving = Serving::start();
    let memory = Memory::of(unsealable(PAGE), PAGE);
    let pci = connect(&serving, Trust::Hostile).unwrap();
    let words = ["packet memory", "cannot be sealed", "--hugepages memfd", ",allow-unsealed"];
    says(pci.map_dma(&memory.range(0, true)), &words);
    pci.health().unwrap();
    assert!(serving.state.lock().unwrap().maps.is_empty());
    let (frontend, _recorder) = serve(Recorder::default());
    says(frontend.map_dma(&memory.range(0, true)), &words);
    frontend.health().unwrap();
}

#[test]
fn packet_memory_is_sealed_before_a_server_has_it() {
    let serving = Serving::start();
    let pci = connect(&serving, Trust::Hostile).unwrap();
    let memory = Memory::new(PAGE);
    pci.map_dma(&memory.range(0, true)).unwrap();
    serving.state.lock().unwrap().maps[0].2.as_ref().unwrap().set_len(0).unwrap_err();
    let memory = Memory::of(memfd(PAGE), PAGE);
    let (frontend, _recorder) = serve(Recorder::default());
    frontend.map_dma(&memory.range(0, true)).unwrap();
    memory.file.set_len(0).unwrap_err();
}

#[test]
fn a_server_that_truncates_packet_memory_loses_its_driver_only() {
    let serving = Serving::start();
    let pci = connect(&serving, Trust::Peer).unwrap();
    let memory = Memory::of(unsealable(2 * PAGE), 2 * PAGE);
    pci.map_dma(&memory.range(0, true)).unwrap();
    serving.state.lock().unwrap().maps[0].2.as_ref().unwrap().set_len(PAGE as u64).unwrap();
    // SAFETY: the second page of the mapping.
    let word = unsafe { memory.mapping.base().add(PAGE).cast::<u32>().read_volatile() };
    assert_eq!(word, 0);
    says(pci.health(), &["took away pages"]);
}

#[test]
fn a_back_end_that_truncates_packet_memory_loses_its_driver_only() {
    let (frontend, _recorder) = serve(Recorder::default());
    let frontend = frontend.trusting(Trust::Peer);
    let memory = Memory::of(unsealable(PAGE), PAGE);
    frontend.map_dma(&memory.range(0, true)).unwrap();
    frontend.health().unwrap();
    memory.file.set_len(0).unwrap();
    // SAFETY: the first byte of the mapping.
    unsafe { memory.mapping.base().write_volatile(1) };
    says(frontend.health(), &["took away pages"]);
}
