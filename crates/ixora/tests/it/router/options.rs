//! What elements ask of their ports, seen on the wire.

use crate::frame::ethernet;
use crate::rig::{Hosts, Rig};

const TAG: [u8; 4] = [0x81, 0x00, 0x60, 0x05];

/// What comes out of the second port when these frames go into the first.
fn through(path: &str, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let place = tempfile::tempdir().expect("a directory");
    let (hosts, wires) = Hosts::on(place.path(), 2);
    let mut rig = Rig::new(path, &["P0", "P1"], 1, &wires);
    let heard = rig.run(|_| {
        let one = |frame: &Vec<u8>| {
            hosts[0].send(frame);
            hosts[1].next()
        };
        frames.iter().map(one).collect()
    });
    assert!(rig.findings().is_empty(), "{:#?}", rig.findings());
    heard
}

#[test]
fn a_port_takes_tags_off_into_the_annotation() {
    let plain = ethernet([2, 0, 0, 0, 0, 1], [2; 6], 0x0800, &[7; 80]);
    let tagged = [&plain[..12], &TAG, &plain[12..]].concat();
    let frames = [tagged.clone(), plain.clone()];
    let kept = through("FromDevice($P0) -> ToDevice($P1)", &frames);
    assert_eq!(kept, frames);
    let off = through("FromDevice($P0, VLAN_STRIP true) -> ToDevice($P1)", &frames);
    assert_eq!(off, [plain.clone(), plain]);
    let on_again = through("FromDevice($P0, VLAN_STRIP true) -> VLANEncap(ANNO) -> ToDevice($P1)", &frames);
    assert_eq!(on_again, frames);
}

#[test]
fn frames_as_long_as_the_mtu_pass() {
    let frame = ethernet([2, 0, 0, 0, 0, 1], [2; 6], 0x0800, &[7; 1900]);
    let long = through("FromDevice($P0, MTU 1900) -> ToDevice($P1, MTU 1900)", std::slice::from_ref(&frame));
    assert_eq!(long, [frame]);
}
