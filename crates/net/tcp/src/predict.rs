//! Header prediction (Jacobson, *4BSD TCP header prediction*, 1990): of an open connection of which
//! nothing is lost nearly every segment is the next one in order, acknowledges what was sent, and
//! has nothing else to tell. Such a segment takes a fast path here, which does for it what
//! [`arrive`](Connection::arrive) would do, without asking about all that it is not. Every other
//! segment takes the slow path; both look alike from outside.

use wire::tcp::Flags;

use crate::acknowledge::Told;
use crate::connection::{Connection, Deadline, Io, MaybePacket, NEVER, Recovery, StackShared, State};
use crate::queue::Sent;
use crate::search::Search;
use crate::segment::Segment;
use crate::sequence::is_earlier;
use crate::stack::Stack;

impl Stack {
    /// Takes a segment of a connection.
    #[inline]
    pub(crate) fn arrive(&mut self, index: u32, segment: &Segment, packet: &mut MaybePacket, io: &mut Io) {
        #[cfg(debug_assertions)]
        if !self.predicts {
            return self.arrive_in_general(index, segment, packet, io);
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.is_expected(segment) {
            connection.arrive_expected(index, segment, packet, &mut self.shared, io);
            return self.go_on(index);
        }
        self.arrive_in_general(index, segment, packet, io);
    }

    /// Has all segments take the slow path, or those that are as expected the fast one: for tests,
    /// to which both must look alike.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn predict(&mut self, is_on: bool) {
        self.predicts = is_on;
    }
}

impl Connection {
    /// Whether a segment may take the fast path.
    #[inline]
    pub fn is_expected(&self, segment: &Segment) -> bool {
        let is_plain = segment.flags.without(Flags::PSH) == Flags::ACK
            && segment.sack.as_slice().is_empty()
            && !segment.is_congested;
        let is_on_time = match segment.timestamps {
            Some((clock, _)) => self.is.has_timestamps && !is_earlier(clock, self.peer_clock),
            None => !self.is.has_timestamps,
        };
        let ack = segment.acknowledgement;
        let end = segment.sequence.plus(segment.payload.len() as u32);
        let is_next = segment.sequence == self.receive_next
            && !end.is_after(self.receive_edge)
            && !ack.is_before(self.una)
            && !ack.is_after(self.nxt);
        is_plain && is_on_time && is_next && self.is_smooth()
    }

    /// Whether the connection is open, all that came is in order, and nothing is lost or may be.
    #[inline]
    fn is_smooth(&self) -> bool {
        let is_open = self.state == State::Established && self.recovery == Recovery::Open;
        let is_odd = self.is.is_released
            | self.is.is_reducing
            | (self.is.search == Search::Probes)
            | self.peer_end.is_some()
            | self.probe_end.is_some()
            | self.rack.duplicate_round.is_some();
        let counted = self.lost | self.sacked | self.early.len | u32::from(self.duplicates);
        is_open && self.is.has_sack && self.send_window > 0 && !is_odd && counted == 0
    }

    /// Takes a segment that [is expected](Connection::is_expected).
    #[inline]
    pub fn arrive_expected(
        &mut self,
        index: u32,
        segment: &Segment,
        packet: &mut MaybePacket,
        shared: &mut StackShared,
        io: &mut Io,
    ) {
        self.heard_ns = io.now_ns;
        self.take_clock(segment, io.now_ns);
        let was_full = self.is_limited_by_congestion();
        let has_window_changed = self.take_window(segment);
        self.is.waits_for_more = false;
        if segment.acknowledgement != self.una {
            self.advance_expected(index, segment, was_full, shared, io);
        } else {
            if self.nxt == self.una {
                self.attempts = 0; // somebody answers
                if has_window_changed {
                    self.rtt.doublings = 0;
                    self.set(Deadline::Retransmit, NEVER);
                    self.waits_since_ns = NEVER;
                }
            }
        }
        if !segment.payload.is_empty() {
            self.take_expected_data(index, segment, packet, shared, io);
        }
    }

    /// Takes an acknowledgement of what was on its way.
    #[inline]
    fn advance_expected(
        &mut self,
        index: u32,
        segment: &Segment,
        was_full: bool,
        shared: &mut StackShared,
        io: &mut Io,
    ) {
        let mut told = Told { is_advance: true, ..Told::default() };
        self.una = segment.acknowledgement;
        self.drag_marks();
        while self.take_whole(segment, &mut told, shared, io) {}
        self.take_round_trip(&told, shared, io.now_ns);
        self.count_acknowledged(index, &told, shared);
        let mut is_lost = false;
        if self.in_flight == 0 {
            self.set(Deadline::Reorder, NEVER);
        } else if told.is_news {
            is_lost = self.find_lost(shared, io.now_ns);
        }
        if is_lost || was_full {
            self.set_congestion(&told, was_full, is_lost, false, shared, io.now_ns);
        }
        self.waits_since_ns = if self.nxt == self.una { NEVER } else { io.now_ns };
        self.restart_retransmission(io.now_ns);
        match self.in_flight {
            0 => self.set(Deadline::Probe, NEVER),
            _ => self.arm_probe(io.now_ns),
        }
    }

    /// Takes the first node off the queue as [`take_first`](Connection::take_first) does; one that
    /// was sent once and is acknowledged whole with less work.
    #[inline]
    fn take_whole(
        &mut self,
        segment: &Segment,
        told: &mut Told,
        shared: &mut StackShared,
        io: &mut Io,
    ) -> bool {
        let ack = segment.acknowledgement;
        let Some(node) = shared.nodes.get(self.queue.head) else { return false };
        let (start, end, sent_ns, len) = (node.sequence, node.end(), node.sent_ns, node.len());
        if node.sent != Sent::InFlight || node.is_resent || end.is_after(ack) || !start.is_before(ack) {
            return self.take_first(segment, told, shared, io);
        }
        told.acknowledged += node.payload_len();
        told.delivered += len;
        self.delivered = self.delivered.wrapping_add(1);
        self.in_flight -= len;
        self.measure(segment, told, sent_ns, (start, end), false, io.now_ns);
        if let Some(Some(packet)) = shared.nodes.pop_front(&mut self.queue) {
            io.pool.free_segment(packet);
        }
        end != ack
    }
}
