//! A driver that lies: whatever it does to registers, rings and memory, the
//! virtio model does not panic, a step ends and the accounts balance.
#![no_main]

use fuzz::rings::{Act, Rings};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, acts)) = input.split_first() else { return };
    let acts: Vec<Act> = fuzz::acts(acts, 48).collect();
    Rings::new(way).run(&acts);
});
