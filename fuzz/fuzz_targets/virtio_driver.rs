//! A device that lies: whatever it writes to the rings, the virtio driver does
//! not panic, packets stay inside their buffers and no buffer is lost.
#![no_main]

use fuzz::captive::{Act, Prison};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, acts)) = input.split_first() else { return };
    let acts: Vec<Act> = fuzz::acts(acts, 24).take(256).collect();
    Prison::open(way).run(&acts);
});
