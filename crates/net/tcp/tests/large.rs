//! Packets of several segments ask of the port only what ports do right.
#![allow(clippy::unwrap_used)]

mod common;

use common::rig::{Rig, Sent};
use tcp::{Offload, Options};

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
