//! Any packets through an element of any class, with its example's configuration: no
//! panic and no hang.
//!
//! The first two bytes choose the class; then each packet is a byte of length, one
//! that says which headers are said to be found, and its bytes.
#![no_main]

use std::sync::OnceLock;

use element::trial::{Raw, Trial};
use graph::Registry;
use libfuzzer_sys::fuzz_target;

/// The classes of all elements.
fn registry() -> Registry {
    element::registry().with(analysis::registry())
}

/// Classes that something comes into, and that need nothing from outside, each with the
/// numbers of ports that its element can do with.
fn classes() -> &'static [(&'static str, (usize, usize))] {
    static CLASSES: OnceLock<Vec<(&'static str, (usize, usize))>> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let all = registry();
        let named = all.iter().filter(|(name, class)| *name == class.name && !class.ports.starts_with("0/"));
        named.filter_map(|(name, _)| Some((name, Trial::of(name, &all).ok()?.ports))).collect()
    })
}

/// The packets that the rest of an input stands for.
fn packets(mut bytes: &[u8]) -> Vec<Raw> {
    let mut all = vec![];
    while let [length, flags, rest @ ..] = bytes {
        let (packet, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        let at = if flags & 4 == 0 { 0 } else { 14 };
        let network = (flags & 1 != 0).then_some(at);
        let transport = (flags & 2 != 0).then_some(at + (flags >> 4) * 4);
        let notes = if flags & 8 == 0 { vec![] } else { packet.iter().rev().take(48).copied().collect() };
        all.push(Raw { bytes: packet.to_vec(), network, transport, notes });
        bytes = rest;
    }
    all
}

fuzz_target!(|input: &[u8]| {
    let [high, low, rest @ ..] = input else { return };
    let chosen = usize::from(u16::from_be_bytes([*high, *low])) % classes().len();
    let (name, ports) = classes()[chosen];
    if let Ok(mut trial) = Trial::with_ports(name, ports, &registry()) {
        trial.send(packets(rest));
    }
});
