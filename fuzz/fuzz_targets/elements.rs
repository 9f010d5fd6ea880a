//! Any packets through an element of any class, with its example's configuration: no
//! panic and no hang.
//!
//! The first two bytes choose the class; the rest is packets, as `fuzz::packets` has them.
#![no_main]

use std::cell::LazyCell;

use element::trial::{Configuration, Trial};
use libfuzzer_sys::fuzz_target;

/// Packet buffers of a run.
const BUFFERS: usize = 64;

thread_local! {
    /// Classes that something comes into, and that need nothing from outside, each with a
    /// number made of its name, in order.
    static CLASSES: LazyCell<Vec<(u16, Configuration)>> = LazyCell::new(|| {
        let all = element::registry().with(analysis::registry());
        let named = all.iter().filter(|(name, class)| *name == class.name && !class.ports.starts_with("0/"));
        let mut classes: Vec<_> =
            named.filter_map(|(name, _)| Some((number(name), Trial::of(name, &all).ok()?.1))).collect();
        classes.sort_by_key(|(number, _)| *number);
        classes
    });
}

/// A number that a class keeps when others come and go, so that inputs do (FNV-1a).
fn number(name: &str) -> u16 {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    (name.bytes().fold(0x811C_9DC5, hash) >> 16) as u16
}

fuzz_target!(|input: &[u8]| {
    let [high, low, rest @ ..] = input else { return };
    let wanted = u16::from_be_bytes([*high, *low]);
    CLASSES.with(|classes| {
        let next = classes.partition_point(|(number, _)| *number < wanted) % classes.len();
        let (_, configuration) = &classes[next];
        let trial = configuration.build(&fuzz::dma::space(), BUFFERS);
        trial.unwrap_or_else(|error| panic!("{error}")).send(fuzz::packets::of(rest));
    });
});
