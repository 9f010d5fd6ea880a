//! A driver that lies: whatever it does to registers, commands, contexts, rings and memory, the
//! model of the XL710, or of an X722, does not panic, a step ends and the accounts balance.
#![no_main]

use fuzz::xl710::{Act, Rig};
use regs::i40e::Family;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, acts)) = input.split_first() else { return };
    let acts: Vec<Act> = fuzz::acts(acts, 40).collect();
    let family = if way & 8 != 0 { Family::X722 } else { Family::Xl710 };
    Rig::new(family, way % 4 != 0, way & 4 != 0).run(&acts);
});
