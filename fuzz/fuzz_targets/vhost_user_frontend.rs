//! A back end that says anything: the front end must refuse it, never panic or
//! hang.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bus::vhost_user::feed(bytes));
