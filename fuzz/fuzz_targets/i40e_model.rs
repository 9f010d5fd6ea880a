//! A driver that lies: whatever it does to registers, commands, contexts, rings and memory, the
//! model of the XL710 does not panic, a step ends and the accounts balance.
#![no_main]

use fuzz::xl710::{Act, Rig};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, acts)) = input.split_first() else { return };
    let acts: Vec<Act> = fuzz::acts(acts, 40).collect();
    Rig::new(way % 4 != 0, way & 4 != 0).run(&acts);
});
