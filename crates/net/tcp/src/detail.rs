//! What is known of a connection in segments and flags, beyond [`Info`]: what Linux tells by
//! `TCP_INFO`.

use crate::connection::{Connection, Recovery};
use crate::event::Id;
use crate::info::Info;
use crate::queue::Sent;
use crate::stack::Stack;

/// What is known of a connection in segments and flags.
#[derive(Debug, Clone, Copy)]
pub struct Detail {
    /// What is known of it in bytes.
    pub info: Info,
    /// What a loss is repaired by.
    pub recovery: Recovery,
    /// Something arrived behind what did not, or twice, and nothing is taken for lost.
    pub is_disordered: bool,
    /// The window was reduced for congestion that was not a loss, and all that was on its way
    /// then has not arrived yet.
    pub is_reduced: bool,
    /// How many acknowledgements told that segments had arrived in another order.
    pub reorderings: u32,
    /// By how many segments they came too late at most; three where none was seen.
    pub reordering: u32,
    /// Segments that were sent and are not acknowledged.
    pub segments_out: u32,
    /// Those of them of which the other side told that they had come.
    pub segments_sacked: u32,
    /// Those of them that are taken for lost, sent again or not.
    pub segments_lost: u32,
    /// Those of them that were sent again and are on their way.
    pub segments_resent_out: u32,
    /// Segments that have arrived at the other side.
    pub segments_delivered: u32,
    /// Bytes that were not sent.
    pub unsent: u32,
    /// The largest segment that this side told the other of, without options.
    pub advertised_segment: u16,
    /// The largest segment that came.
    pub receive_segment: u32,
    /// How often in a row a closed window was asked about.
    pub window_probes: u8,
    /// How often the retransmission timeout was doubled.
    pub doublings: u8,
    /// By how many bits the other side's windows are shifted.
    pub send_shift: u8,
    /// By how many bits the windows of this side are shifted.
    pub receive_shift: u8,
    /// Timestamps are sent.
    pub has_timestamps: bool,
    /// Selective acknowledgements are sent, and looked at.
    pub has_sack: bool,
    /// Windows are shifted.
    pub has_scale: bool,
    /// Explicit congestion notification (RFC 3168) was agreed on.
    pub has_ecn: bool,
    /// Data came or went with the SYN, and were acknowledged.
    pub has_syn_data: bool,
    /// The next number that is expected of the other side.
    pub receive_next: u32,
    /// Bytes that the other side may send, as it was told.
    pub receive_window: u32,
    /// When data were sent last, on the clock that the stack was given.
    pub sent_ns: i64,
}

impl Stack {
    /// What is known of a connection in segments and flags; `None` when it is no more. It looks
    /// at each segment that is kept.
    pub fn detail(&self, id: Id) -> Option<Detail> {
        let connection = self.connections.get(id.index).filter(|it| it.generation == id.generation)?;
        let mut detail = connection.detail();
        for (_, node) in self.shared.nodes.iter(connection.queue) {
            let is_out = node.sent != Sent::Not;
            detail.segments_out += u32::from(is_out);
            detail.segments_sacked += u32::from(node.sent == Sent::Sacked);
            let is_resent_out = node.sent == Sent::InFlight && node.is_resent;
            detail.segments_resent_out += u32::from(is_resent_out);
            let is_lost = node.sent == Sent::Lost || is_resent_out && connection.recovery != Recovery::Open;
            detail.segments_lost += u32::from(is_lost);
        }
        Some(detail)
    }
}

impl Connection {
    fn detail(&self) -> Detail {
        let is_asking = self.nxt == self.una && self.unsent != crate::queue::NONE;
        Detail {
            info: self.info(),
            recovery: self.recovery,
            is_disordered: self.sacked > 0 || self.duplicates > 0,
            is_reduced: self.is.is_reducing,
            reorderings: self.rack.reorderings,
            reordering: u32::from(self.rack.reordering).max(3),
            segments_out: 0,
            segments_sacked: 0,
            segments_lost: 0,
            segments_resent_out: 0,
            segments_delivered: self.delivered,
            unsent: self.end.since(self.nxt),
            advertised_segment: self.advertised,
            receive_segment: self.receive_segment.into(),
            window_probes: if is_asking { self.attempts } else { 0 },
            doublings: self.rtt.doublings,
            send_shift: self.send_shift,
            receive_shift: self.receive_shift,
            has_timestamps: self.is.has_timestamps,
            has_sack: self.is.has_sack,
            has_scale: self.is.has_scale,
            has_ecn: self.is.has_ecn,
            has_syn_data: self.is.has_syn_data,
            receive_next: self.receive_next.0,
            receive_window: self.receive_edge.since(self.receive_next),
            sent_ns: self.sent_ns,
        }
    }
}
