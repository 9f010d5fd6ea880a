//! Sequence numbers of TCP as tcpdump prints them: of a flow's first packets as they are,
//! of later ones counted from the first, unless it was told not to (`-S`).

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Flows that are remembered; with one more all are forgotten.
const MOST: usize = 1 << 18;
/// An acknowledgement above it is not counted from a flow's first byte, where it could be
/// either.
const ABSOLUTE: u32 = 8000;

/// An address and a port.
pub(super) type End = (Ipv4Addr, u16);

/// What the two directions of a flow began with, and where they are.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    first: [u32; 2],
    next: [u32; 2],
}

/// The flows of a file.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: HashMap<(End, End), Flow>,
    /// Whether all numbers of the file are as they were; not known at first.
    is_absolute: Option<bool>,
}

/// What a line says of a segment's numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Numbers {
    pub(super) sequence: u32,
    pub(super) end: u32,
    pub(super) acknowledgement: u32,
    pub(super) is_syn: bool,
    pub(super) is_fin: bool,
}

impl Flows {
    /// Makes the numbers of a segment with an acknowledgement absolute. What selective
    /// acknowledgements in it are counted from.
    pub(super) fn place(&mut self, src: End, dst: End, numbers: &mut Numbers) -> u32 {
        // One of the two directions is the flow's, whichever came first.
        let is_reverse = (src.1, src.0) < (dst.1, dst.0);
        let key = if is_reverse { (src, dst) } else { (dst, src) };
        if self.flows.len() >= MOST && !self.flows.contains_key(&key) {
            self.flows.clear();
        }
        let flow = self.flows.entry(key).or_default();
        let (own, other) = (usize::from(is_reverse), usize::from(!is_reverse));
        let Numbers { sequence, end, acknowledgement, is_syn, is_fin } = numbers;
        if flow.first == [0, 0] || *is_syn {
            flow.first[own] = *sequence;
            flow.first[other] = acknowledgement.wrapping_sub(1);
        } else {
            let is_behind = acknowledgement.wrapping_sub(flow.first[other]) as i32 >= 0;
            let is_absolute = *self.is_absolute.get_or_insert(is_behind && *acknowledgement > ABSOLUTE);
            if *sequence == 0 && *end == 0 {
                (*sequence, *end) = (flow.next[own], flow.next[own]);
            } else if !is_absolute {
                *sequence = sequence.wrapping_add(flow.first[own]);
                *end = end.wrapping_add(flow.first[own]);
            }
            if !is_absolute {
                *acknowledgement = acknowledgement.wrapping_add(flow.first[other]);
            }
        }
        flow.next[own] = end.wrapping_add(u32::from(*is_syn) + u32::from(*is_fin));
        if flow.next[other] == 0 {
            flow.next[other] = *acknowledgement;
        }
        if self.is_absolute == Some(false) { flow.first[other] } else { 0 }
    }
}
