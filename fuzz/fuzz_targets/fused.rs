//! Any packets through elements that `ixora compile` fused: no panic, and what the same
//! elements do with them when they are not fused.
#![no_main]

use fuzz::fused::Both;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static BOTH: Both = Both::default();
}

fuzz_target!(|input: &[u8]| {
    BOTH.with(|both| both.run(fuzz::packets::of(input).into_iter().map(|packet| packet.bytes)));
});
