//! Bytes anywhere in a packet, which may be a chain of buffers.

use memory::Packet;

/// Looks at the bytes from `at` on, as many as `wanted`, part by part: `look` is given how
/// many came before, and the part. Whether the packet has them all.
fn visit(packet: &mut Packet, at: usize, wanted: usize, mut look: impl FnMut(usize, &mut [u8])) -> bool {
    let (mut skipped, mut seen) = (at, 0);
    let mut segment = Some(packet);
    while let Some(here) = segment {
        let length = here.len();
        if skipped < length {
            let end = length.min(skipped + (wanted - seen));
            look(seen, &mut here[skipped..end]);
            seen += end - skipped;
        }
        skipped = skipped.saturating_sub(length);
        if seen == wanted {
            return true;
        }
        segment = here.next_mut();
    }
    seen == wanted
}

/// Writes bytes into a packet, from `at` on: as far as it goes.
pub fn write_at(packet: &mut Packet, at: usize, bytes: &[u8]) {
    visit(packet, at, bytes.len(), |before, part| part.copy_from_slice(&bytes[before..before + part.len()]));
}

/// The bytes of a packet from `at` on; `None` where it ends before.
pub fn read_at<const N: usize>(packet: &mut Packet, at: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    visit(packet, at, N, |before, part| bytes[before..before + part.len()].copy_from_slice(part))
        .then_some(bytes)
}

/// Changes the bytes of a packet from `at` on, as far as it goes, each by one of `by`.
#[inline]
pub fn change_at<T>(packet: &mut Packet, at: usize, by: &[T], mut change: impl FnMut(&mut u8, &T)) {
    visit(packet, at, by.len(), |before, part| {
        part.iter_mut().zip(&by[before..]).for_each(|(byte, by)| change(byte, by));
    });
}
