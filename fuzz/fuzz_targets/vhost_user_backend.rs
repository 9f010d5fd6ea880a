//! A front end that says anything, with memory and the virtio model behind the
//! session: refused by name, never a panic or a hang.
#![no_main]

use std::os::fd::AsFd;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // The first half is what memory holds, where rings may be.
    let (page, said) = input.split_at(input.len() / 2);
    let cable = testbed::wire::Cable::open(&"gen:count=8".parse().expect("a wire")).expect("a cable");
    let device = testbed::virtio::open(&testbed::virtio::Options::default(), cable);
    let memory = rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::ALLOW_SEALING).expect("memory");
    rustix::fs::ftruncate(&memory, 1 << 16).expect("memory");
    let _ = rustix::io::pwrite(memory.as_fd(), page, 0);
    testbed::vhost_user::feed(device, memory, 1 << 16, said).expect("a session");
});
