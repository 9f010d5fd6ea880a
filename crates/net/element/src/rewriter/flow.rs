//! A flow: what each of its packets needs, in one line of the cache, and beside it what few
//! packets need.

use super::flow_id::FlowId;
use super::sequence::Shift;

/// How a flow's life is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// By its last packet.
    None,
    /// Whether it streams.
    Datagram,
    /// Whether both sides sent data, and ended.
    Tcp,
}

/// Times in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// How long an idle flow is remembered.
    pub idle: i64,
    /// How long it cannot be forgotten.
    pub guarantee: i64,
    /// How long one in full use is remembered.
    pub busy: i64,
    /// How long one that ended is remembered.
    pub done: i64,
}

/// How long a flow is remembered after its last packet, by what its packets were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// As [`Times::idle`] says.
    Idle,
    /// As [`Times::busy`] says.
    Busy,
    /// As [`Times::done`] says.
    Done,
}

impl Use {
    pub(crate) const ALL: [Use; 3] = [Use::Idle, Use::Busy, Use::Done];

    /// How long such flows are remembered, in milliseconds.
    pub(crate) fn time(self, times: &Times) -> i64 {
        match self {
            Use::Idle => times.idle,
            Use::Busy => times.busy,
            Use::Done => times.done,
        }
    }
}

/// A flow, as far as each of its packets looks at it.
#[derive(Debug, Clone, PartialEq)]
#[repr(align(64))]
pub(crate) struct Flow {
    /// Of packets as they come: forward, and back.
    pub ids: [FlowId; 2],
    /// The entries behind its own in the lists of the table's buckets.
    pub next: [u32; 2],
    /// When its last packet came, in milliseconds.
    pub last: i64,
    /// Where packets leave, forward and back.
    pub outputs: [u32; 2],
    pub member: u32,
    pub input: u32,
    pub map: u8,
    pub protocol: u8,
    pub tracking: Tracking,
    /// Bits and counts of [`tracking`](Self::tracking).
    pub marks: u8,
    /// An annotation of its first packet.
    pub annotation: u8,
    /// Whether sequence numbers shift, as [`Rare::shifts`] says.
    pub is_shifted: bool,
    /// Among which flows it rests, once its guarantee has ended (`order`).
    pub rests: Option<Use>,
}

/// What few packets need of a flow.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// How sequence numbers shift, forward and back.
    pub shifts: Option<Box<[Shift; 2]>>,
    /// When it came, relative to others.
    pub number: u64,
    /// Where both its entries stand among others': one that took another's place has
    /// that one's.
    pub stands: [u64; 2],
}

/// TCP: an end sent FIN, forward; the other one's is the next bit.
pub(crate) const DONE: u8 = 1;
/// TCP: an end sent data, forward; the other one's is the next bit.
pub(crate) const DATA: u8 = 4;

impl Flow {
    /// What packets of a direction become.
    #[inline]
    pub(crate) fn rewritten(&self, back: bool) -> FlowId {
        self.ids[usize::from(!back)].reversed()
    }

    /// Where packets of a direction leave.
    #[inline]
    pub(crate) fn output(&self, back: bool) -> usize {
        self.outputs[usize::from(back)] as usize
    }

    /// How long it is remembered.
    pub(crate) fn in_use(&self) -> Use {
        match self.tracking {
            Tracking::Tcp if self.marks & (3 * DONE) == 3 * DONE => Use::Done,
            Tracking::Tcp if self.marks & (3 * DATA) == 3 * DATA => Use::Busy,
            Tracking::Datagram if self.marks > 6 => Use::Busy,
            _ => Use::Idle,
        }
    }

    /// The directions in which it is found: one where both are the same.
    pub(crate) fn directions(&self) -> &'static [bool] {
        if self.ids[0] == self.ids[1] { &[true] } else { &[false, true] }
    }
}

impl Rare {
    /// How many flows came before it.
    pub(crate) fn place(&self) -> u64 {
        self.number - 1
    }
}

/// Which flow, in which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub flow: u32,
    pub back: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_packet_needs_is_one_line_of_the_cache() {
        assert_eq!((size_of::<Flow>(), size_of::<Option<Flow>>()), (64, 64));
    }
}
