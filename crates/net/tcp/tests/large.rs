//! Packets of several segments ask of the port only what ports do right.
#![allow(clippy::unwrap_used)]

mod common;

use common::rig::{Rig, Sent};
use tcp::{Offload, Options};
use wire::tcp::Flags;

const SIZE: usize = 1460;

/// The port cuts packets of many segments.
fn cutting() -> Options {
    Options { offload: Offload { checksum: true, buffers: 33 }, ..Options::default() }
}

fn is_large(sent: &Sent, size: usize) -> bool {
    sent.payload.len() > size
}

/// The XL710 is given no packet to cut into segments of fewer than 256 bytes.
#[test]
fn small_segments_go_out_one_by_one() {
    for size in [200, 255, 256] {
        let (mut rig, id) = Rig::open_as(cutting(), |syn| syn.max_segment = Some(size));
        let sent = rig.write(id, 10 * usize::from(size));
        let len: usize = sent.iter().map(|sent| sent.payload.len()).sum();
        assert_eq!(len, 10 * usize::from(size));
        assert_eq!(sent.iter().any(|sent| is_large(sent, size.into())), size == 256, "{sent:?}");
        rig.check();
    }
}

/// RFC 3168, section 6.1.2: CWR stands in one segment, the first one behind the reduction. Ports
/// may copy it into all that they cut.
#[test]
fn cwr_stands_in_a_packet_of_one_segment() {
    let (mut rig, id) = Rig::open_as(cutting(), |syn| syn.flags = syn.flags | Flags::ECE | Flags::CWR);
    let first = rig.write(id, 10 * SIZE);
    assert!(first.iter().any(|sent| is_large(sent, SIZE)), "{}", first.len());
    rig.acknowledgement = rig.acknowledgement.wrapping_add(10 * SIZE as u32);
    rig.send(Flags::ACK | Flags::ECE, &[]);
    let sent = rig.write(id, 5 * SIZE);
    let cwr: Vec<bool> = sent.iter().map(|sent| sent.header.flags.contains(Flags::CWR)).collect();
    assert!(cwr[0] && !cwr[1..].contains(&true), "{cwr:?}");
    assert_eq!(sent[0].payload.len(), SIZE);
    assert!(is_large(&sent[1], SIZE), "the others need not go one by one");
    rig.check();
}
