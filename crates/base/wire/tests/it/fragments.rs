//! A packet's fragments against a reference that knows each byte by itself.

use proptest::prelude::*;
use wire::fragments::{Assembly, Fault, Overlap};

/// Bytes of the longest payload.
const MOST: usize = 400;

/// A fragment that came: its place and length in units of eight bytes, bytes of an uneven end,
/// whether it is the last, and what its bytes are changed by.
type Came = (usize, usize, usize, bool, u8);

/// Bytes one by one.
#[derive(Default)]
struct Reference {
    bytes: Vec<Option<u8>>,
    total: Option<usize>,
}

impl Reference {
    fn take(&mut self, at: usize, bytes: &[u8], is_last: bool) -> Result<(), Fault> {
        let end = at + bytes.len();
        let is_odd = !is_last && (bytes.is_empty() || !bytes.len().is_multiple_of(8));
        let is_behind = self.total.is_some_and(|total| end > total || is_last && end != total);
        if is_odd || is_behind || is_last && end < self.bytes.len() {
            return Err(Fault::Contradiction);
        }
        if end > MOST {
            return Err(Fault::TooLong);
        }
        let there: Vec<u8> = self.bytes.iter().skip(at).take(bytes.len()).copied().flatten().collect();
        if !there.is_empty() && there != bytes {
            return Err(Fault::Overlap);
        }
        self.bytes.resize(self.bytes.len().max(end), None);
        self.bytes[at..end].iter_mut().zip(bytes).for_each(|(place, byte)| *place = Some(*byte));
        self.total = if is_last { Some(end) } else { self.total };
        Ok(())
    }

    fn whole(&self) -> Option<Vec<u8>> {
        self.total.and_then(|_| self.bytes.iter().copied().collect())
    }
}

/// Bytes of a payload, which repeat nowhere near.
fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect()
}

fn came() -> impl Strategy<Value = Came> {
    let changed = prop_oneof![8 => Just(0_u8), 1 => any::<u8>()];
    let tail = prop_oneof![4 => Just(0_usize), 1 => 0_usize..8];
    (0_usize..52, 0_usize..8, tail, prop::bool::weighted(0.15), changed)
}

proptest! {
    #[test]
    fn any_fragments_are_taken_as_by_the_reference(all in prop::collection::vec(came(), 1..30)) {
        let (mut assembly, mut reference) = (Assembly::default(), Reference::default());
        let bytes = payload(MOST + 200);
        for (at, units, tail, is_last, changed) in all {
            let at = at * 8;
            let part: Vec<u8> = bytes[at..at + units * 8 + tail].iter().map(|byte| byte ^ changed).collect();
            let expected = reference.take(at, &part, is_last);
            prop_assert_eq!(assembly.take(at, &part, is_last, MOST, Overlap::Refuse), expected);
            let whole = assembly.is_whole().then(|| assembly.pieces().to_bytes());
            prop_assert_eq!(whole, reference.whole());
        }
    }

    /// In any order, with some of them twice.
    #[test]
    fn the_fragments_of_a_payload_make_it_again(
        len in 1_usize..MOST,
        size in 1_usize..10,
        order in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let bytes = payload(len);
        let mut parts: Vec<(usize, &[u8])> =
            bytes.chunks(size * 8).enumerate().map(|(n, part)| (n * size * 8, part)).collect();
        parts.push(parts[order.index(parts.len())]);
        parts.sort_by_key(|(at, _)| (*at as u64 + 1).wrapping_mul(seed | 1) >> 7);
        let mut assembly = Assembly::default();
        for (n, (at, part)) in parts.iter().enumerate() {
            let is_last = at + part.len() == len;
            prop_assert_eq!(assembly.take(*at, part, is_last, MOST, Overlap::Refuse), Ok(()));
            prop_assert!(n + 2 >= parts.len() || !assembly.is_whole());
        }
        prop_assert!(assembly.is_whole());
        prop_assert_eq!(assembly.pieces().to_bytes(), bytes);
    }
}
