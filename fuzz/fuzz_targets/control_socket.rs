//! Whatever a client of a control socket sends: every request is taken off the front
//! of its bytes, none is empty, and none reaches behind them.
#![no_main]

use element::control::protocol::{Parsed, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for closed in [false, true] {
        let mut rest = bytes;
        while !rest.is_empty() {
            match parse(rest, closed) {
                Parsed::Wait => break,
                Parsed::Request(_, length) => {
                    assert!(length > 0 && length <= rest.len());
                    rest = &rest[length..];
                }
            }
        }
        assert!(!closed || rest.is_empty());
    }
});
