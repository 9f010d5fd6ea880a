//! A server that says anything: the client must refuse it, never panic or hang.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bus::vfio_user::client::feed(bytes));
